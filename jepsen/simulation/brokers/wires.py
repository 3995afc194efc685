"""Connections of asyncio over the simulated network, for the transports of the product.

    loop.create_connection       a stream to a host's port
    loop.sock_accept             the next stream that arrived at a `ListeningPort`
    loop.connect_accepted_socket an accepted stream as a transport

Hosts are names of nodes. Bytes of one write arrive together, but readers must not rely on that. A writer pauses
while more bytes than its limit are under way, as with a full socket buffer. There is no TLS.
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.network.streams import Stream
from jepsen.simulation.node import Node, Process
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.types import Buffer

SOCKET_BYTES: Final = 64 * 1024
"""Bytes in flight that the sockets of both ends buffer; only further bytes count as the writer's buffer."""
HIGH_BYTES: Final = 64 * 1024
RESUMED_SHARE: Final = 4
"""Divisor: a paused writer continues when its buffer has less than its limit divided by this."""


def service_of(port: int) -> str:
    """Return the network's name of a port."""
    return f"tcp {port}"


def address_of(node: Node) -> str:
    """Return the address that the node's name resolves to."""
    return f"10.0.0.{node.number}"


class StreamTransport(asyncio.Transport):
    """One end of a stream, as an asyncio transport."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: Stream, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer})
        self._loop, self._stream = loop, stream
        self._protocol: asyncio.BufferedProtocol
        self._high_bytes = HIGH_BYTES
        self._is_closing = self._is_lost = self._is_paused = False
        self._is_reading = True
        self._unread = b""
        """Bytes that arrived while the protocol does not read."""

    def begin(self, protocol: asyncio.BufferedProtocol) -> None:
        """Pass the connection, and then its received data, to the protocol."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._stream.start(self._on_message, self._on_lost)

    # what the protocol calls

    def write(self, data: Buffer) -> None:
        """Send data; pause the protocol's writing while too many bytes are pending."""
        if self._is_closing or self._stream.lost is not None:
            return  # as with a real one: the writer learns of the end by `connection_lost`
        self._stream.send(bytes(data))
        if self.get_write_buffer_size() > self._high_bytes and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()
            self._loop.create_task(self._resume_later(), name="a full socket")

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        """Pass unread data to the protocol, and then new data again."""
        self._is_reading = True
        self._loop.call_soon(self._read_unread)

    def get_write_buffer_size(self) -> int:
        """Return the number of pending bytes beyond those that sockets buffer."""
        return max(0, self._stream.pending_bytes - SOCKET_BYTES)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the number of pending bytes above which writing is paused; `low` is ignored."""
        self._high_bytes = HIGH_BYTES if high is None else high

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close the stream and report that to the protocol; sent data still arrives."""
        if not self._is_closing:
            self._is_closing = True
            self._stream.close()
            self._loop.call_soon(self._report_lost, None)

    def abort(self) -> None:
        """Close as `close` does."""
        self.close()

    # what the stream calls

    def _on_message(self, message: object) -> None:
        """Pass received bytes to the protocol, or keep them while it does not read."""
        if not self._is_reading or self._unread:
            self._unread += cast(bytes, message)
            return
        self._read(memoryview(cast(bytes, message)))

    def _read_unread(self) -> None:
        """Pass the kept bytes to the protocol."""
        unread, self._unread = self._unread, b""
        self._read(memoryview(unread))

    def _read(self, data: memoryview) -> None:
        """Pass bytes to the protocol's buffer, piece by piece, and keep the rest if reading is paused."""
        while data and self._is_reading and not self._is_closing:
            room = memoryview(self._protocol.get_buffer(len(data)))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self._protocol.buffer_updated(size)
            data = data[size:]
        if data and not self._is_closing:
            self._unread = bytes(data) + self._unread

    def _on_lost(self, error: Exception) -> None:
        """Report the end of the stream, or its loss, to the protocol."""
        self._is_closing = True
        if isinstance(error, EOFError):
            self._protocol.eof_received()
            self._report_lost(None)
        else:
            self._report_lost(error)

    def _report_lost(self, error: Exception | None) -> None:
        """Call the protocol's `connection_lost`, once."""
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(error)

    async def _resume_later(self) -> None:
        """Wait until few bytes are pending, and resume the protocol's writing."""
        await self._stream.drain(SOCKET_BYTES + self._high_bytes // RESUMED_SHARE)
        self._is_paused = False
        if not self._is_lost:
            self._protocol.resume_writing()


class AcceptedStream:
    """Stand-in for an accepted socket: a stream of the simulated network."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def close(self) -> None:
        self.stream.close()


class ListeningPort:
    """Stand-in for a listening socket: a port of the simulated network, with streams that wait to be accepted."""

    def __init__(self, network: SimulatedNetwork, process: Process, address: tuple[str, int]) -> None:
        self._address = address
        self._arrived: deque[Stream] = deque()
        self._accepter: asyncio.Future[None] | None = None
        self._is_closed = False
        network.listen(process, service_of(address[1]), self._on_stream)

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setblocking(self, flag: bool) -> None:
        """Do nothing: no operation of the port blocks."""

    async def accept(self) -> tuple[AcceptedStream, tuple[str, int]]:
        """Wait for a stream; return it with the peer's name and port 0."""
        while not self._arrived:
            assert self._accepter is None, "one task accepts"
            self._accepter = asyncio.get_running_loop().create_future()
            try:
                await self._accepter
            finally:
                self._accepter = None
        stream = self._arrived.popleft()
        return AcceptedStream(stream), (stream.peer_node.name, 0)

    def close(self) -> None:
        """Close the port and all streams that wait to be accepted."""
        self._is_closed = True
        while self._arrived:
            self._arrived.popleft().close()

    def _on_stream(self, stream: Stream) -> None:
        """Add an arrived stream to those that wait; close it if the port is closed."""
        if self._is_closed:
            stream.close()
            return
        self._arrived.append(stream)
        if self._accepter is not None and not self._accepter.done():
            self._accepter.set_result(None)


class WiredLoop(VirtualLoop):
    """Virtual loop whose processes can connect to each other over the network given by `wire`."""

    network: SimulatedNetwork
    hosts: Mapping[str, Node]

    def wire(self, network: SimulatedNetwork, nodes: Sequence[Node]) -> None:
        """Connect the nodes, by their names and addresses."""
        self.network = network
        self.hosts = {node.name: node for node in nodes} | {address_of(node): node for node in nodes}

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Return the simulated address of a host name in the form of `socket.getaddrinfo`."""
        node = self.hosts.get(host)
        if node is None:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} is not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address_of(node), port or 0))]

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> tuple[StreamTransport, asyncio.BufferedProtocol]:
        """Connect to a host's port; return the transport and its protocol. Raises `OSError`."""
        source, destination = self.process, self.hosts.get(host)
        assert source is not None, "the harness makes no connections"
        if destination is None:
            raise OSError(errno.EHOSTUNREACH, f"there is no host {host}")
        stream = await self.network.connect(source, destination, service_of(port))
        return self._begin(stream, protocol_factory(), (host, port))

    async def sock_accept(self, sock: Any) -> tuple[Any, Any]:
        """Return the next stream of a `ListeningPort`, with the peer's address."""
        assert isinstance(sock, ListeningPort), sock
        return await sock.accept()

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BufferedProtocol], sock: Any
    ) -> tuple[StreamTransport, asyncio.BufferedProtocol]:
        """Return the transport and the protocol of an accepted stream."""
        assert isinstance(sock, AcceptedStream), sock
        return self._begin(sock.stream, protocol_factory(), (sock.stream.peer_node.name, 0))

    def _begin(
        self, stream: Stream, protocol: asyncio.BufferedProtocol, peer: tuple[str, int]
    ) -> tuple[StreamTransport, asyncio.BufferedProtocol]:
        """Connect the stream to the protocol; return the transport and the protocol."""
        transport = StreamTransport(self, stream, peer)
        transport.begin(protocol)
        return transport, protocol
