"""What a checkpoint must sync: which files and directories changed since a sync last covered them.

    synced ≤ made

Every change of a file or a directory is counted where it is made. Who wants to sync takes the counts along, and reports
them when the sync returned: changes that were made meanwhile count for the next one. A failed sync is reported by
nobody. `segmented_log` and `segment` count; the owner of a replica's log asks and reports.
"""

from collections.abc import Iterable
from typing import NamedTuple

from raftlog.storage.disk import File


class Changes:
    """How often one file or directory was changed, and how many of these changes a sync covered."""

    __slots__ = ("made", "synced")

    def __init__(self) -> None:
        self.made = 0
        self.synced = 0

    @property
    def are_synced(self) -> bool:
        return self.synced == self.made

    def note(self) -> None:
        """Something is changed now."""
        self.made += 1

    def note_synced(self, made: int) -> None:
        """A sync returned that began when so many changes had been made."""
        assert made <= self.made, f"{made} changes synced, {self.made} made"
        self.synced = max(self.synced, made)


class ChangeCount(NamedTuple):
    """How many changes had been made when somebody looked."""

    changes: Changes
    made: int


class ChangedFiles(NamedTuple):
    """Files and directories to sync, in this order, and what such a sync covers."""

    files: list[File]
    directories: list[str]
    seen: list[ChangeCount]

    def add(self, other: "ChangedFiles") -> None:
        """Sync those as well."""
        self.files.extend(other.files)
        self.directories.extend(other.directories)
        self.seen.extend(other.seen)

    def note_synced(self) -> None:
        """A sync of all of them that began after they were listed returned without an error."""
        for changes, made in self.seen:
            changes.note_synced(made)


def changed_files(files: Iterable[tuple[File, Changes]], directory: str, names: Changes) -> ChangedFiles:
    """Those of the files, and the directory if its names changed, that no sync covered."""
    found = ChangedFiles([], [], [])
    for file, changes in files:
        if not changes.are_synced:
            found.files.append(file)
            found.seen.append(ChangeCount(changes, changes.made))
    if not names.are_synced:
        found.directories.append(directory)
        found.seen.append(ChangeCount(names, names.made))
    return found
