"""Client of the fork server for tests: `popen` replaces `subprocess.Popen`, `run` replaces `subprocess.run`.

Commands that cannot be forked get an interpreter of their own: another interpreter, and an environment that affects the
start of an interpreter or a library."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any, Self

from tests.forked.server import TOLD

_BEFORE_MAIN = ("PYTHON", "LD_", "MALLOC_")
"""Variables with these names count when a process begins, and not afterwards."""
_END_SECONDS_MAX = 10.0
_PIPE_BYTES = 64 * 1024


class ForkedProcess:
    """Counterpart of `subprocess.Popen` with the methods that tests use; any thread may wait for it."""

    def __init__(self, args: Sequence[str], told: socket.socket, pipes: Sequence[IO[bytes] | None]) -> None:
        self.args = args
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = pipes
        self._told = told
        self._lock = threading.Lock()
        self.pid = self._receive_number()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()

    def poll(self) -> int | None:
        return self._read_exit_code(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read_exit_code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def communicate(self) -> tuple[bytes, bytes]:
        """Return the rest of the output, read until the process ends."""
        said: dict[int, bytes] = {}
        readers = [
            threading.Thread(target=lambda at, pipe: said.update({at: pipe.read()}), args=(at, pipe))
            for at, pipe in enumerate((self.stdout, self.stderr))
            if pipe is not None
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.wait()
        return said.get(0, b""), said.get(1, b"")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_exit_code(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._is_message_ready(timeout):
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._receive_number()
                    self._told.close()
        return self.returncode

    def _is_message_ready(self, timeout: float | None) -> bool:
        told = select.poll()
        try:
            told.register(self._told, select.POLLIN)
        except ValueError:  # another thread has read it, and closed it
            return True
        return bool(told.poll(None if timeout is None else timeout * 1000))

    def _receive_number(self) -> int:
        number = self._told.recv(TOLD.size)
        assert len(number) == TOLD.size, f"{self.args} ended without saying how"
        return int(TOLD.unpack(number)[0])


class ForkServer:
    """Server that is started with its first process; its creator closes it."""

    def __init__(self, modules: Sequence[str], *flags: str) -> None:
        """Set the modules to import, and flags of the interpreter for all its processes."""
        self._command = [sys.executable, *flags, "-m", "tests.forked.server"]
        self._modules = modules
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def popen(
        self,
        args: Sequence[str],
        *,
        stdin: int | IO[bytes] | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        start_new_session: bool = False,
    ) -> "ForkedProcess | subprocess.Popen[bytes]":
        """Run `python [-P] -m MODULE …`, forked if that is equivalent; start any other command as usual."""
        python, *rest = args
        environment = dict(os.environ if env is None else env)
        is_module = "-m" in rest[:2]
        if (
            python != sys.executable
            or not is_module
            or _startup_variables(environment) != _startup_variables(os.environ)
        ):
            return subprocess.Popen(
                args,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
                pass_fds=pass_fds,
                start_new_session=start_new_session,
            )
        request = {"env": environment, "pass_fds": list(pass_fds), "session": start_new_session, "is_hasty": False}
        with ExitStack() as stack:
            ends = [_Stream(number, given, stack) for number, given in enumerate((stdin, stdout, stderr))]
            told = self._begin(rest, request, [*(end.theirs for end in ends), *pass_fds])
        return ForkedProcess(args, told, [end.ours for end in ends])

    def run(
        self, module: str, args: Sequence[str], stdin: bytes, env: Mapping[str, str], timeout: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run `python -m MODULE ARGS…` to its end; its exit code is that of a shell. Raises `TimeoutExpired`."""
        with _open_input(stdin) as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            request = {"env": dict(env), "pass_fds": [], "session": False, "is_hasty": True}
            command = ["-m", module, *args]
            told = self._begin(command, request, [given.fileno(), out.fileno(), err.fileno()])
            code = ForkedProcess(command, told, [None] * 3).wait(timeout)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(args, code if code >= 0 else 128 - code, out.read(), err.read())

    def begin(
        self, module: str, args: Sequence[str], env: Mapping[str, str], cwd: str, fds: Sequence[int]
    ) -> ForkedProcess:
        """Start `python -m MODULE ARGS…` in that directory, with these three descriptors as its streams."""
        request = {"env": dict(env), "cwd": cwd, "pass_fds": [], "session": False, "is_hasty": True}
        command = ["-m", module, *args]
        return ForkedProcess(command, self._begin(command, request, list(fds)), [None] * 3)

    def close(self) -> None:
        if self._channel is not None and self._server is not None:
            self._channel.close()
            self._server.wait(_END_SECONDS_MAX)

    def _begin(self, command: list[str], request: dict[str, Any], fds: list[int]) -> socket.socket:
        """Start a command; return the socket that delivers its process id and its exit code."""
        flag, module, *args = command if command[0] == "-m" else command[1:]
        assert flag == "-m", f"not a module: {command}"
        message = json.dumps({"cwd": os.getcwd(), **request, "module": module, "args": args}).encode()
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            if self._channel is None:
                self._channel = self._start()
            socket.send_fds(self._channel, [message], [theirs.fileno(), *fds])
        return ours

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [*self._command, str(theirs.fileno()), *self._modules],
                pass_fds=[theirs.fileno()],
                # Its streams are buffered as those of a process are that no terminal reads.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # Ctrl-C is for the tests, which then end what they have started.
                start_new_session=True,
            )
        return ours


class _Stream:
    """Standard stream of the command: the descriptor for it, and the other end if it is a pipe."""

    def __init__(self, number: int, given: int | IO[bytes] | None, stack: ExitStack) -> None:
        self.ours: IO[bytes] | None = None
        if given == subprocess.PIPE:
            reading, writing = os.pipe()
            ours, self.theirs = (writing, reading) if number == 0 else (reading, writing)
            self.ours = os.fdopen(ours, "wb", 0) if number == 0 else os.fdopen(ours, "rb")
            stack.callback(os.close, self.theirs)
        elif given == subprocess.DEVNULL:
            self.theirs = os.open(os.devnull, os.O_RDWR)
            stack.callback(os.close, self.theirs)
        elif given is None or isinstance(given, int):
            self.theirs = number if given is None else given
        else:
            self.theirs = given.fileno()


def _startup_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_BEFORE_MAIN)}


def _open_input(stdin: bytes) -> IO[bytes]:
    """Return a pipe with the input, or a file if the input does not fit into a pipe."""
    if len(stdin) > _PIPE_BYTES:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
        file.write(stdin)
        file.seek(0)
        return file
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(stdin)
    return os.fdopen(reading, "rb")
