"""Link to one other process over one channel: it reconnects while the process's address is known.

Sends without a connection are lost (Raft messages) or refused (requests): they do not wait for a peer that is
unreachable. The pause between attempts grows and is random (`Backoff`)."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import NamedTuple

from raftlog.backoff import Backoff
from raftlog.errors import RaftlogError
from raftlog.events import event
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.connection import Connection
from raftlog.runtime.rpc.connector import Address, connect, new_outgoing
from raftlog.runtime.rpc.endpoint import Endpoint
from raftlog.runtime.rpc.errors import HandshakeRefused, NotConnected
from raftlog.runtime.rpc.handshake import Channel, Hello, feature_level
from raftlog.runtime.rpc.outgoing import Outgoing
from raftlog.runtime.rpc.tls import TlsContexts
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)


class ChannelStatus(NamedTuple):
    """State of one channel to a peer.

    `feature_level` is the highest one that both sides support; None without a connection."""

    is_connected: bool
    queued_bytes: int
    messages_dropped: int
    connections_made: int
    last_error: str | None
    feature_level: int | None
    host_label: str | None


class Peer:
    """Link to one node over one channel; `start` begins to connect, `close` ends the link for good."""

    def __init__(
        self, endpoint: Endpoint, node: NodeId, channel: Channel, address: Address, tls: TlsContexts | None
    ) -> None:
        """Prepare the connection for one channel to a node, which is reconnected with a growing pause."""
        self._endpoint = endpoint
        self._node, self._channel, self._address = node, channel, address
        self._tls = tls
        self._backoff = Backoff(
            endpoint.config.reconnect_min_ms / 1000, endpoint.config.reconnect_max_ms / 1000, endpoint.random
        )
        self._is_address_new = asyncio.Event()
        self._outgoing: Outgoing | None = None
        """The connection, once its handshake is done."""
        self._dropped = 0
        """Number of Raft messages that were lost without a connection, or by earlier connections."""
        self._connections_made = 0
        self._last_error: str | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect, on the running loop."""
        self._task = self._endpoint.loop.create_task(self._run(), name=f"connect to node {self._node}")

    def set_address(self, address: Address) -> None:
        """Set the node's address, and close a connection to another address."""
        if address == self._address:
            return
        self._address = address
        self._is_address_new.set()
        if self._outgoing is not None:
            self._outgoing.connection.abort(None)

    def send(self, envelopes: Sequence[Envelope]) -> None:
        """Queue Raft messages; without a connection they are lost."""
        if self._outgoing is None:
            self._dropped += len(envelopes)
        else:
            self._outgoing.writer.post_envelopes(envelopes)

    def send_heartbeat(self, heartbeat: ProcessHeartbeat) -> None:
        """Queue a heartbeat; without a connection it is lost."""
        if self._outgoing is not None:
            self._outgoing.writer.post_heartbeat(heartbeat)

    async def request(self, call: Call) -> Answer:
        """Send a request and return its answer.

        Raises `NotConnected`, `Overloaded`, `InvalidArgument` (nothing was sent), `ConnectionLost`, `NoAnswer`
        (unknown), and the errors of the other side."""
        if self._outgoing is None:
            reason = f": {self._last_error}" if self._last_error else ""
            raise NotConnected(f"node {self._node} is not connected{reason}")
        return await self._outgoing.request(call)

    @property
    def connection(self) -> Connection | None:
        return None if self._outgoing is None else self._outgoing.connection

    @property
    def hello(self) -> Hello | None:
        """Introduction of the process at the other end of the connection."""
        return None if self._outgoing is None else self._outgoing.hello

    def status(self) -> ChannelStatus:
        """Return the state of the channel."""
        outgoing = self._outgoing
        if outgoing is None or outgoing.hello is None:
            return ChannelStatus(False, 0, self._dropped, self._connections_made, self._last_error, None, None)
        writer, remote = outgoing.writer, outgoing.hello.identity
        level = feature_level(self._endpoint.identity(), remote)
        return ChannelStatus(
            True,
            writer.queued_bytes,
            self._dropped + writer.messages_dropped,
            self._connections_made,
            self._last_error,
            level,
            remote.host_label,
        )

    def close(self) -> None:
        """Write the waiting messages, and close; `wait_closed` waits for the end."""
        if self._outgoing is not None:
            self._outgoing.writer.flush()
            self._outgoing.connection.close()
        if self._task is not None:
            self._task.cancel()

    @property
    def is_closed(self) -> bool:
        return self._task is None or self._task.done()

    async def wait_closed(self) -> None:
        """Wait until the link has ended after `close`."""
        if self._task is not None:
            await asyncio.wait([self._task])

    # connecting

    async def _run(self) -> None:
        """Connect again and again, with a growing pause that a new address ends."""
        while True:
            self._is_address_new.clear()
            try:
                await self._connect()
            except (OSError, RaftlogError) as error:
                self._log_failure(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._backoff.next_pause_s()):
                    await self._is_address_new.wait()

    async def _connect(self) -> None:
        """Connect and wait until the connection ends."""
        endpoint = self._endpoint
        loop = endpoint.loop
        outgoing = new_outgoing(endpoint, self._node, self._channel)
        await connect(endpoint, outgoing, self._address, self._tls, endpoint.config.handshake_timeout_ms)
        self._outgoing = outgoing
        self._connections_made += 1
        self._last_error = None
        host, port = self._address
        self._log_event("node_connected", address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        connected_at = loop.time()
        endpoint.on_connection(self._node, self._channel, True)
        try:
            await asyncio.wait([outgoing.closed_reason])  # a bare await would cancel the future with this task
        finally:
            self._outgoing = None
            self._dropped += outgoing.writer.messages_dropped
            endpoint.on_connection(self._node, self._channel, False)
        self._backoff.reset(loop.time() - connected_at)
        lost = outgoing.closed_reason.result() or ConnectionResetError("the other side closed the connection")
        self._last_error = _describe_error(lost)
        self._log_event("node_lost", why=self._last_error)

    def _log_event(self, name: str, **fields: str) -> None:
        """Log an event once for a node, not for each channel."""
        if self._channel is Channel.RAFT:
            event(_logger, name, node=self._node, **fields)

    def _log_failure(self, error: OSError | RaftlogError) -> None:
        """Log a failure, unless the last one had the same text."""
        text = _describe_error(error)
        if text != self._last_error:
            is_news = self._channel is Channel.RAFT and not self._connections_made
            level = logging.INFO if is_news else logging.DEBUG
            level = logging.WARNING if isinstance(error, HandshakeRefused) else level
            _logger.log(level, "no connection to node %s for %s: %s", self._node, self._channel.name, text)
        self._last_error = text


def _describe_error(error: Exception) -> str:
    """Return the text of an error, or its type if it has none."""
    return str(error) or type(error).__name__
