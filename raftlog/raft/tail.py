"""The log as the core sees it: the stored log, and after it the tail that the driver does not have yet.

    committed ≤ handed_index ≤ last_index

Between two `Ready`s the core may cut and append; `take` hands both over, the driver applies them to the stored log at
once, and from then on the core reads them there. So entries are held twice only for that moment."""

from collections.abc import Sequence

from raftlog.raft.entry import Entry, EntryId
from raftlog.raft.log_view import LogView, prefix_within_bytes
from raftlog.types import Index, Term


class LogTail:
    """View of a replica's log for the core: the stored log, and a tail of newer entries in memory."""

    __slots__ = ("_cut_to", "_entries", "_handed_index", "last_index", "last_term", "view")

    def __init__(self, view: LogView) -> None:
        """Begin without entries beyond the stored log `view`."""
        self.view = view
        self._entries: list[Entry] = []
        self._cut_to: Index | None = None
        self._handed_index: Index
        """Index up to which the stored log has the core's entries; the tail follows."""
        self.last_index: Index
        self.last_term: Term
        self.reload()

    def reload(self) -> None:
        """Continue on a stored log that was replaced as a whole, with an empty tail."""
        assert not self._entries, f"{len(self._entries)} entries were not handed over"
        assert self._cut_to is None, f"a cut to {self._cut_to} was not handed over"
        self._handed_index = self.last_index = self.view.last_index
        self.last_term = self.view.term_at(self.last_index)

    @property
    def last_id(self) -> EntryId:
        return EntryId(self.last_index, self.last_term)

    @property
    def boundary(self) -> EntryId:
        return self.view.boundary

    @property
    def is_changed(self) -> bool:
        return bool(self._entries) or self._cut_to is not None

    def term_at(self, index: Index) -> Term:
        """Return the term of an entry in [boundary.index, last_index]."""
        if index == self.last_index:
            return self.last_term
        assert index < self.last_index, f"index {index} > last index {self.last_index}"
        if index > self._handed_index:
            return self._entries[index - self._handed_index - 1].term
        return self.view.term_at(index)

    def has_entry(self, entry: EntryId) -> bool:
        """Return whether the log holds exactly this entry, or the entry is the boundary."""
        return self.boundary.index <= entry.index <= self.last_index and self.term_at(entry.index) == entry.term

    def last_index_of_term(self, highest: Index, term: Term) -> Index:
        """Return the last index ≤ `highest` whose term is ≤ `term`, at least the boundary's.

        Terms never fall along a log."""
        low, high = self.boundary.index, highest
        if self.term_at(high) <= term:
            return high
        while high - low > 1:
            middle = Index((low + high) // 2)
            if self.term_at(middle) <= term:
                low = middle
            else:
                high = middle
        return low

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries, of contiguous indexes and terms that never fall, to the tail."""
        assert entries[0].index == self.last_index + 1, f"entry {entries[0].index} after {self.last_index}"
        self._entries.extend(entries)
        last = entries[-1]
        assert last.term >= self.last_term, f"term falls from {self.last_term} to {last.term} at index {last.index}"
        self.last_index, self.last_term = last.index, last.term

    def cut_to(self, index: Index) -> None:
        """Remove everything above `index`; the caller ensures that nothing committed is there."""
        assert self.boundary.index <= index < self.last_index, f"cut to {index} of {self.last_index}"
        self.last_term = self.term_at(index)
        self.last_index = index
        del self._entries[max(0, index - self._handed_index) :]
        if index < self._handed_index:
            self._cut_to = self._handed_index = index

    def take(self) -> tuple[Index | None, tuple[Entry, ...]]:
        """Return and clear the pending changes of the stored log: cut to an index, then append entries."""
        cut_to, entries = self._cut_to, tuple(self._entries)
        self._cut_to = None
        self._entries.clear()
        self._handed_index = self.last_index
        return cut_to, entries

    def entries(self, first: Index, max_entries: int, max_bytes: int) -> tuple[Entry, ...]:
        """Return entries from `first` on, at least one; `first` is in (boundary.index, last_index]."""
        handed = self._handed_index
        if first > handed:
            start = first - handed - 1
            return tuple(prefix_within_bytes(self._entries[start : start + max_entries], max_bytes))
        stored = tuple(self.view.entries(first, min(max_entries, handed - first + 1), max_bytes))
        assert stored, f"the stored log ends at {handed}, but has no entry {first}"
        return stored
