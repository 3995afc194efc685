"""Gossip through the proxy: datagrams and streams of each broker, except where a way is cut or a datagram is lost.

Every broker advertises a port of the proxy. A datagram that comes to it is passed on from the port of its sender, so
that whoever gets it sees the address that the sender advertises, and answers there. Who sent it is known from the port
that the broker is bound to; a stream says so in the header of its first frame. Runs in the proxy's process.
"""

import asyncio
import contextlib
import random
import socket
import struct
from typing import Final, cast

_LENGTH: Final = struct.Struct(">I")
_NODE_AT: Final = slice(20, 24)
"""Where a sealed frame has its sender's node id (`raftlog.membership.authentication`)."""
_HEAD_BYTES: Final = _LENGTH.size + _NODE_AT.stop
_HEAD_SECONDS_MAX: Final = 5.0
_CHUNK_BYTES: Final = 1 << 16


class GossipWays:
    """All of a cluster. `loss`: the share of datagrams that disappear."""

    def __init__(self) -> None:
        self._ends: dict[int, _End] = {}
        self._nodes: dict[tuple[str, int], int] = {}
        self._cut: frozenset[tuple[int, int]] = frozenset()
        self._loss = 0.0
        self._servers: list[asyncio.Server] = []

    async def add(self, node: int, target: tuple[str, int], udp: socket.socket, tcp: socket.socket) -> None:
        """Pass on what comes to these sockets to the broker, which is bound to the target."""
        self._nodes[target] = node
        end = self._ends[node] = _End(self, node, target)
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: end, sock=udp)
        self._servers.append(await asyncio.start_server(end.serve, sock=tcp))

    def set_faults(self, cut: frozenset[tuple[int, int]], loss: float) -> None:
        self._cut, self._loss = cut, loss

    def is_cut(self, sender: int | None, receiver: int) -> bool:
        return (sender, receiver) in self._cut

    def pass_on(self, data: bytes, source: tuple[str, int], receiver: "_End") -> None:
        """A datagram for one broker, from another one or from a stranger."""
        sender = self._nodes.get(source)
        is_lost = random.random() < self._loss  # noqa: S311 - no secret
        if is_lost or sender == receiver.node or self.is_cut(sender, receiver.node):
            return
        via = receiver if sender is None else self._ends[sender]
        via.send(data, receiver.target)


class _End(asyncio.DatagramProtocol):
    """The port that stands for one broker."""

    def __init__(self, ways: GossipWays, node: int, target: tuple[str, int]) -> None:
        self.node, self.target = node, target
        self._ways = ways
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # uvloop's is none by type

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        self._ways.pass_on(data, (str(addr[0]), int(addr[1])), self)

    def send(self, data: bytes, address: tuple[str, int]) -> None:
        if self._transport is not None:
            self._transport.sendto(data, address)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A stream to this broker."""
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError), contextlib.closing(writer):
            async with asyncio.timeout(_HEAD_SECONDS_MAX):
                head = await reader.readexactly(_HEAD_BYTES)
            sender = int.from_bytes(head[_LENGTH.size :][_NODE_AT])
            if self._ways.is_cut(sender, self.node):
                await reader.read()  # it goes nowhere, and whoever called finds out by silence
                return
            there_reader, there = await asyncio.open_connection(*self.target)
            with contextlib.closing(there):
                there.write(head)
                await asyncio.wait(
                    [
                        asyncio.ensure_future(self._relay(reader, there, sender, self.node)),
                        asyncio.ensure_future(self._relay(there_reader, writer, self.node, sender)),
                    ],
                )

    async def _relay(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, sender: int, receiver: int) -> None:
        with contextlib.suppress(OSError), contextlib.closing(to):
            while data := await source.read(_CHUNK_BYTES):
                if not self._ways.is_cut(sender, receiver):
                    to.write(data)
                    await to.drain()
