"""Server that forks processes with raftlog already imported, since imports are most of the cost of a short process.

    test ── command, environment, descriptors ──▶ server ── fork ──▶ watcher ── fork ──▶ the command

Each message is a command of its own: the server and its watchers have no threads, do nothing for a command but start
it, and keep nothing open that is the command's. Descriptors of a message: the one to report on, stdin, stdout, stderr,
and those that the command uses by number. Reported are, as 32-bit numbers, the process id once a signal reaches it, and
in the end its exit code, negative for a signal. When the receiver of the reports closes, the command is killed."""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

TOLD: Final = struct.Struct(">i")
MESSAGE_BYTES_MAX: Final = 1 << 17
FDS_MAX: Final = 16
STREAMS: Final = (0, 1, 2)
_OUT_OF_THE_WAY: Final = 64


def serve(channel: socket.socket, modules: Sequence[str]) -> None:
    """Serve until the other side closes; in a command's process, raise the `SystemExit` of that command."""
    _import(modules)
    while True:
        message, fds, _, _ = socket.recv_fds(channel, MESSAGE_BYTES_MAX, FDS_MAX)
        _reap()
        if not message:
            return
        if os.fork() == 0:
            channel.close()
            _watch(json.loads(message), fds)
        for fd in fds:
            os.close(fd)


def _import(modules: Sequence[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _reap() -> None:
    """Collect watchers that have ended since the last message."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(request: dict[str, Any], fds: list[int]) -> NoReturn:
    child = os.fork()
    if child == 0:
        _run_command(request, fds)
    told, *given = fds
    for fd in given:
        os.close(fd)
    ends = select.poll()
    ends.register(told, 0)
    ends.register(os.pidfd_open(child), select.POLLIN)
    if any(fd == told for fd, _ in ends.poll()):
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if request["session"] else os.kill)(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, TOLD.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _run_command(request: dict[str, Any], fds: list[int]) -> NoReturn:
    """Run the command as `python -m` would; the interpreter exits normally unless the request is hasty."""
    told, *given = fds
    if request["session"]:
        os.setsid()
    os.write(told, TOLD.pack(os.getpid()))
    os.close(told)
    _place_descriptors(given, [*STREAMS, *request["pass_fds"]])
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = ["-m", *request["args"]]
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        sys.exit()
    except SystemExit as end:
        if not request["is_hasty"]:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def _place_descriptors(given: list[int], numbers: list[int]) -> None:
    """Duplicate the descriptors to the numbers that the command expects."""
    apart = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(_OUT_OF_THE_WAY, *numbers) + 1) for fd in given]
    for fd in given:
        os.close(fd)
    for fd, number in zip(apart, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as here:
        serve(here, sys.argv[2:])
