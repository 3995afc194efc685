"""Network of the simulated brokers' gossip, beside that of their connections, and its interference.

    CoupledNetwork  cuts, losses and healing of one network apply to the other as well, or not, by the run's options
    Interference    repeats old datagrams, also to other receivers, and garbles, truncates and forges some
    SimulatedWire   the product's `Wire`, for one process

Called by `cluster`, `machine`, and the faults that block gossip alone."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Final

from jepsen.simulation.brokers.wires import address_of
from jepsen.simulation.network.links import SECOND_NS, LinkConditions
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.network.streams import Stream as NetworkStream
from jepsen.simulation.node import Node, Process
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.membership.wire import DATAGRAM_BYTES_MAX, STREAM_S_MAX, STREAMS_MAX, Address, GossipStream, StreamEnd

GOSSIP_PORT: Final = 7001
SERVICE: Final = "gossip"
KEPT_MAX: Final = 64
LATER_S: Final = (0.0, 20.0)

_logger = logging.getLogger(__name__)


class CoupledNetwork(SimulatedNetwork):
    """Network of the brokers' connections, coupled to `gossip_network`."""

    gossip_network: SimulatedNetwork | None = None
    are_shared = True
    """Whether cuts and link conditions apply to both networks. Healing always applies to both."""

    def attach(self, node: Node) -> None:
        """Connect the node to all others, in both networks."""
        super().attach(node)
        if self.gossip_network is not None:
            self.gossip_network.attach(node)

    def cut(self, source: Node, destination: Node) -> None:
        """Cut the link in this direction, in both networks if they are shared."""
        super().cut(source, destination)
        if self.gossip_network is not None and self.are_shared:
            self.gossip_network.cut(source, destination)

    def set_conditions(self, source: Node, destination: Node, conditions: LinkConditions) -> None:
        """Set the conditions of one direction, in both networks if they are shared."""
        super().set_conditions(source, destination, conditions)
        if self.gossip_network is not None and self.are_shared:
            self.gossip_network.set_conditions(source, destination, conditions)

    def heal(self) -> None:
        """Restore all links of both networks."""
        super().heal()
        if self.gossip_network is not None:
            self.gossip_network.heal()


class Interference:
    """Sender of old and changed datagrams; one of these follows a `share` of all datagrams."""

    def __init__(self, random: Random, share: float) -> None:
        self._random, self._share = random, share
        self._kept: list[bytes] = []

    def send(self, datagram: bytes, send: "Callable[[bytes], None]", later: "Callable[[int, bytes], None]") -> None:
        """Send a datagram by `send`, and perhaps an old or a changed one by `later`, after a delay in nanoseconds."""
        send(datagram)
        random = self._random
        if self._share == 0.0 or random.random() >= self._share:
            return
        if len(self._kept) < KEPT_MAX:
            self._kept.append(datagram)
        else:
            self._kept[random.randrange(KEPT_MAX)] = datagram
        delay_ns = int(random.uniform(*LATER_S) * SECOND_NS)
        later(
            delay_ns,
            random.choice((self._draw_old, self._flip_bit, self._truncate, self._extend, self._forge))(datagram),
        )

    def _draw_old(self, _: bytes) -> bytes:
        """Return a random earlier datagram."""
        return self._random.choice(self._kept)

    def _flip_bit(self, datagram: bytes) -> bytes:
        """Return a copy of the datagram with a flipped bit."""
        changed = bytearray(datagram)
        changed[self._random.randrange(len(changed))] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _truncate(self, datagram: bytes) -> bytes:
        """Return a random prefix of the datagram."""
        return datagram[: self._random.randrange(len(datagram))]

    def _extend(self, datagram: bytes) -> bytes:
        """Return the datagram followed by so many random bytes that it is too long."""
        return datagram + self._random.randbytes(DATAGRAM_BYTES_MAX)

    def _forge(self, datagram: bytes) -> bytes:
        """Return the beginning of the datagram, followed by random bytes."""
        return datagram[:32] + self._random.randbytes(len(datagram))


