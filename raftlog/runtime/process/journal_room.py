"""How much may be taken for the journal now: its own room, less what was taken and is not in it yet."""

from raftlog.errors import RaftlogError, StorageFull
from raftlog.raft.messages import AppendRequest
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.log.control_entries import is_control, is_trim
from raftlog.runtime.replica.disk_room import DiskRoom
from raftlog.runtime.replica.group import Group
from raftlog.storage.temporary_errors import descriptors_exhausted


class JournalRoom:
    """Sizes in bytes. A large append stands in the journal with its ids only, so it counts `large_append_bytes`."""

    def __init__(self, journal: Journal, data_dir: str, large_append_bytes: int) -> None:
        self._journal, self._data_dir, self._large_append_bytes = journal, data_dir, large_append_bytes
        self.admitted_bytes = 0
        """Of entries that are on their way to the journal; none at the end of a turn."""

    def why_refused(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Why no entries of that size can be taken now; small essential ones may use what is reserved."""
        if is_essential and size_bytes < self._large_append_bytes:
            return self._why_frozen()
        return self._journal.why_refused(min(size_bytes, self._large_append_bytes) + self.admitted_bytes)

    def _why_frozen(self) -> RaftlogError | None:
        """The journal's last room is for a checkpoint; everything else must wait until there is more."""
        if not self._journal.is_reserve_low:
            return None
        if self._journal.lacks_descriptors:
            return descriptors_exhausted(self._data_dir)
        return StorageFull(f"{self._data_dir}: the disk is full; add space")

    def note_admitted(self, size_bytes: int) -> None:
        """Entries of that size are on their way to the journal."""
        self.admitted_bytes += min(size_bytes, self._large_append_bytes)

    def admits(self, group: Group, message: AppendRequest, disk: DiskRoom) -> bool:
        """Whether there is room for the entries of an append; then they count as taken."""
        size = sum(entry.size_bytes for entry in message.entries)
        is_essential = group.is_essential or all(is_control(entry.payload) for entry in message.entries)
        if not is_essential and (group.is_disk_full or group.log.lacks_descriptors or disk.is_scarce):
            # What stands before a trim goes with it, if that is little: the trim may be what frees room.
            is_essential = any(is_trim(entry.payload) for entry in message.entries)
            if not is_essential:
                return False
        if self.why_refused(size, is_essential=is_essential) is not None:
            return False
        if not group.admission.admits(message, group.log):
            return False
        self.note_admitted(size)
        return True
