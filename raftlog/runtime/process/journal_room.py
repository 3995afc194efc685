"""Room that is left in the journal: its free bytes, less the size of accepted entries that it does not hold yet."""

import logging

from raftlog.errors import RaftlogError, StorageFull
from raftlog.events import event
from raftlog.raft.messages import AppendRequest
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.log.control_entries import is_control, is_trim
from raftlog.runtime.replica.disk_room import DiskRoom
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.temporary_errors import descriptors_exhausted

_logger = logging.getLogger(__name__)


class JournalRoom:
    """Check of the journal's room; sizes in bytes.

    The journal has only the ids of a large append, so it counts `large_append_bytes`."""

    def __init__(self, journal: Journal, data_dir: str, large_append_bytes: int) -> None:
        self._journal, self._data_dir, self._large_append_bytes = journal, data_dir, large_append_bytes
        self.admitted_bytes = 0
        """Size of accepted entries that the journal does not have yet; 0 at the end of a turn."""

    def append_error(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        """Return the error that refuses entries of that size now, or None; small essential ones may use the reserve."""
        if is_essential and size_bytes < self._large_append_bytes:
            return self._low_reserve_error()
        return self._journal.append_error(min(size_bytes, self._large_append_bytes) + self.admitted_bytes)

    def _low_reserve_error(self) -> RaftlogError | None:
        """Return the error while the rest of the reserve is kept for a checkpoint, else None."""
        if not self._journal.is_reserve_low:
            return None
        if self._journal.lacks_descriptors:
            return descriptors_exhausted(self._data_dir)
        return StorageFull(f"{self._data_dir}: the disk is full; add space")

    def note_admitted(self, size_bytes: int) -> None:
        """Add the size of accepted entries to those that the journal does not have yet."""
        self.admitted_bytes += min(size_bytes, self._large_append_bytes)

    def admits(self, group: PartitionReplica, message: AppendRequest, disk: DiskRoom) -> bool:
        """Return whether the entries of an append are valid and have room; count them if so."""
        entries = message.entries
        size = sum([entry.size_bytes for entry in entries])
        is_essential = group.is_essential or (  # the first entry decides nearly always
            is_control(entries[0].payload) and all(is_control(entry.payload) for entry in entries)
        )
        if not is_essential and (group.is_disk_full or group.log.lacks_descriptors or disk.is_scarce):
            # Small entries before a trim are accepted with it: the trim may free room.
            is_essential = any(is_trim(entry.payload) for entry in entries)
            if not is_essential:
                return False
        if self.append_error(size, is_essential=is_essential) is not None:
            return False
        if not group.admission.admits(message, group.log):
            event(_logger, "entries_refused", group=group.name, index=entries[0].index, node=message.sender.node_id)
            return False
        self.note_admitted(size)
        return True
