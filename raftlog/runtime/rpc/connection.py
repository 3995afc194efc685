"""Socket of a connection: frames in and out. Its handler interprets the frames.

A protocol of asyncio (and uvloop), not a stream: bytes are read into the frame reader's own memory, and a write passes
a list of buffers to the socket. Any invalid input ends the connection, and no more of it is read."""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.runtime.rpc.authentication import certified_nodes
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.frame import Frame, FrameBound, FrameReader, join_buffers
from raftlog.types import Buffer

_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 2),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 5),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 15_000),
)
"""Socket options that detect a vanished machine after about 15 s, even without writes; not every system has all."""


_SCRATCH_BYTES: Final = 4096
"""Size of the buffer for bytes that still arrive on a connection that is closing."""
_HANDSHAKE_BUFFERS: Final = 2
"""Number of handshake frames that are read at once."""


class Handler(Protocol):
    """Receiver of a connection's frames and events."""

    def on_open(self) -> None:
        """Process the opening of the connection."""
        ...

    def take(self, frame: Frame) -> None:
        """Process a frame that arrived; `BadFrame` raised here ends the connection."""
        ...

    def on_writable(self) -> None:
        """Continue to write, because the socket accepts more bytes."""
        ...

    def on_close(self, error: Exception | None) -> None:
        """Handle the end of the connection; `error` is the reason, if known.

        Called once for a connection that was made, otherwise never."""
        ...


class _ClosedHandler:
    """Handler of a closed connection, in place of the one that refers to the connection."""

    def on_open(self) -> None:
        raise AssertionError("a connection was made twice")

    def take(self, frame: Frame) -> None:
        raise AssertionError(f"a frame of kind {frame.kind.name} came over a closed connection")

    def on_writable(self) -> None:
        """Do nothing: no bytes are left to write."""

    def on_close(self, error: Exception | None) -> None:
        raise AssertionError("a connection was lost twice")


_CLOSED_HANDLER: Final = _ClosedHandler()


class Connection(asyncio.BufferedProtocol):
    """Connection over one socket, for either side; `handler` is set by the owner before anything can arrive.

    Until `set_frame_bounds` is called, only frames of the handshake are accepted. After its end the connection refers
    neither to its handler nor to its memory any more, so that both are freed at once, without the garbage collector."""

    handler: Handler

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: RpcConfig,
        bounds: Mapping[int, FrameBound],
        budget: MemoryBudget,
    ) -> None:
        """Create a connection that is not open.

        `bounds` has the accepted kinds of frames, and `budget` the memory for large ones."""
        self._loop = loop
        self._config = config
        self._budget = budget
        self._reader = FrameReader(bounds, _HANDSHAKE_BUFFERS * config.hello_bytes_max)
        self._has_memory = False
        """Whether the connection holds memory of the budget, for a large frame."""
        self._is_waiting = False
        """Whether the connection waits for memory; until then no bytes are read."""
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None
        self._moved_at = loop.time()
        self.is_paused = False
        """Whether the socket's write buffer is full."""
        self.is_closing = False
        """Whether reading and writing have ended."""
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done when a connection that was made is closed."""
        self.source = "?"
        """Address of the other side, without its port."""

    def set_frame_bounds(self, bounds: Mapping[int, FrameBound], buffer_bytes: int) -> None:
        """Set the accepted kinds of frames with their bounds, and the number of bytes to read at once."""
        self._reader.bounds = bounds
        self._reader.set_buffer(buffer_bytes)

    def certified_nodes(self) -> frozenset[int]:
        """Return the node ids in the other side's certificate; none without TLS."""
        return frozenset() if self._transport is None else certified_nodes(self._transport.get_extra_info("peercert"))

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write frames, in one system call if the socket takes all of them."""
        if self._transport is not None and not self.is_closing:
            self._transport.writelines(join_buffers(buffers))

    def write_at_once(self) -> None:
        """Disable uvloop's delay of small writes to the end of a turn."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=1)

    def write_buffer_bytes(self) -> int:
        """Return the number of bytes that were written and not yet sent by the socket."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self, error: Exception | None = None) -> None:
        """Close the connection after all written bytes are sent."""
        self._end(error)
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection at once, without sending written bytes."""
        self._end(error)
        if self._transport is not None:
            self._transport.abort()

    def _end(self, error: Exception | None) -> None:
        """Mark the connection as closing; keep the first error as the reason."""
        self.is_closing = True
        self._error = self._error or error

    def is_stalled(self, now: float) -> bool:
        """Return whether a frame is incomplete and no byte of it has arrived for `stall_timeout_ms`."""
        is_late = now - self._moved_at > self._config.stall_timeout_ms / 1000
        return is_late and not self.is_closing and self._reader.is_inside_frame and not self._is_waiting

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to use the open socket (called by the loop)."""
        transport = cast(asyncio.Transport, transport)  # uvloop's transport has the methods without the class
        self._transport = transport
        transport.set_write_buffer_limits(high=self._config.write_buffer_bytes)
        self.source = source_of(transport)
        _enable_keep_alive(transport)
        self.handler.on_open()
        if self.is_closing:  # closed before it was made: no caller waits for it any more
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory that the loop reads the next bytes into."""
        return memoryview(bytearray(_SCRATCH_BYTES)) if self.is_closing else self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Pass complete frames among the bytes read to the handler (called by the loop)."""
        if self.is_closing:
            return
        reader = self._reader
        reader.advance(nbytes)
        try:
            while (frame := reader.next_frame()) is not None:
                if self._has_memory:
                    self._has_memory = False
                    self._budget.release(self)
                self.handler.take(frame)
                if self.is_closing:
                    return
        except BadFrame as error:
            self.abort(error)
            return
        if reader.is_inside_frame:
            self._moved_at = self._loop.time()
            if reader.missing_room:
                self._make_room()

    def _make_room(self) -> None:
        """Take memory for the rest of a large frame, or stop reading until there is some."""
        self._has_memory = True
        if self._budget.take(self, self._reader.missing_room, self._grow):
            self._reader.grow()
            return
        assert self._transport is not None, "a frame came over a closed connection"
        self._is_waiting = True
        self._transport.pause_reading()

    def _grow(self) -> None:
        """Continue to read after memory for a large frame was granted."""
        self._reader.grow()
        self._is_waiting = False
        self._moved_at = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self.handler.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the memory, and report the end to the handler (called by the loop)."""
        self._transport = None
        self.is_closing = True
        self._budget.release(self)
        handler, self.handler = self.handler, _CLOSED_HANDLER
        del self._reader
        handler.on_close(self._error or exc)
        self.closed.set_result(None)


def source_of(transport: asyncio.BaseTransport) -> str:
    """Return the other side's address, without its port."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) and name else "?"


def _enable_keep_alive(transport: asyncio.BaseTransport) -> None:
    """Enable TCP keep-alive on an internet socket."""
    endpoint = transport.get_extra_info("socket")
    if endpoint is None or endpoint.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, name, value in _KEEPALIVE:
        if hasattr(socket, name):
            endpoint.setsockopt(level, getattr(socket, name), value)
