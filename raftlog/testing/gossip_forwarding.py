"""Forwarding of gossip datagrams through the proxy, with cuts, losses and network conditions.

Every broker advertises a port of the proxy. A datagram to this port is forwarded from the sender's port of the proxy,
so that the receiver sees the address that the sender advertises, and answers there. The sender of a datagram is
identified by the port that its broker is bound to; a gossip stream names its sender in the header of its first frame,
and is forwarded like other connections."""

import asyncio
import socket
import struct
from random import Random
from typing import Final, cast

from raftlog.testing.link_state import LinkState, LinkStates
from raftlog.testing.stream import TICK_S

_LENGTH: Final = struct.Struct(">I")
_NODE_AT: Final = slice(20, 24)
"""Position of the sender's node id in a sealed frame (`raftlog.membership.authentication`)."""
_HEAD_BYTES: Final = _LENGTH.size + _NODE_AT.stop


class GossipIdentification:
    """Reader of the caller's node id from the first bytes of a gossip stream."""

    def __init__(self) -> None:
        self._head = b""
        self.node: int | None = None
        self.is_complete = False

    def feed(self, data: bytes) -> None:
        """Read more bytes of the connection; called until its head names the caller."""
        self._head += data[: _HEAD_BYTES - len(self._head)]
        if len(self._head) == _HEAD_BYTES:
            self.node = int.from_bytes(self._head[_LENGTH.size :][_NODE_AT])
            self.is_complete = True


class GossipForwarder:
    """Forwarder of the datagrams of one cluster. `loss`: the share of all datagrams that is dropped."""

    def __init__(self, link_states: LinkStates, random: Random) -> None:
        self._states, self._random = link_states, random
        self.loss = 0.0
        self._ends: dict[int, _ProxyPort] = {}
        self._nodes: dict[tuple[str, int], int] = {}

    async def add(self, node: int, target: tuple[str, int], udp: socket.socket) -> None:
        """Begin to forward the datagrams that arrive at a socket to a broker, which is bound to `target`."""
        self._nodes[target] = node
        end = self._ends[node] = _ProxyPort(self, node, target)
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: end, sock=udp)

    def forward(self, data: bytes, source: tuple[str, int], receiver: "_ProxyPort") -> None:
        """Forward a datagram to the receiver's broker, unless it is lost; also one of an unknown sender."""
        sender = self._nodes.get(source)
        if sender == receiver.node:
            return
        link_state = self._states.get(sender, receiver.node)
        if link_state.is_cut:
            link_state.counters.dropped_datagrams += 1
        elif self._random.random() < self.loss:
            link_state.counters.lost_datagrams += 1
        else:
            via = receiver if sender is None else self._ends[sender]
            self._send(data, link_state, via, receiver.target)

    def _send(self, data: bytes, link_state: LinkState, via: "_ProxyPort", target: tuple[str, int]) -> None:
        """Schedule the deliveries of a datagram, as many as the conditions of its link give: none, one or several."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        number = link_state.next_number()

        def arrive(was_held: bool) -> None:
            """Send the datagram, unless the link was cut in the meantime."""
            if was_held:
                link_state.release(len(data))
                link_state.counters.longest_ms = max(link_state.counters.longest_ms, round((loop.time() - now) * 1000))
            if link_state.is_cut:
                link_state.counters.dropped_datagrams += 1
            else:
                link_state.count_arrival(number)
                via.send(data, target)

        for due in link_state.draw_arrival_times(now, len(data)):
            if due <= now + TICK_S:
                arrive(was_held=False)
            else:
                link_state.held_bytes += len(data)
                link_state.counters.delayed_datagrams += 1
                loop.call_at(due, arrive, True)


class _ProxyPort(asyncio.DatagramProtocol):
    """Port of the proxy that represents one broker."""

    def __init__(self, forwarder: GossipForwarder, node: int, target: tuple[str, int]) -> None:
        self.node, self.target = node, target
        self._forwarder = forwarder
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # uvloop's is none by type

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        self._forwarder.forward(data, (str(addr[0]), int(addr[1])), self)

    def send(self, data: bytes, address: tuple[str, int]) -> None:
        """Send a datagram, if the port is open."""
        if self._transport is not None:
            self._transport.sendto(data, address)
