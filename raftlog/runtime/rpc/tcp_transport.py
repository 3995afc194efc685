"""The transport between processes over TCP: Raft messages, heartbeats and requests, by node id.

    TcpTransport(identity, random, credentials=credentials_of(secret), tls=load_tls(files))
    transport.on_envelopes, on_heartbeat, on_connection, serve = …          before the start; called on the loop
    await transport.start("10.0.0.1", 8083)
    transport.set_addresses({2: ("10.0.0.2", 8083), 3: ("10.0.0.3", 8083)})

Each process makes two connections to every other one, for Raft and requests and for bulk, and sends on those it made;
answers return on the connection of their request. `send` and `send_heartbeat` never block and never fail. Each side
proves its identity in the handshake (`authentication`), so it listens only with a cluster secret, or with a certificate
that names its node; and without TLS on loopback only, unless `insecure` is given.

    NotConnected, Overloaded, InvalidArgument: definitely not sent      ConnectionLost, NoAnswer: unknown
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Generic, NamedTuple, TypeVar

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.runtime.rpc.addresses import check_reachable, resolve
from raftlog.runtime.rpc.authentication import Credentials
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.connection import Connection
from raftlog.runtime.rpc.connector import Address, connect, new_outgoing
from raftlog.runtime.rpc.endpoint import Endpoint
from raftlog.runtime.rpc.errors import HandshakeRefused, NotConnected
from raftlog.runtime.rpc.frames.bulk_codec import call_of, result_of
from raftlog.runtime.rpc.handshake import Channel, HandshakeRefusal, PeerIdentity
from raftlog.runtime.rpc.listener import Listener, check_stalls
from raftlog.runtime.rpc.memory import PeerMemory
from raftlog.runtime.rpc.peer import ChannelStatus, Peer
from raftlog.runtime.rpc.tls import TlsContexts
from raftlog.runtime.rpc.traffic import TrafficTotals, sum_totals
from raftlog.runtime.transfer.bulk import BulkRequest
from raftlog.runtime.transport import Envelope, ProcessHeartbeat, Transport
from raftlog.types import NodeId

_H = TypeVar("_H")
_STALL_CHECK_S = 1.0
NO_PROOF = (
    "other brokers cannot authenticate this one: give all of them the same --cluster-secret-file "
    "(`raftlog cluster secret create FILE` makes one), or certificates whose URI names are raftlog:node:<node id>"
)


class PeerStatus(NamedTuple):
    """State of the links to a node."""

    node: NodeId
    address: Address
    raft: ChannelStatus
    bulk: ChannelStatus


class _Links(NamedTuple):
    """Links to one node, by channel."""

    raft: Peer
    bulk: Peer


class _Hook(Generic[_H]):
    """Descriptor: attribute of the transport that is stored in its endpoint under the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, transport: "TcpTransport", owner: type | None = None) -> _H:
        return getattr(transport._endpoint, self._name)  # type: ignore[no-any-return]

    def __set__(self, transport: "TcpTransport", hook: _H) -> None:
        setattr(transport._endpoint, self._name, hook)


