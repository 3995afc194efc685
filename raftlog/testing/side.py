"""One side of a connection through the proxy: the socket to the caller or to the node."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final, cast

BUFFER_BYTES_MAX: Final = 1 << 20
"""Bound on bytes that wait in a socket's transport; above it the sender is paused."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Side(asyncio.Protocol):
    """Protocol of one socket of the proxy, with callbacks.

    `on_received` gets the bytes that arrive, `on_end` is called when the socket is closed or lost, `drained` when its
    write buffer has room again."""

    def __init__(
        self,
        on_received: Callable[[bytes], None],
        on_end: Callable[[], None],
        on_made: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a closed side.

        `on_received` gets arriving bytes. `on_end` is called when the socket is closed, and `on_made` when it is
        open."""
        self.transport: asyncio.Transport | None = None
        self.is_full = False
        self.drained: Callable[[], None] = lambda: None
        self.filled: Callable[[], None] = lambda: None
        self._received, self._ended, self._made = on_received, on_end, on_made
        self._pause_reasons: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bound the write buffer, and report that the socket is open."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by type
        self.transport.set_write_buffer_limits(BUFFER_BYTES_MAX)
        self._made()

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Report that the socket is closed."""
        self.transport = None
        self._ended()

    def pause_writing(self) -> None:
        """Report that the write buffer is full."""
        self.is_full = True
        self.filled()

    def resume_writing(self) -> None:
        """Report that the write buffer has room again."""
        self.is_full = False
        self.drained()

    def pause_reading(self, reason: str) -> None:
        """Stop reading until `resume_reading` has removed every reason."""
        if self.transport is not None and not self._pause_reasons:
            self.transport.pause_reading()
        self._pause_reasons.add(reason)

    def resume_reading(self, reason: str) -> None:
        """Remove a reason for the pause; read again once no reason is left."""
        if reason in self._pause_reasons:
            self._pause_reasons.remove(reason)
            if self.transport is not None and not self._pause_reasons:
                self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Write bytes, unless the socket is closed."""
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        """Close the socket after the write buffer is sent."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close the socket at once, unless it is closed."""
        if self.transport is not None:
            self.transport.abort()

    def reset(self) -> None:
        """Reset the connection (RST) and discard the bytes in flight."""
        if self.transport is not None:
            connected: socket.socket = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()
