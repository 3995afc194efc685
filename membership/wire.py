"""Transport of sealed bytes: datagrams over UDP, and streams over TCP on the same port.

    stream   a frame there, a frame back, until the caller closes; frame = length (4 bytes, big endian) + sealed

No input is trusted: a length is checked before the frame is read, a silent stream ends, and at most `STREAMS_MAX`
streams are served at once, each for at most `STREAM_S_MAX`. Lost datagrams are not sent again; the sender gets no
answer. The simulator has its own implementation of `Wire`. Called by the agent."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from raftlog.errors import InvalidArgument
from raftlog.membership.names import NameResolver

_logger = logging.getLogger(__name__)

Address = tuple[str, int]

DATAGRAM_BYTES_MAX: Final = 1_200
"""Maximum size of a datagram: with headers it is below the minimum MTU of IPv6 (1,280)."""
FRAME_BYTES_MAX: Final = 262_144
"""The largest frame of a stream."""
STREAMS_MAX: Final = 16
STREAM_S_MAX: Final = 5.0
_PORT_ATTEMPTS: Final = 32
_LENGTH: Final = struct.Struct(">I")
_RECEIVE_BUFFER_BYTES: Final = 1 << 20


class StreamEnd(Exception):
    """The stream has ended: the other side closed it, or broke the protocol."""


class GossipStream(Protocol):
    """Stream of frames between two members. Its methods raise `OSError`, `TimeoutError` and `StreamEnd`."""

    peer: Address
    """Address of the other end's socket."""

    async def send(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    async def receive(self) -> bytes:
        """Return the next frame. Raises `StreamEnd` at the end of the stream."""
        ...

    def close(self) -> None:
        """Close the stream."""
        ...


class Wire(Protocol):
    """Network interface of the agent: datagrams and streams."""

    on_datagram: Callable[[bytes, Address], None]
    """Callback on the loop for every datagram, even for one that is too long."""
    serve: Callable[[GossipStream], Awaitable[None]]
    """Handler of every incoming stream; the stream ends when it returns."""
    address: Address | None
    """Address on which the wire listens; None before `start`."""
    streams_refused: int
    """Streams that were closed because too many were open."""

    async def start(self, host: str, port: int) -> None:
        """Listen at an IP address; port 0 is any free port."""
        ...

    def send(self, datagram: bytes, address: Address) -> None:
        """Send a datagram without waiting; failures are not reported."""
        ...

    async def open(self, address: Address) -> GossipStream:
        """Open a stream; raise `OSError` and `TimeoutError`."""
        ...

    async def close(self) -> None:
        """Close all sockets and streams."""
        ...


class UdpWire(asyncio.DatagramProtocol):
    """Network interface of gossip over UDP and TCP; call `start` on a running loop."""

    def __init__(self) -> None:
        self.on_datagram: Callable[[bytes, Address], None] = lambda datagram, address: None
        self.serve: Callable[[GossipStream], Awaitable[None]] = _close_at_once
        self.address: Address | None = None
        self.streams_refused = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._names = NameResolver()

    async def start(self, host: str, port: int) -> None:
        """Listen at an IP address; port 0 takes any port that is free for both protocols.

        Raises `InvalidArgument`, and `OSError` when it cannot be bound."""
        loop = asyncio.get_running_loop()
        udp, tcp = _bind(host, port)
        try:
            await loop.create_datagram_endpoint(lambda: self, sock=udp)
            self._server = await asyncio.start_server(self._accept, sock=tcp, limit=FRAME_BYTES_MAX)
        except BaseException:
            udp.close()
            tcp.close()
            raise
        self.address = host, int(udp.getsockname()[1])

    async def close(self) -> None:
        """Close all sockets and streams, and accept nothing more."""
        self._names.close()
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(list(self._serving))

    # datagrams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # uvloop's is none by type

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        """Pass a datagram and its sender's address on."""
        self.on_datagram(data, (str(addr[0]), int(addr[1])))

    def error_received(self, exc: Exception) -> None:
        """Ignore errors (a closed port, an unreachable network): missing answers show them as well."""
        _logger.debug("gossip: %s", exc)

    def send(self, datagram: bytes, address: Address) -> None:
        """Send a datagram. Drop it if the wire is closed, the host's name is not resolved, or the system refuses it."""
        ip = self._names.find_ip(address[0])
        if ip is None or self._transport is None or self._transport.is_closing():
            return
        try:
            self._transport.sendto(datagram, (ip, address[1]))
        except (OSError, ValueError) as error:  # uvloop raises ValueError for another address family
            _logger.debug("gossip: nothing can be sent to %s: %s", address, error)

    # streams

    async def open(self, address: Address) -> GossipStream:
        """Open a stream to a member. Raises `OSError` and `TimeoutError`."""
        async with asyncio.timeout(STREAM_S_MAX):
            return _TcpStream(*await asyncio.open_connection(*address, limit=FRAME_BYTES_MAX), address)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve an incoming stream until it ends or `STREAM_S_MAX` have passed; abort it if too many are open."""
        task = asyncio.current_task()
        assert task is not None, "a stream is served by a task"
        if len(self._serving) >= STREAMS_MAX:
            self.streams_refused += 1
            writer.transport.abort()
            return
        self._serving.add(task)
        host, port = (writer.get_extra_info("peername") or ("", 0))[:2]
        stream = _TcpStream(reader, writer, (host, port))
        try:
            async with asyncio.timeout(STREAM_S_MAX):
                await self.serve(stream)
        except (OSError, TimeoutError, StreamEnd) as error:
            _logger.debug("gossip: a stream ended early: %r", error)
        except asyncio.CancelledError:
            pass  # closing; a cancelled handler would be reported by asyncio's streams
        finally:
            self._serving.discard(task)
            stream.close()


class _TcpStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Address) -> None:
        self.peer = peer
        self._reader, self._writer = reader, writer

    async def send(self, frame: bytes) -> None:
        """Send a frame, preceded by its length."""
        assert len(frame) <= FRAME_BYTES_MAX, f"a frame of {len(frame)} bytes"
        self._writer.write(_LENGTH.pack(len(frame)) + frame)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """Return the next frame. Raises `StreamEnd` at the end of the stream and for an oversized frame."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > FRAME_BYTES_MAX:
                raise StreamEnd(f"a frame of {length} bytes, more than {FRAME_BYTES_MAX}")
            return await self._reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise StreamEnd("the other side closed the stream") from None

    def close(self) -> None:
        self._writer.close()


async def _close_at_once(stream: GossipStream) -> None:
    """End an incoming stream at once."""


def _bind(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Return a datagram socket and a listening socket on the same port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(_PORT_ATTEMPTS):
        udp = _bind_socket(family, socket.SOCK_DGRAM, host, port)
        chosen = int(udp.getsockname()[1])
        try:
            tcp = _bind_socket(family, socket.SOCK_STREAM, host, chosen)
        except OSError:
            udp.close()
            if port:
                raise
            continue
        return udp, tcp
    raise InvalidArgument(f"no port of {host} is free for UDP and TCP; give --gossip with one")


def _bind_socket(family: int, kind: int, host: str, port: int) -> socket.socket:
    """Return a non-blocking socket that is bound to this address. Raises `OSError`."""
    made = socket.socket(family, kind)
    try:
        made.setblocking(False)
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            with contextlib.suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