class TcpTransport(Transport):
    """Transport of one process.

    `identity` is called for every introduction; `random` must differ from start to start, because it also distinguishes
    the starts of a process. `draw_nonce(n)` returns n unpredictable bytes."""

    def __init__(
        self,
        identity: Callable[[], PeerIdentity],
        random: Random,
        config: RpcConfig | None = None,
        *,
        credentials: Credentials,
        draw_nonce: Callable[[int], bytes] = secrets.token_bytes,
        tls: TlsContexts | None = None,
        insecure: bool = False,
    ) -> None:
        """Create a stopped transport.

        `identity` returns the present identity of this process. With `insecure` it listens beyond loopback without
        TLS."""
        self._endpoint = Endpoint(identity, random, draw_nonce, config or RpcConfig(), credentials)
        self._tls = tls
        self._is_insecure = insecure
        self._listener = Listener(self._endpoint, tls)
        self._addresses: dict[NodeId, Address] = {}
        self._links: dict[NodeId, _Links] = {}
        self._closing: list[Peer] = []
        self._stall_timer: asyncio.TimerHandle | None = None
        self._is_started = False
        self._probes: dict[Connection, None] = {}
        self.address: Address | None = None
        """Address of the listener after the start; None if the transport does not listen."""
        self.messages_unaddressed = 0
        """Number of Raft messages to nodes without a known address; they were dropped."""

    # hooks

    on_envelopes = _Hook[Callable[[NodeId, Sequence[Envelope]], None]]()
    """Called with the messages of each frame and the node that sent them."""
    on_heartbeat = _Hook[Callable[[NodeId, ProcessHeartbeat], None]]()
    """Called with each heartbeat of a process."""
    on_connection = _Hook[Callable[[NodeId, Channel, bool], None]]()
    """Called when a channel to a node has completed its handshake, and when it is closed."""
    on_refused = _Hook[Callable[[HandshakeRefusal], None]]()
    """Called when another process refuses a connection with us."""
    serve = _Hook[Callable[[NodeId, object], Awaitable[object]]]()
    """Answers a request: a `Call` with an `Answer`, a bulk request as `Driver.serve` does. A `RaftlogError` that it
    raises is raised at the caller."""
    serve_probe = _Hook[Callable[[PeerIdentity, object], Awaitable[object]]]()
    """Answers a request of a probe, with the claimed identity of the process; by default as `serve` does."""

    @property
    def memory(self) -> PeerMemory:
        """Boot epochs and journal positions of other disks; the owner stores them in the file `peers`."""
        return self._endpoint.memory

    # start and stop

    async def start(self, host: str, port: int | None) -> None:
        """Listen, and begin to connect to peers. Port 0: any free port; None: do not listen.

        Raises `InvalidArgument`, and `OSError` when the address cannot be bound."""
        loop = self._endpoint.loop = asyncio.get_running_loop()
        if port is not None:
            if not (self._endpoint.credentials.keys or (self._tls is not None and self._tls.certified)):
                raise InvalidArgument(NO_PROOF)
            addresses = await resolve(loop, host)
            check_reachable(host, addresses, self._tls is not None, self._is_insecure)
            self.address = self._listener.start(addresses, port)
        self._is_started = True
        self._stall_timer = loop.call_later(_STALL_CHECK_S, self._check_stalls)
        self.set_addresses(self._addresses)

    def set_addresses(self, addresses: Mapping[NodeId, Address]) -> None:
        """Set all other nodes and their addresses; close connections to nodes outside `addresses`."""
        self._addresses = dict(addresses)
        if not self._is_started:
            return
        for node in [node for node in self._links if node not in addresses]:
            self._close_links(self._links.pop(node))
        for node, address in addresses.items():
            links = self._links.get(node)
            if links is None:
                links = self._links[node] = _Links(
                    self._make_peer(node, Channel.RAFT, address), self._make_peer(node, Channel.BULK, address)
                )
                for peer in links:
                    peer.start()
            else:
                for peer in links:
                    peer.set_address(address)

    def drop_outsiders(self) -> None:
        """Close the connections with processes whose disk is retired, or not the one assigned to their node id.

        `PeerMemory.is_allowed` decides."""
        memory = self.memory
        for accepted in self._listener.connections():
            hello = accepted.hello
            if hello is not None and hello.channel is not Channel.PROBE and not memory.is_allowed(hello):
                accepted.connection.abort(None)
        for links in self._links.values():
            for peer in links:
                if peer.hello is not None and not memory.is_allowed(peer.hello) and peer.connection is not None:
                    peer.connection.abort(None)

    def limit_bulk(self, bytes_per_s: int | None) -> None:
        """Set the total rate of all bulk connections; None restores the rate in the settings."""
        self._endpoint.limit_bulk(bytes_per_s)

    async def close(self) -> None:
        """Write waiting messages for up to `close_timeout_ms`; cancel served requests, and close all connections."""
        endpoint = self._endpoint
        endpoint.is_closing = True
        self._is_started = False
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        await self._listener.close()
        connections = [accepted.connection for accepted in self._listener.connections()]
        for accepted in self._listener.connections():
            accepted.end()
        for connection in self._probes:
            connection.abort()
        for links in self._links.values():
            connections += [peer.connection for peer in links if peer.connection is not None]
            self._close_links(links)
        self._links.clear()
        for peer in self._closing:
            await peer.wait_closed()
        for task in endpoint.tasks:
            task.cancel()
        if endpoint.tasks:
            await asyncio.wait(list(endpoint.tasks))
        await self._wait_closed(connections)

    def _make_peer(self, node: NodeId, channel: Channel, address: Address) -> Peer:
        """Create the connection for a channel to a node."""
        return Peer(self._endpoint, node, channel, address, self._tls)

    def _close_links(self, links: _Links) -> None:
        """Close the links to a node; `close` waits for those that are still closing."""
        for peer in links:
            peer.close()
        self._closing = [peer for peer in (*self._closing, *links) if not peer.is_closed]

    async def _wait_closed(self, connections: list[Connection]) -> None:
        """Wait until the connections are closed; abort those that are not closed in time."""
        futures = [connection.closed for connection in connections]
        if not futures:
            return
        await asyncio.wait(futures, timeout=self._endpoint.config.close_timeout_ms / 1000)
        for connection in connections:
            connection.abort()
        await asyncio.wait(futures)

    def _check_stalls(self) -> None:
        """Abort stalled connections, periodically."""
        loop = self._endpoint.loop
        self._stall_timer = loop.call_later(_STALL_CHECK_S, self._check_stalls)
        connections = [accepted.connection for accepted in self._listener.connections()]
        for links in self._links.values():
            connections += [peer.connection for peer in links if peer.connection is not None]
        check_stalls(connections, loop.time())

    # the transport

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Queue messages for a node; drop and count them if its address is unknown."""
        links = self._links.get(node)
        if links is None:
            self.messages_unaddressed += len(envelopes)
        elif envelopes:
            links.raft.send(envelopes)

    def send_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        """Queue a heartbeat for a node; drop it if the node's address is unknown."""
        links = self._links.get(node)
        if links is not None:
            links.raft.send_heartbeat(heartbeat)

    async def request(self, node: NodeId, request: object) -> object:
        """Send a request and return its answer.

        A request of `runtime.transfer.bulk` goes over the bulk channel, a `Call` over the Raft channel and returns an
        `Answer`."""
        links = self._links.get(node)
        if links is None:
            raise NotConnected(f"node {node} has no address here")
        if isinstance(request, Call):
            return await links.raft.request(request)
        if not isinstance(request, BulkRequest):
            raise InvalidArgument(f"{type(request).__name__} is not a request that can be sent")
        answer = await links.bulk.request(call_of(request, self._endpoint.config.bulk_timeout_ms))
        return result_of(request, answer)

    async def call(self, node: NodeId, call: Call) -> Answer:
        """Send a `Call` as `request` does, and return its `Answer`."""
        answer = await self.request(node, call)
        assert isinstance(answer, Answer), f"{call.name} was answered with {type(answer).__name__}"
        return answer

    async def probe(self, address: Address, call: Call) -> tuple[PeerIdentity, Answer]:
        """Send a request to an address over a connection of its own; return the identity there, and the answer.

        Raises `NotConnected` and `HandshakeRefused` (nothing was sent; its reason is `SELF` if the address leads to
        this process), `ConnectionLost`, `NoAnswer`, and the errors of the other side."""
        outgoing = new_outgoing(self._endpoint, None, Channel.PROBE)
        connection = outgoing.connection
        self._probes[connection] = None
        try:
            await connect(self._endpoint, outgoing, address, self._tls, call.timeout_ms)
            assert outgoing.hello is not None, f"{address} was reached without a handshake"
            return outgoing.hello.identity, await outgoing.request(call)
        except HandshakeRefused:
            raise
        except OSError as error:
            if isinstance(error, RaftlogError):
                raise
            raise NotConnected(f"{address[0]}:{address[1]} cannot be reached: {error}") from None
        finally:
            connection.abort()
            del self._probes[connection]

    # status

    def peers(self) -> list[PeerStatus]:
        """Return the state of the links to all nodes with an address, by node id."""
        return [
            PeerStatus(node, self._addresses[node], links.raft.status(), links.bulk.status())
            for node, links in sorted(self._links.items())
        ]

    def traffic(self) -> TrafficTotals:
        """Return the counts of messages and bytes to and from other processes since the start."""
        return sum_totals({channel.name.lower(): traffic for channel, traffic in self._endpoint.traffic.items()})

    def outsiders(self) -> list[PeerIdentity]:
        """Return the authenticated processes on the Raft channel that are not known as members of the cluster."""
        hellos = [accepted.hello for accepted in self._listener.connections()]
        return [
            hello.identity
            for hello in hellos
            if hello is not None
            and hello.channel is Channel.RAFT
            and not self.memory.is_member(hello.identity.node_id, hello.identity.disk_uuid)
        ]

    @property
    def messages_from_outsiders(self) -> int:
        """Number of Raft messages that were dropped because their senders are not members of the cluster."""
        return self._endpoint.messages_from_outsiders

    @property
    def receive_budget(self) -> MemoryBudget:
        """Memory budget for frames while they arrive."""
        return self._endpoint.receive_budget

    @property
    def protocol_errors(self) -> int:
        """Number of connections that ended because the other side violated the protocol or is not in the cluster."""
        return self._endpoint.protocol_errors.count
