"""Program `raftlog` for shells that runs in a process forked from one that has already imported raftlog.

An interpreter that imports raftlog costs a quarter of a second of CPU for each command that a page shows. The program
sends its arguments, environment, directory and streams to this process, which asks the fork server, and ends with the
exit code that it gets. Programs that a page stops by Ctrl-C need a process group of their own and do not use it.
"""

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Final, Self

from tests.forked.client import ForkServer

_PROGRAM: Final = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
    there.connect({path!r})
    socket.send_fds(there, [json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()], [0, 1, 2])
    os._exit(int(there.recv(16) or 1))
"""
_REQUEST_BYTES_MAX: Final = 256 * 1024
_STREAMS: Final = 3


class ForkedCommand:
    """Directory with that program for `PATH`, usable in a `with` block."""

    def __init__(self, directory: Path, fork_server: ForkServer) -> None:
        self.directory = directory
        self._fork_server = fork_server
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = str(directory / "socket")
        self._listener.bind(path)
        self._listener.listen()
        program = directory / "raftlog"
        program.write_text(_PROGRAM.format(python=sys.executable, path=path))
        program.chmod(0o755)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the listener was shut down
                return
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        with connection:
            message, fds, _, _ = socket.recv_fds(connection, _REQUEST_BYTES_MAX, _STREAMS)
            args, environment, cwd = json.loads(message)
            try:
                process = self._fork_server.begin("raftlog.cli", args, environment, cwd, fds)
            finally:
                for fd in fds:
                    os.close(fd)
            code = process.wait()
            connection.send(str(code if code >= 0 else 128 - code).encode())
