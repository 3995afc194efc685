"""One of the two sockets of a connection through the proxy."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final, cast

BUFFER_BYTES_MAX: Final = 1 << 20
"""What may wait in a socket's transport; then whoever sends to it waits."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Side(asyncio.Protocol):
    """`received` gets what comes in, `ended` is called once it is closed or lost, `drained` when it is full no more."""

    def __init__(
        self,
        received: Callable[[bytes], None],
        ended: Callable[[], None],
        made: Callable[[], None] = lambda: None,
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_full = False
        self.drained: Callable[[], None] = lambda: None
        self.filled: Callable[[], None] = lambda: None
        self._received, self._ended, self._made = received, ended, made
        self._held_up: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by type
        self.transport.set_write_buffer_limits(BUFFER_BYTES_MAX)
        self._made()

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._ended()

    def pause_writing(self) -> None:
        self.is_full = True
        self.filled()

    def resume_writing(self) -> None:
        self.is_full = False
        self.drained()

    def hold_up(self, reason: str) -> None:
        """Read nothing from it until it was let go for every reason."""
        if self.transport is not None and not self._held_up:
            self.transport.pause_reading()
        self._held_up.add(reason)

    def let_go(self, reason: str) -> None:
        if reason in self._held_up:
            self._held_up.remove(reason)
            if self.transport is not None and not self._held_up:
                self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        """After what waits was written."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def reset(self) -> None:
        """Whoever is there is told that the connection is broken (RST), and gets nothing of what was on its way."""
        if self.transport is not None:
            connected: socket.socket = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()
