"""Listener of the RPC port: it accepts connections and owns them until they are closed.

    strangers and probes ≤ strangers_max,
    at most one connection for each peer and channel but probes (a new one replaces the old one)

Sockets are accepted here and not by the loop's server, because then the source of a failed TLS handshake is known: a
connection is a stranger from its first byte on, and one that does not complete TLS in time is aborted and counted as a
protocol error like any other."""

import asyncio
import logging
import socket
from collections.abc import Coroutine
from typing import Any, Final

from raftlog.runtime.rpc.accepted_connection import AcceptedConnection
from raftlog.runtime.rpc.connection import Connection
from raftlog.runtime.rpc.endpoint import Endpoint, bounds_of_strangers
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.handshake import Channel
from raftlog.runtime.rpc.tls import TlsContexts
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

_BACKLOG: Final = 128
_ACCEPT_PAUSE_S: Final = 1.0
"""Pause after an error for which an immediate retry is useless, such as too many open files."""


class _ListeningSocket(socket.socket):
    """Listening socket that records accepted sockets until the transport takes them.

    The loop may accept one at the moment when the waiting task is cancelled."""

    untaken: dict[socket.socket, None]

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and record its socket in `untaken`."""
        accepted, name = super().accept()
        self.untaken[accepted] = None
        return accepted, name


class Listener:
    """Listener of a transport; `start` binds, `close` stops accepting."""

    def __init__(self, endpoint: Endpoint, tls: TlsContexts | None) -> None:
        """Prepare to accept connections; `tls` is None without TLS."""
        self._endpoint = endpoint
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._untaken: dict[socket.socket, None] = {}
        """Sockets that the loop accepted and the accepting task has not taken yet."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        """Tasks for each listening socket, and for each connection that is being opened."""
        self._opening: dict[asyncio.Task[None], socket.socket] = {}
        """Tasks that open a connection, each with its socket."""
        self._strangers: dict[AcceptedConnection, None] = {}
        """Connections before the end of their handshake (TLS included), and open probes."""
        self._peers: dict[tuple[NodeId, Channel], AcceptedConnection] = {}
        self._all: dict[AcceptedConnection, None] = {}

    def start(self, addresses: list[str], port: int) -> tuple[str, int]:
        """Bind and listen; return the first address and the port.

        Raises `OSError`; then no socket is left open."""
        first = addresses[:1] if port == 0 else addresses  # a free port is free on one address
        try:
            for address in first:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                bound = socket.create_server((address, port), family=family, backlog=_BACKLOG)
                listening = _ListeningSocket(family, bound.type, bound.proto, fileno=bound.detach())
                listening.untaken = self._untaken
                self._sockets.append(listening)
        except OSError:
            self._close_sockets()
            raise
        for each in self._sockets:
            each.setblocking(False)
            self._begin(self._accept_all(each))
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    async def close(self) -> None:
        """Stop accepting, and wait until connections that are being opened are open; the transport then closes them.

        Openings with TLS are cancelled: only they could take long. (An opening without TLS that is cancelled half way
        leaves uvloop with a connection that is never reported.)"""
        for task in list(self._tasks):
            if self._tls is not None or task not in self._opening:
                task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        self._close_sockets()

    def connections(self) -> list[AcceptedConnection]:
        """Return all open connections, before and after their handshake."""
        return list(self._all)

    # the registry of accepted connections

    def add(self, accepted: AcceptedConnection) -> None:
        """Register an open connection."""
        self._all[accepted] = None

    def promote(self, accepted: AcceptedConnection) -> None:
        """Register a connection whose handshake is done; close the older one of its node and channel."""
        assert accepted.hello is not None, "the handshake of a promoted connection is not done"
        if accepted.hello.channel is Channel.PROBE:
            return
        self._strangers.pop(accepted, None)
        key = accepted.hello.identity.node_id, accepted.hello.channel
        old = self._peers.get(key)
        self._peers[key] = accepted
        if old is not None:
            old.connection.abort(None)

    def drop(self, accepted: AcceptedConnection) -> None:
        """Remove a closed connection."""
        self._strangers.pop(accepted, None)
        self._all.pop(accepted, None)
        if accepted.hello is not None:
            key = accepted.hello.identity.node_id, accepted.hello.channel
            if self._peers.get(key) is accepted:
                del self._peers[key]

    # accepting

    async def _accept_all(self, listening: socket.socket) -> None:
        """Accept connections until the task is cancelled; close those above the bound on strangers."""
        loop = self._endpoint.loop
        while True:
            try:
                accepted, name = await loop.sock_accept(listening)
                self._untaken.pop(accepted, None)
            except OSError as error:
                _logger.error("the RPC port cannot accept connections: %s; it tries again in 1 s", error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            source = str(name[0])
            if len(self._strangers) >= self._endpoint.config.strangers_max:
                accepted.close()
                self._record_protocol_error(source, "too many connections that have not introduced themselves")
            else:
                task = self._begin(self._open(accepted, source))
                self._opening[task] = accepted

    async def _open(self, accepted: socket.socket, source: str) -> None:
        """Open a connection over an accepted socket, with TLS if it is configured."""
        endpoint, config = self._endpoint, self._endpoint.config
        connection = Connection(endpoint.loop, config, bounds_of_strangers(config), endpoint.receive_budget)
        stranger = connection.handler = AcceptedConnection(endpoint, self, connection)
        self._strangers[stranger] = None
        try:
            if self._tls is None:
                await endpoint.loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                timeout_s = config.handshake_timeout_ms / 1000
                await endpoint.loop.connect_accepted_socket(
                    lambda: connection, accepted, ssl=self._tls.server, ssl_handshake_timeout=timeout_s
                )
        except OSError as error:
            self._strangers.pop(stranger, None)
            self._record_protocol_error(source, f"no TLS: {_describe_failure(error)}")

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that `close` waits for."""
        task: asyncio.Task[None] = self._endpoint.loop.create_task(work, name="the RPC port")
        self._tasks[task] = None
        task.add_done_callback(self._finish_task)
        return task

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        """Remove an ended task; close the socket of a cancelled opening, and report an error."""
        del self._tasks[task]
        opened = self._opening.pop(task, None)
        if opened is not None and task.cancelled():  # it may have had no step to close the socket
            opened.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._endpoint.loop.call_exception_handler(
                {"message": "the RPC port failed", "exception": error, "task": task}
            )

    def _record_protocol_error(self, source: str, reason: str) -> None:
        """Count a connection that broke the protocol, and log it at a bounded rate."""
        self._endpoint.protocol_errors.add(source, reason, self._endpoint.loop.time())

    def _close_sockets(self) -> None:
        """Close the listening sockets, and accepted ones that have no connection yet."""
        for each in (*self._sockets, *self._untaken):
            each.close()
        self._sockets.clear()
        self._untaken.clear()


def check_stalls(connections: list[Connection], now: float) -> None:
    """Abort connections on which a frame was begun and is not continued."""
    for connection in connections:
        if connection.is_stalled(now):
            connection.abort(BadFrame("a frame was begun, and the rest of it did not come"))


def _describe_failure(error: OSError) -> str:
    """Return the text for a failed TLS handshake; uvloop's error is empty if the other side ended it."""
    return str(error) or (
        f"the other side ended the handshake ({type(error).__name__}): it uses no TLS, or does not accept this "
        "broker's certificate, whose subject alternative names must have the address at which it connects"
    )
