"""Offsets of one partition that are handled out of order, and the offset up to which all are."""

from raftlog.types import Offset


class HandledOffsets:
    """Records of one partition from `begin` to `finish`."""

    def __init__(self) -> None:
        self._unfinished: dict[Offset, None] = {}
        """In rising order, because records begin in theirs."""
        self._next: Offset | None = None
        self._committed: Offset | None = None

    def begin(self, offset: Offset) -> None:
        """A record was received. Offsets rise, with gaps."""
        assert self._next is None or offset >= self._next, f"offset {offset} after {self._next}"
        self._unfinished[offset] = None
        self._next = Offset(offset + 1)

    def finish(self, offset: Offset) -> None:
        """A record is handled, or in the dead-letter topic."""
        del self._unfinished[offset]

    def to_commit(self) -> Offset | None:
        """Return the offset of the first record that is not finished, or behind the last; None when it is committed."""
        position = next(iter(self._unfinished), self._next)
        return None if position == self._committed else position

    def to_resume(self) -> Offset | None:
        """Return the offset of the first record that is not finished; None when all are."""
        return next(iter(self._unfinished), None)

    def note_committed(self, offset: Offset) -> None:
        """The group has committed this offset."""
        self._committed = offset
