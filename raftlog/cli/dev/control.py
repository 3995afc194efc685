"""Control socket of a running `raftlog dev`: a Unix socket in its data directory, for its own user only.

One request for each connection, a line of JSON each way:

    {"order": "nodes"}                                → {"cluster_id": …, "nodes": [… as in the ready line]}
    {"order": "restart", "node_id": 2, "python": …}   → {"pid": …, "stopped_s": …, "ready_s": …}
    a request that is refused                         → {"error": …}

A request continues when its sender disconnects. Served by `dev`; used by `cluster rolling-restart`."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import orjson

from raftlog.cli.outcome import CommandFailed

SOCKET_NAME: Final = "dev.sock"
LINE_BYTES_MAX: Final = 1 << 20
ASK_SECONDS_MAX: Final = 5.0
"""Time from the start of a connection to its request."""
ONLY_ITS_USER: Final = 0o177

Json = dict[str, Any]
Execute = Callable[[Json], Awaitable[Json]]
"""Executor of requests; raises `CommandFailed`."""


class DevControl:
    """Server of the control socket, in `raftlog dev`."""

    def __init__(self, directory: Path, execute: Execute) -> None:
        """Prepare to receive orders through a socket in `directory`; `execute` executes them."""
        self._directory, self._execute = directory, execute
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on the socket; replace an existing one.

        An existing socket is left from an earlier run: only one run at a time has the locks of the nodes'
        directories."""
        self._server = await asyncio.start_unix_server(self._serve, sock=_bind(self._directory), limit=LINE_BYTES_MAX)

    def stop(self) -> None:
        """Stop accepting requests."""
        if self._server is not None:
            self._server.close()
            (self._directory / SOCKET_NAME).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Execute the request of one connection; the answer, or the reason of its refusal, is one line of JSON."""
        try:
            try:
                async with asyncio.timeout(ASK_SECONDS_MAX):
                    request = orjson.loads(await reader.readline())
                if not isinstance(request, dict):
                    raise CommandFailed("a request must be a JSON object")
                answer = await self._execute(request)
            except CommandFailed as error:
                answer = {"error": str(error)}
            except (ValueError, TimeoutError):
                answer = {"error": "the request cannot be read; it must be one line of JSON"}
            with contextlib.suppress(ConnectionError):
                writer.write(orjson.dumps(answer) + b"\n")
                await writer.drain()
        finally:
            writer.close()


def _bind(directory: Path) -> socket.socket:
    """Bind a socket in this directory, for its user only."""
    bound = socket.socket(socket.AF_UNIX)
    # The name of a socket is short, a path may be too long; and no other user may connect before a chmod.
    mask = os.umask(ONLY_ITS_USER)
    try:
        with contextlib.chdir(directory):
            Path(SOCKET_NAME).unlink(missing_ok=True)
            bound.bind(SOCKET_NAME)
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(mask)
    return bound


async def send_request(directory: Path, request: Json) -> Json:
    """Send a request to the `raftlog dev` of a directory, and return its answer. Raises `CommandFailed`."""
    asking = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.chdir(directory):
            asking.connect(SOCKET_NAME)
    except OSError:
        asking.close()
        raise CommandFailed(
            f"no `raftlog dev` runs in {directory}: start it, or name its --data-dir; for brokers under another "
            "supervisor use `raftlog cluster rolling-restart --command`"
        ) from None
    reader, writer = await asyncio.open_unix_connection(sock=asking, limit=LINE_BYTES_MAX)
    try:
        writer.write(orjson.dumps(request) + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise CommandFailed("`raftlog dev` ended before it answered; its output shows the reason")
    answer: Json = orjson.loads(line)
    if "error" in answer:
        raise CommandFailed(str(answer["error"]))
    return answer
