"""How much may be taken for the journal now: its own room, less what was taken and is not in it yet."""

from raftlog.errors import RaftlogError, StorageFull
from raftlog.runtime.journal import Journal
from raftlog.storage.shortages import descriptors_exhausted


class JournalRoom:
    """Sizes in bytes. A large append stands in the journal with its ids only, so it counts `large_append_bytes`."""

    def __init__(self, journal: Journal, data_dir: str, large_append_bytes: int) -> None:
        self._journal, self._data_dir, self._large_append_bytes = journal, data_dir, large_append_bytes
        self._admitted_bytes = 0

    def why_refused(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Why no entries of that size can be taken now; small essential ones may use what is reserved."""
        if is_essential and size_bytes < self._large_append_bytes:
            return self._why_frozen()
        return self._journal.why_refused(self._journaled_bytes(size_bytes) + self._admitted_bytes)

    def _why_frozen(self) -> RaftlogError | None:
        """The journal's last room is for a checkpoint; everything else must wait until there is more."""
        if not self._journal.is_reserve_low:
            return None
        if self._journal.lacks_descriptors:
            return descriptors_exhausted(self._data_dir)
        return StorageFull(f"{self._data_dir}: the disk is full; add space")

    def note_admitted(self, size_bytes: int) -> None:
        """Entries of that size are on their way to the journal."""
        self._admitted_bytes += self._journaled_bytes(size_bytes)

    def end_turn(self) -> None:
        """What was admitted is in the journal."""
        self._admitted_bytes = 0

    def _journaled_bytes(self, size_bytes: int) -> int:
        return min(size_bytes, self._large_append_bytes)
