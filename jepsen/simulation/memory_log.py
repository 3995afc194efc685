"""Log in memory: plain implementation of `LogView`, for tests and measurements."""

from collections.abc import Sequence

from raftlog.raft.configuration import Configuration
from raftlog.raft.entry import ORIGIN, Entry, EntryId
from raftlog.raft.log_view import LogView, prefix_within_bytes
from raftlog.types import Index, Term


class MemoryLog(LogView):
    """Log of entries in a list, after a boundary."""

    def __init__(self, entries: Sequence[Entry] = (), boundary: EntryId = ORIGIN) -> None:
        self._boundary = boundary
        self._entries: list[Entry] = []
        self.append(entries)

    @property
    def boundary(self) -> EntryId:
        return self._boundary

    @property
    def last_index(self) -> Index:
        return Index(self._boundary.index + len(self._entries))

    @property
    def last_id(self) -> EntryId:
        return EntryId(self.last_index, self.term_at(self.last_index))

    def term_at(self, index: Index) -> Term:
        """Return the term of the entry at an index, or of the boundary."""
        assert self._boundary.index <= index <= self.last_index, (
            f"index {index} outside [{self._boundary.index}, {self.last_index}]"
        )
        return self._boundary.term if index == self._boundary.index else self[index].term

    def entries(self, first: Index, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        """Return entries from `first` on: at most `max_entries`, and as many as fit into `max_bytes`."""
        start = self._position(first)
        return prefix_within_bytes(self._entries[start : start + max_entries], max_bytes)

    def stored_bytes_from(self, first: Index) -> int:
        """Return the size in bytes of the entries from `first` on; all of them count as stored in files."""
        return sum(entry.size_bytes for entry in self._entries[max(0, first - self._boundary.index - 1) :])

    def entries_from_start(self) -> list[Entry]:
        """Return all entries that the log holds."""
        return list(self._entries)

    def __getitem__(self, index: Index) -> Entry:
        """Return the entry at this index, which must be above the boundary."""
        return self._entries[self._position(index)]

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries; the first must have the index after the last one."""
        if entries:
            assert entries[0].index == self.last_index + 1, f"entry {entries[0].index} after {self.last_index}"
        self._entries.extend(entries)

    def cut_to(self, index: Index) -> None:
        """Remove all entries above `index`."""
        assert self._boundary.index <= index, f"cut to {index} below the boundary {self._boundary.index}"
        del self._entries[index - self._boundary.index :]

    def trim_to(self, index: Index) -> None:
        """Remove all entries up to `index`, and remember the term of the last one."""
        term = self.term_at(index)
        del self._entries[: index - self._boundary.index]
        self._boundary = EntryId(index, term)

    def replace(self, boundary: EntryId, entries: Sequence[Entry]) -> None:
        """Replace the whole log, as an installation does."""
        self._boundary = boundary
        self._entries.clear()
        self.append(entries)

    def configurations(self) -> tuple[Configuration, ...]:
        """Return the configurations in entries of the log, in ascending order."""
        return tuple(entry.configuration for entry in self._entries if entry.configuration)

    def _position(self, index: Index) -> int:
        """Return the position in the list of the entry at an index."""
        position = index - self._boundary.index - 1
        assert 0 <= position < len(self._entries), f"index {index} outside ({self._boundary.index}, {self.last_index}]"
        return position