class SimulatedWire:
    """Gossip socket of one process. Hosts are names of nodes, or their addresses."""

    def __init__(
        self,
        loop: VirtualLoop,
        network: SimulatedNetwork,
        hosts: Mapping[str, Node],
        process: Process,
        interference: Interference,
    ) -> None:
        self.on_datagram: Callable[[bytes, Address], None] = _ignore_datagram
        self.serve: Callable[[GossipStream], Awaitable[None]] = _serve_none
        self.address: Address | None = None
        self.streams_refused = 0
        self._loop, self._network, self._hosts = loop, network, hosts
        self._process, self._interference = process, interference
        self._is_closed = False
        self._serving = 0

    async def start(self, host: str, port: int) -> None:
        """Accept datagrams and streams at this address from now on; port 0 stands for `GOSSIP_PORT`."""
        self.address = host, port or GOSSIP_PORT
        self._network.bind(self._process, SERVICE, self._on_datagram)
        self._network.listen(self._process, SERVICE, self._accept)

    def send(self, datagram: bytes, address: Address) -> None:
        """Send a datagram, with the run's interference; do nothing for an unknown host."""
        node = self._hosts.get(address[0])
        if node is None or self._is_closed:
            return
        self._interference.send(datagram, partial(self._send, node), partial(self._send_later, node))

    def _send(self, node: Node, datagram: bytes) -> None:
        """Send a datagram to a node."""
        self._network.send(self._process, node, SERVICE, datagram)

    def _send_later(self, node: Node, delay_ns: int, datagram: bytes) -> None:
        """Send a datagram to a node after a delay."""
        self._loop.call_at_ns(self._loop.now_ns + delay_ns, self._send, node, datagram)

    async def open(self, address: Address) -> GossipStream:
        """Open a stream to an address. Raises `OSError`, or `TimeoutError` after `STREAM_S_MAX`."""
        node = self._hosts.get(address[0])
        if node is None:
            raise OSError(f"there is no host {address[0]}")
        async with asyncio.timeout(STREAM_S_MAX):
            return _WireStream(await self._network.connect(self._process, node, SERVICE))

    async def close(self) -> None:
        """Send and receive nothing more."""
        self._is_closed = True

    def _on_datagram(self, source: Node, message: object) -> None:
        """Pass a datagram to the product, unless the wire is closed."""
        assert isinstance(message, bytes), message
        if not self._is_closed:
            self.on_datagram(message, (address_of(source), GOSSIP_PORT))

    def _accept(self, stream: NetworkStream) -> None:
        """Serve a stream in a task; close it if the wire is closed or serves too many."""
        if self._is_closed or self._serving >= STREAMS_MAX:
            self.streams_refused += not self._is_closed
            stream.close()
            return
        self._serving += 1
        self._process.spawn(self._serve(_WireStream(stream)), name="gossip")

    async def _serve(self, stream: "_WireStream") -> None:
        """Serve a stream until its end, or for at most `STREAM_S_MAX`."""
        try:
            async with asyncio.timeout(STREAM_S_MAX):
                await self.serve(stream)
        except (OSError, TimeoutError, StreamEnd) as error:
            _logger.debug("gossip: a stream ended early: %r", error)
        finally:
            self._serving -= 1
            stream.close()


class _WireStream:
    """Stream of gossip frames over a stream of the simulated network."""

    def __init__(self, stream: NetworkStream) -> None:
        self.peer: Address = address_of(stream.peer_node), 0
        self._stream = stream

    async def send(self, frame: bytes) -> None:
        """Send a frame, and wait until few bytes are pending."""
        self._stream.send(frame)
        await self._stream.drain()

    async def receive(self) -> bytes:
        """Return the next frame. Raises `StreamEnd` when the other end has closed the stream."""
        try:
            message = await self._stream.receive()
        except EOFError:
            raise StreamEnd("the other side closed the stream") from None
        assert isinstance(message, bytes), message
        return message

    def close(self) -> None:
        self._stream.close()


def _ignore_datagram(_datagram: bytes, _address: Address) -> None:
    return None


async def _serve_none(_stream: GossipStream) -> None:
    """Serve nothing, before the product has set its function."""
    return
