"""Free space on the data directory's file system, compared to the mark below which no records are accepted.

    free < min_free_bytes        low: leaders accept no records; trims, deletions and the controller's entries go on
    free < min_free_bytes / 2    scarce: followers accept no records either

Between the two marks followers accept entries that leaders had accepted before. Low ends an eighth above the mark.
Checked with every tick, by the driver."""

from collections.abc import Callable
from typing import Protocol

from raftlog.errors import DescriptorsExhausted, StorageFull
from raftlog.raft import RaftCore, Role
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.replica.disk_trend import DiskTrend
from raftlog.storage.disk import Disk
from raftlog.storage.temporary_errors import descriptors_exhausted


class _Leader(Protocol):
    """Replica whose shortages of room and descriptors `room_error` reads."""

    name: str
    core: RaftCore
    log: GroupLog
    is_disk_full: bool
    is_majority_full: bool


class DiskRoom:
    """State of the free space; sizes in bytes."""

    def __init__(self, disk: Disk, data_dir: str, min_free_bytes: int) -> None:
        """Watch the free space of the disk with `data_dir`; nothing is known before the first check."""
        self._disk, self._data_dir, self.min_free_bytes = disk, data_dir, min_free_bytes
        self.free_bytes = 0
        """Free bytes at the last check."""
        self.is_low = self.is_scarce = False
        """Whether leaders accept no records, and whether followers accept none either."""
        self.is_full = False
        """Whether the disk is full, so that another broker should lead; updated by `check`."""
        self.trend = DiskTrend()
        """Free space over the last minutes."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when `is_full` changed."""

    def check(self, has_waiting_entries: bool, now: float) -> None:
        """Read the free space at the time `now` in seconds; raises `OSError`.

        The disk also counts as full while entries wait for room."""
        least = self.min_free_bytes
        free = self.free_bytes = self._disk.free_bytes(self._data_dir)
        self.trend.note(now, free)
        self.is_low = free < least + (least // 8 if self.is_low else 0)
        self.is_scarce = free < (least + 1) // 2
        was_full, self.is_full = self.is_full, self.is_low or has_waiting_entries
        if self.is_full != was_full:
            self.on_change()

    @property
    def describe(self) -> str:
        """Free bytes and the bound below which no records are accepted, in words."""
        return f"{self.free_bytes} bytes are free, and storage_min_free_bytes is {self.min_free_bytes}"


def room_error(group: _Leader, room: DiskRoom) -> StorageFull | DescriptorsExhausted | None:
    """Return the error with which a group's leader refuses records for lack of room or descriptors.

    `None` if there is room, and for a replica that does not lead or is handing over leadership, whose core refuses."""
    if group.log.lacks_descriptors:
        reason = ""
    elif group.is_disk_full:
        reason = "no space left"
    elif room.is_low:
        reason = room.describe
    elif group.is_majority_full:
        reason = "the disks of too many of its replicas have no room"
    else:
        return None
    if group.core.role is not Role.LEADER or group.core.status().is_transferring:
        return None
    if group.log.lacks_descriptors:
        return descriptors_exhausted(group.name)
    return StorageFull(f"{group.name}: {reason}; delete records or topics, or add space, and try again")
