"""A disk on which many directories can be synced together: for the creation of many groups at once.

    with batched.together(): …      directories are noted, files are synced as always; at its end the directories follow

One sync of a directory writes the file system's own journal, milliseconds each when other programs sync as well, and a
new group has four of them; side by side they share these writes. What is inside must not wait: nothing that rests on
the directories may reach the journal before the block ends. Everything else goes to the real disk unchanged.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from raftlog.storage.disk import DirectoryLock, Disk, File, SyncDone

SyncDirectories = Callable[[Sequence[str]], None]


class BatchedDisk(Disk):
    """Around another disk; `sync_directories` blocks until all of them are durable, and raises `OSError`."""

    def __init__(self, disk: Disk, sync_directories: SyncDirectories) -> None:
        self._disk = disk
        self._sync_directories = sync_directories
        self._noted: dict[str, None] | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Blocking. Raises `OSError` at its end: then nothing that was made inside counts as durable."""
        assert self._noted is None, "directories are being gathered already"
        self._noted = {}
        try:
            yield
        finally:
            noted, self._noted = self._noted, None
            if noted:
                self._sync_directories(list(noted))

    def sync(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        if self._noted is None:
            self._disk.sync(files, directories)
            return
        if files:
            self._disk.sync(files)
        self._noted.update(dict.fromkeys(directories))

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        return self._disk.open(path, create=create, read_only=read_only)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def is_directory(self, path: str) -> bool:
        return self._disk.is_directory(path)

    def list_directory(self, path: str) -> list[str]:
        return self._disk.list_directory(path)

    def make_directory(self, path: str) -> None:
        self._disk.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(old, new)

    def unlink(self, path: str) -> None:
        self._disk.unlink(path)

    def remove_directory(self, path: str) -> None:
        self._disk.remove_directory(path)

    def lock(self, path: str) -> DirectoryLock:
        return self._disk.lock(path)

    def free_bytes(self, path: str) -> int:
        return self._disk.free_bytes(path)

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        self._disk.submit_sync(files, directories, done)
