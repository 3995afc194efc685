"""Input lines of `raftlog produce`: from files, or from standard input as they arrive.

A newline ends a line and is not part of it; the last line may lack it. All other bytes are data. A thread reads
standard input if it is a pipe or a terminal, so that typed records are sent at once: an empty list means that no data
arrived for `IDLE_SECONDS`."""

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator, Sequence

from raftlog.cli.outcome import CommandFailed

IDLE_SECONDS = 0.05
_CHUNKS_AHEAD = 4


class InputSource:
    """Input of one run. `name` and `lines_before` locate the last lines in error messages."""

    def __init__(self, paths: Sequence[str], chunk_bytes: int, line_bytes_max: int) -> None:
        """Prepare to read the files in order, or stdin without any, in chunks of `chunk_bytes`."""
        self._paths = paths
        self._chunk_bytes = chunk_bytes
        self._line_bytes_max = line_bytes_max
        self.name = "stdin"
        self.lines_before = 0

    @property
    def size_bytes(self) -> int | None:
        """Total bytes of the input, if known."""
        sizes = [os.stat(path) for path in self._paths] if self._paths else [os.fstat(sys.stdin.fileno())]
        if not all(stat.S_ISREG(size.st_mode) for size in sizes):
            return None
        return sum(size.st_size for size in sizes)

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Yield lists of lines in order; raise `CommandFailed` for a line above the size bound of the topic."""
        for path in self._paths or ("-",):
            self.name, self.lines_before = ("stdin" if path == "-" else path), 0
            async for lines in self._read_lines(path):
                yield lines
                self.lines_before += len(lines)

    async def _read_lines(self, path: str) -> AsyncIterator[list[bytes]]:
        """Yield the lines of a file, in chunks. Raises `CommandFailed` for a line longer than the limit."""
        rest = b""
        async for chunk in _read_chunks(path, self._chunk_bytes):
            lines = (rest + chunk if rest else chunk).split(b"\n")
            rest = lines.pop()
            if len(rest) > self._line_bytes_max:
                raise CommandFailed(
                    f"{self.name}, line {self.lines_before + len(lines) + 1}: the line is longer than the topic's "
                    f"max.message.bytes, {self._line_bytes_max}; `raftlog topic alter` can raise it"
                )
            yield lines
        if rest:
            yield [rest]


async def _read_chunks(path: str, chunk_bytes: int) -> AsyncIterator[bytes]:
    """Yield the bytes of a file, or of stdin for `-`; an empty chunk means that stdin is idle."""
    descriptor = sys.stdin.fileno() if path == "-" else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if path != "-" or stat.S_ISREG(os.fstat(descriptor).st_mode):
            while chunk := os.read(descriptor, chunk_bytes):
                yield chunk
            return
        async for chunk in _ThreadedReader(descriptor, chunk_bytes).chunks():
            yield chunk
    finally:
        if path != "-":
            os.close(descriptor)


class _ThreadedReader:
    """Reader of a descriptor that may block, in a thread.

    The thread is a daemon: a read that never returns must not keep the process from ending."""

    def __init__(self, descriptor: int, chunk_bytes: int) -> None:
        self._descriptor, self._chunk_bytes = descriptor, chunk_bytes
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the thread; an empty chunk once the input is idle. Raises the `OSError` of a read."""
        threading.Thread(target=self._read, name="stdin", daemon=True).start()
        is_idle = False
        while True:
            try:
                async with asyncio.timeout(None if is_idle else IDLE_SECONDS):
                    chunk = await self._queue.get()
            except TimeoutError:
                is_idle = True
                yield b""
                continue
            is_idle = False
            self._room.release()
            if isinstance(chunk, OSError):
                raise chunk
            if not chunk:
                return
            yield chunk

    def _read(self) -> None:
        """Read in a thread until the end or an error, and pass each chunk to the event loop."""
        chunk: bytes | OSError = b"-"
        while chunk and not isinstance(chunk, OSError):
            self._room.acquire()
            try:
                chunk = os.read(self._descriptor, self._chunk_bytes)
            except OSError as error:
                chunk = error
            try:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, chunk)
            except RuntimeError:
                if not self._loop.is_closed():
                    raise
                return  # the command has ended
