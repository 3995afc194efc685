"""Window over a file that is read front to back: one large read of the disk serves many small ones."""

from typing import Final

from raftlog.storage.disk import File

_CHUNK_BYTES: Final = 4 << 20


class FileWindow:
    """Reader of a file in large pieces: holds the piece read last.

    `size` is the file's size when the reader was created."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.size = file.size()
        self._start = 0
        self._data = memoryview(b"")

    def read(self, position: int, length: int) -> memoryview:
        """Return the bytes from `position` on; fewer at the end of the file."""
        if not self._start <= position or position + length > self._start + len(self._data):
            self._data = memoryview(self._file.read(position, max(length, _CHUNK_BYTES)))
            self._start = position
        return self._data[position - self._start : position - self._start + length]
