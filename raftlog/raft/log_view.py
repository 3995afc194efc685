"""Interface of a stored log as the core reads it. Storage implements it, and the simulator's `MemoryLog` for tests.

    boundary.index < first index,   first index ≤ last index + 1

The log holds the entries from `boundary.index + 1` to `last_index`. Its owner changes it only in two ways: by the cut
and the entries of a `Ready` (in this order, at once, before the core is called again), and by trimming whole prefixes
of committed entries at any time; the id of the boundary, the last entry trimmed away, is kept for ever."""

from collections.abc import Sequence
from typing import Protocol

from raftlog.raft.entry import Entry, EntryId
from raftlog.types import Index, Term


class LogView(Protocol):
    """Read access to a stored log."""

    @property
    def boundary(self) -> EntryId:
        """Id of the entry before the first one in the log; (0, 0) when nothing was trimmed."""
        ...

    @property
    def last_index(self) -> Index:
        """Index of the last entry in the log; the boundary's index when the log has no entry."""
        ...

    def term_at(self, index: Index) -> Term:
        """Return the term of an entry in [boundary.index, last_index]."""
        ...

    def entries(self, first: Index, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        """Return entries from `first` on, at least one even if it is larger than `max_bytes`; `first` is in the log."""
        ...

    def stored_bytes_from(self, first: Index) -> int:
        """Return an estimate of the bytes from entry `first` on that are in files only; 0 after the last entry."""
        ...


def prefix_within_bytes(entries: Sequence[Entry], max_bytes: int) -> Sequence[Entry]:
    """Return the longest prefix of `entries` of at most `max_bytes`; at least one entry, even if it is larger."""
    total = 0
    for count, entry in enumerate(entries):
        total += entry.size_bytes
        if total > max_bytes and count:
            return entries[:count]
    return entries
