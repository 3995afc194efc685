"""A frame that waits to be written: operations, and the number of the block that it will begin with."""

from collections.abc import Sequence

from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.operations import FRAME_HEAD, FRAME_HEAD_SIZE, Encoded
from raftlog.types import Buffer


class PendingFrame:
    """Its number is known from the beginning, because frames before it are closed: only the last one grows."""

    __slots__ = ("_bodies", "_heads", "number", "size")

    def __init__(self, number: JournalSequence) -> None:
        self.number = number
        self.size = FRAME_HEAD_SIZE
        """Payload bytes so far."""
        self._heads: list[bytes] = []
        self._bodies: list[Buffer] = []

    @property
    def operation_bytes(self) -> int:
        return self.size - FRAME_HEAD_SIZE

    def add_all(self, encoded: Sequence[Encoded], size: int) -> None:
        """Add operations that have `size` bytes together."""
        self._heads += [each[0] for each in encoded]
        bodies = self._bodies
        for each in encoded:
            bodies += each[1]
        self.size += size

    def payload(self) -> bytes:
        payload = b"".join((FRAME_HEAD.pack(len(self._heads), 0), *self._heads, *self._bodies))
        assert len(payload) == self.size, f"frame {self.number} has {len(payload)} bytes, not {self.size}"
        return payload
