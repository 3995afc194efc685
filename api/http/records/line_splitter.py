"""Splitter of the pieces of a body into lines, without spaces at their ends; the last line may lack its newline.

Bytes kept between two pieces are those of one line, which `check` bounds. Used by `ndjson_ingest`.
"""

from raftlog.api.codes import TOO_LARGE
from raftlog.api.http.server.problems import HttpProblem


class LineSplitter:
    """Splitter of one body into lines."""

    def __init__(self, line_bytes_max: int) -> None:
        self.line_bytes_max = line_bytes_max
        self._rest = bytearray()

    @property
    def rest_bytes(self) -> int:
        """Size of the incomplete line."""
        return len(self._rest)

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in this piece, empty ones included."""
        if b"\n" not in piece:
            self._rest += piece
            return []
        lines = piece.split(b"\n")
        if self._rest:
            lines[0] = bytes(self._rest + lines[0])
            self._rest.clear()
        self._rest += lines.pop()
        return [line.strip() for line in lines]

    def take_last_line(self) -> list[bytes]:
        """Return the line after the last newline at the end of the body, in a list; an empty list if there is none."""
        rest = bytes(self._rest).strip()
        self._rest.clear()
        return [rest] if rest else []

    def check_length(self, size: int) -> None:
        """Raise `HttpProblem` 413 when a line of `size` bytes is too long."""
        if size > self.line_bytes_max:
            raise HttpProblem(
                TOO_LARGE,
                f"the line has {size} bytes or more; the topic's max.message.bytes allows {self.line_bytes_max}",
            )
