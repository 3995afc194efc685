"""Files and directories that a checkpoint must sync because they changed since the last sync.

    synced ≤ made

Every change of a file or a directory is counted where it is made. The caller of a sync keeps the counts from before it,
and reports them when the sync returned: changes that were made meanwhile count for the next sync. A failed sync is not
reported. `segmented_log` and `segment` count; the owner of a replica's log lists changes and reports syncs."""

from collections.abc import Iterable
from typing import NamedTuple

from raftlog.storage.disk import File


class Changes:
    """Counts for one file or directory: changes made, and changes that a sync covered."""

    __slots__ = ("made", "synced")

    def __init__(self) -> None:
        self.made = 0
        self.synced = 0

    @property
    def are_synced(self) -> bool:
        return self.synced == self.made

    def count(self) -> None:
        """Increment the number of changes."""
        self.made += 1

    def mark_synced(self, made: int) -> None:
        """Record a successful sync that began after `made` changes."""
        assert made <= self.made, f"{made} changes synced, {self.made} made"
        self.synced = max(self.synced, made)


class ChangeCount(NamedTuple):
    """Number of changes of one file or directory when changed files were listed."""

    changes: Changes
    made: int


class ChangedFiles(NamedTuple):
    """Files and directories to sync, in this order, and the changes that such a sync covers."""

    files: list[File]
    directories: list[str]
    seen: list[ChangeCount]

    def add(self, other: "ChangedFiles") -> None:
        """Add the files and directories of another list."""
        self.files.extend(other.files)
        self.directories.extend(other.directories)
        self.seen.extend(other.seen)

    def mark_synced(self) -> None:
        """Record a successful sync of all listed files and directories that began after the listing."""
        for changes, made in self.seen:
            changes.mark_synced(made)


def list_changed_files(files: Iterable[tuple[File, Changes]], directory: str, names: Changes) -> ChangedFiles:
    """Return the files with unsynced changes, and the directory if its names changed since the last sync."""
    found = ChangedFiles([], [], [])
    for file, changes in files:
        if not changes.are_synced:
            found.files.append(file)
            found.seen.append(ChangeCount(changes, changes.made))
    if not names.are_synced:
        found.directories.append(directory)
        found.seen.append(ChangeCount(names, names.made))
    return found
