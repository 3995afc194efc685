"""Child processes that end with this command: the brokers of `dev`, the workers of `serve --workers`.

    start → (one ready line on stdout) → runs → end (a signal) | exits

The kernel sends SIGTERM to a child when its parent ends, however the parent ended (Linux)."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from raftlog.cli.outcome import CommandFailed

STOP_SECONDS_MAX: Final = 10.0
OUTPUT_SHOWN_BYTES: Final = 2000
_PR_SET_PDEATHSIG: Final = 1
_ERROR: Final = "error: "


class Child:
    """Child process; its stderr is appended to `log_path`, or without that goes to the stderr of this process.

    `environment`: variables in addition to those of this process."""

    def __init__(
        self,
        name: str,
        command: list[str],
        log_path: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a process with this command; `log_path` gets its standard error (None: it is inherited)."""
        self.name, self.command = name, command
        self._environment = environment
        self._log_path = log_path
        self._log_start = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self, *, own_session: bool = False) -> None:
        """Start the process; Ctrl-C in the terminal reaches it unless it has a session of its own."""
        log = self._open_log()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=None if self._environment is None else {**os.environ, **self._environment},
                start_new_session=own_session,
                preexec_fn=_ParentDeathSignal(os.getpid()) if sys.platform == "linux" else None,
            )
        finally:
            if log is not None:
                log.close()

    async def read_ready_line(self) -> bytes:
        """Wait for the child's ready line and return it. Raises `CommandFailed` if the child exits instead."""
        assert self._process is not None, f"{self.name} has not been started"
        assert self._process.stdout is not None, f"{self.name} has no stdout"
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            raise CommandFailed(f"{self.name} did not start: {self.describe_exit()}")
        return line

    async def wait(self) -> int:
        """Wait until the child exits; return its exit code, negative for a signal."""
        assert self._process is not None, f"{self.name} has not been started"
        return await self._process.wait()

    async def end(self) -> int:
        """Send SIGTERM, and SIGKILL after a timeout; return the exit code.

        A child that is still starting is killed by SIGTERM, which counts as exit code 0."""
        if self._process is None:
            return 0
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                code = await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            return await self._process.wait()
        return 0 if code == -signal.SIGTERM else code

    def describe_exit(self) -> str:
        """Describe the exit: the signal, or the exit code with the error or last line in the child's log."""
        code = self._process.returncode if self._process is not None else None
        assert code is not None, f"{self.name} has not ended"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        text = self._last_error()
        return f"exit code {code}: {text}" if text else f"exit code {code}"

    def _open_log(self) -> IO[bytes] | None:
        """Open the log to append to it, and set `_log_start` to its end; return None if the child has no log."""
        if self._log_path is None:
            return None
        log = self._log_path.open("ab")
        self._log_start = log.tell()
        return log

    def _last_error(self) -> str:
        """Return the last error line in the log of the process; without one its last line."""
        if self._log_path is None:
            return ""
        output = self._log_path.read_bytes()[self._log_start :][-OUTPUT_SHOWN_BYTES:].decode(errors="replace").strip()
        lines = output.splitlines()
        errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
        return [*lines[-1:], *errors[-1:]][-1] if lines else ""

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal with `os.kill`.

        `send_signal` would read the exit code of an ended child, so that asyncio's child watcher does not get it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has exited, and the loop has not been notified yet
                os.kill(self._process.pid, number)


async def run_until(
    stop: asyncio.Event, signals: Iterable[signal.Signals], work: Coroutine[Any, Any, None]
) -> "asyncio.Task[None]":
    """Run `work` until it ends, a signal arrives or `stop` is set; then cancel it, and return its task."""
    loop = asyncio.get_running_loop()
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    stopped, working = loop.create_task(stop.wait()), loop.create_task(work)
    await asyncio.wait([stopped, working], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    working.cancel()
    await asyncio.wait([stopped, working])
    return working


class _ParentDeathSignal:
    """Callable that sets the parent death signal in the child, between fork and exec.

    The C library is loaded in `__init__`, before the fork, because its loading may need locks."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._prctl = ctypes.CDLL(None).prctl

    def __call__(self) -> None:
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != self._parent:  # the parent has exited in the meantime
            os._exit(1)
