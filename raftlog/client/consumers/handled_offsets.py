"""Offsets of one partition that are handled out of order, and the offset below which all are handled."""

from raftlog.types import Offset


class HandledOffsets:
    """Offsets of one partition's records that are being handled, to find the offset that may be committed."""

    def __init__(self) -> None:
        self._unfinished: dict[Offset, None] = {}
        """Offsets in rising order, which is the order of `begin`."""
        self._next: Offset | None = None
        self._committed: Offset | None = None

    def begin(self, offset: Offset) -> None:
        """Add a received record. Offsets rise, with gaps."""
        assert self._next is None or offset >= self._next, f"offset {offset} after {self._next}"
        self._unfinished[offset] = None
        self._next = Offset(offset + 1)

    def finish(self, offset: Offset) -> None:
        """Remove a record that was handled, or stored in the dead-letter topic."""
        del self._unfinished[offset]

    def find_offset_to_commit(self) -> Offset | None:
        """Return the offset of the first unfinished record, or after the last; None if it is committed."""
        position = next(iter(self._unfinished), self._next)
        return None if position == self._committed else position

    def find_offset_to_resume(self) -> Offset | None:
        """Return the offset of the first record that is not finished; None when all are."""
        return next(iter(self._unfinished), None)

    def set_committed(self, offset: Offset) -> None:
        """Set the committed offset of the group."""
        self._committed = offset
