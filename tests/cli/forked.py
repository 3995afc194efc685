"""Runs the command in processes that are forked from one that has imported it already: most of a short run is imports.

    parent ── args, environment, stdin, stdout, stderr ──▶ server ── fork ──▶ the command, a process of its own

The server is a process of one session of tests and has no threads. What it cannot do, such as kill the command or read
its output while it runs, is what `spawn` starts a fresh interpreter for.
"""

import array
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from typing import IO, NoReturn

from raftlog.cli.entry import main

_LENGTH = struct.Struct(">I")
_FDS = 4
_PIPE_BYTES = 64 * 1024
_MODULES = ("raftlog.cli.produce", "raftlog.cli.consume", "raftlog.cli.topic", "raftlog.cli.group", "raftlog.client")


class ForkServer:
    """Made once, closed by whoever made it."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forked", str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )

    def run(
        self, args: list[str], stdin: bytes, env: Mapping[str, str], timeout: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """The command's exit code and output; raises `TimeoutError` when it takes too long."""
        with _given(stdin) as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                request = json.dumps({"args": args, "env": dict(env), "cwd": os.getcwd()}).encode()
                fds = array.array("i", [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()])
                self._ours.sendmsg(
                    [_LENGTH.pack(len(request))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds.tobytes())]
                )
                self._ours.sendall(request)
                theirs.close()
                ours.settimeout(timeout)
                answer = ours.recv(_LENGTH.size)
            assert len(answer) == _LENGTH.size, f"the command {args} ended without saying how"
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(args, _LENGTH.unpack(answer)[0], out.read(), err.read())

    def close(self) -> None:
        self._ours.close()
        self._server.wait(10)


def _given(stdin: bytes) -> IO[bytes]:
    """A pipe with what is to be read; a file of what does not fit into one."""
    if len(stdin) > _PIPE_BYTES:
        file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
        file.write(stdin)
        file.seek(0)
        return file
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(stdin)
    return os.fdopen(reading, "rb")


def serve(channel: socket.socket) -> None:
    """Fork a process for each request until the other side is gone."""
    for name in _MODULES:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        size = _LENGTH.size
        head, ancillary, _, _ = channel.recvmsg(size, socket.CMSG_SPACE(_FDS * array.array("i").itemsize))
        if not head:
            return
        fds = array.array("i", ancillary[0][2])
        request = json.loads(_received(channel, _LENGTH.unpack(head)[0]))
        if os.fork() == 0:
            channel.close()
            _watch(request, fds)
        for fd in fds:
            os.close(fd)


def _received(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += channel.recv(size - len(data))
    return data


def _watch(request: dict[str, object], fds: "array.array[int]") -> NoReturn:
    """Between the server and the command: says how it ended."""
    *streams, told = fds
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(told)
        _command(request, streams)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os.write(told, _LENGTH.pack(code if code >= 0 else 128 - code))
    os._exit(0)


def _command(request: dict[str, object], streams: list[int]) -> NoReturn:
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    args, env = request["args"], request["env"]
    assert isinstance(args, list)
    assert isinstance(env, dict)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(str(request["cwd"]))
    sys.argv = ["raftlog", *args]
    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  # a defect, shown as an interpreter would
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as here:
        serve(here)
