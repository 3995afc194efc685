"""Shortage of file descriptors: checked with every tick, by the driver.

    the last attempt to open a file failed for want of descriptors, or entries wait for one  →  `shortage` is set

Unlike on a full disk, records are refused only where a file is missing, and nothing is deleted."""

from collections.abc import Callable

from raftlog.storage.disk import Disk
from raftlog.storage.temporary_errors import descriptors_exhausted


class DescriptorWatch:
    """Watch for a shortage of file descriptors."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        """Prepare to watch the file descriptors of `disk`; `data_dir` is for the text."""
        self._disk, self._data_dir = disk, data_dir
        self.shortage: str | None = None
        """Text of the problem and its correction; updated by `check`."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a shortage began or ended."""

    def check(self, has_waiting_entries: bool) -> None:
        """Update `shortage` from the disk, which retries an attempt that failed.

        `has_waiting_entries`: entries wait for a descriptor, perhaps for more than one file."""
        error = self._disk.descriptor_shortage(self._data_dir)
        had_shortage = self.shortage is not None
        is_short = has_waiting_entries or error is not None
        self.shortage = str(descriptors_exhausted(self._data_dir, error)) if is_short else None
        if is_short != had_shortage:
            self.on_change()
