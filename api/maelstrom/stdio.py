"""Lines on stdin and stdout of a process, read and written on the event loop with bounds.

    in     pipes and terminals are read when they are readable, files piece by piece. A line that is too long is dropped
           and reported
    out    bytes that a pipe does not accept at once are buffered, up to OUT_BYTES_MAX; further lines are dropped, as a
           network may drop messages, and counted

Called by `raftlog maelstrom`."""

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from typing import Final

from raftlog.api.maelstrom.messages import LINE_BYTES_MAX

OUT_BYTES_MAX: Final = 64 << 20
_READ_BYTES: Final = 1 << 18
_logger = logging.getLogger(__name__)


class Lines:
    """Splitter of input into lines: calls `on_line(line)`, or `on_too_long(bytes)` with the size of a longer line."""

    def __init__(self, on_line: Callable[[bytes], None], on_too_long: Callable[[int], None]) -> None:
        """Call `on_line` with each complete line, and `on_too_long` with the size of one above the limit."""
        self._on_line, self._on_too_long = on_line, on_too_long
        self._parts: list[bytes] = []
        self._size = 0
        self._dropped = 0
        """Discarded bytes of the present line."""

    def feed(self, data: bytes) -> None:
        """Split received bytes into lines; an incomplete line waits for further bytes."""
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._add_part(part)
            self._end_line()
        self._add_part(rest)

    def end(self) -> None:
        """End the input; a last line needs no line break."""
        if self._size or self._dropped:
            self._end_line()

    def _add_part(self, part: bytes) -> None:
        """Add bytes to the present line; discard the line once it is too long."""
        if self._dropped or self._size + len(part) > LINE_BYTES_MAX:
            self._dropped += self._size + len(part)
            self._parts, self._size = [], 0
        elif part:
            self._parts.append(part)
            self._size += len(part)

    def _end_line(self) -> None:
        """Pass the present line on, or report that it was too long."""
        if self._dropped:
            self._on_too_long(self._dropped)
        else:
            self._on_line(b"".join(self._parts))
        self._parts, self._size, self._dropped = [], 0, 0


class Input:
    """Reader of a descriptor into `lines` until its end, at which it calls `on_end`."""

    def __init__(self, descriptor: int, lines: Lines, on_end: Callable[[], None]) -> None:
        """Read from a file descriptor into `lines`; `on_end` is called at the end of the input."""
        self._descriptor, self._lines, self._on_end = descriptor, lines, on_end
        self._loop = asyncio.get_running_loop()
        self._is_file = False
        try:
            self._loop.add_reader(descriptor, self._read)
        except OSError:  # a regular file, or /dev/null: never waited for
            self._is_file = True
            self._loop.call_soon(self._read_file)

    def _read_file(self) -> None:
        """Read from a file, a piece in each turn of the loop."""
        if self._read():
            self._loop.call_soon(self._read_file)

    def _read(self) -> bool:
        """Read available input; return false at the end, or after a permanent error."""
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:  # another process has read it
            return True
        except OSError as error:
            _logger.warning("input cannot be read: %s", error)
            data = b""
        if data:
            self._lines.feed(data)
            return True
        self.stop()
        self._lines.end()
        self._on_end()
        return False

    def stop(self) -> None:
        """Stop reading the descriptor."""
        if not self._is_file:
            self._loop.remove_reader(self._descriptor)


class Output(asyncio.BaseProtocol):
    """Writer of lines to a descriptor; calls `on_lost` when its reader closes it."""

    def __init__(self, descriptor: int, on_lost: Callable[[], None]) -> None:
        """Write to a file descriptor; `on_lost` is called once nothing can be written any more."""
        self._descriptor, self._on_lost = descriptor, on_lost
        self._transport: asyncio.WriteTransport | None = None
        self.dropped = 0
        """Number of lines that were dropped."""
        self._is_lost = False
        """Whether writing is no longer possible."""

    async def open(self) -> None:
        """Open the output; pipes and sockets are written without blocking, files and devices directly."""
        mode = os.fstat(self._descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            pipe = os.fdopen(os.dup(self._descriptor), "wb", 0)
            self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: self, pipe)

    def connection_lost(self, error: Exception | None) -> None:
        """Report that nothing can be written any more."""
        self._on_lost()

    def write(self, line: bytes) -> None:
        """Write a line; drop it if the output is closed, or if too many bytes wait to be written."""
        if self._is_lost:
            self.dropped += 1
        elif self._transport is None:
            self._write_directly(line)
        elif self._transport.get_write_buffer_size() > OUT_BYTES_MAX:
            self.dropped += 1
        else:
            self._transport.write(line)

    def _write_directly(self, line: bytes) -> None:
        """Write a line with blocking system calls; after an error the output is lost."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            _logger.warning("output cannot be written: %s", error)
            self._is_lost = True
            self._on_lost()

    async def flush(self, seconds: float) -> None:
        """Wait at most `seconds` until everything is written."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._transport is not None and self._transport.get_write_buffer_size():
            if self._transport.is_closing() or asyncio.get_running_loop().time() >= deadline:
                return
            await asyncio.sleep(0.005)
