"""Power loss: reverts random writes that are not durable, in the files of a process that has ended.

First names: of the operations of each directory a prefix survives. Then sizes and pages of the files that still have a
name; each survives or not, independently. Afterwards the present state counts as durable.
"""

import os
import shutil
from pathlib import Path
from random import Random
from typing import NamedTuple

from jepsen.disk.volatile import PAGE_BYTES, File, Operation, Volatile


class LossCounts(NamedTuple):
    """Counts of the reverted pages, sizes and names, and of those that were not durable."""

    pages: int
    pages_unsynced: int
    sizes: int
    names: int
    names_unsynced: int
    files: int
    """Number of files whose content or size was reverted."""

    def __str__(self) -> str:
        if not (self.pages_unsynced or self.names_unsynced or self.sizes):
            return "everything was synced"
        pages = f"{self.pages} of {self.pages_unsynced} unsynced pages and {self.sizes} sizes of {self.files} files"
        return f"dropped {pages}, and {self.names} of {self.names_unsynced} unsynced names"


def revert_unsynced(
    data_dir: Path, unlinked: Path, volatile: Volatile, random: Random, torn: bool = True
) -> LossCounts:
    """Revert writes that are not durable, as a power loss does; no process may have the files open for writing.

    `unlinked` is the directory of files whose names were removed. Without `torn` a file keeps all of its unsynced state
    or none."""
    names = _lose_names(data_dir, unlinked, volatile.operations, random)
    paths = _Tree(data_dir).paths
    pages = sizes = files = unsynced = 0
    for inode, file in volatile.files.items():
        if inode in paths:
            unsynced += len(file.pages)
            dropped, is_resized = _lose_content(paths[inode], file, random, torn)
            pages, sizes, files = pages + dropped, sizes + is_resized, files + bool(dropped or is_resized)
    return LossCounts(pages, unsynced, sizes, names, len(volatile.operations), files)


class _Tree:
    """Directories and files below a directory, by inode."""

    def __init__(self, root: Path) -> None:
        self.root = root.stat().st_ino
        self.entries: dict[int, dict[str, int]] = {}
        self.paths: dict[int, Path] = {}
        self._walk(self.root, root)

    def _walk(self, inode: int, directory: Path) -> None:
        """Add a directory, given by its inode and path, and all its content."""
        entries = self.entries[inode] = {}
        self.paths[inode] = directory
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            entries[entry.name] = entry.inode()
            if entry.is_dir(follow_symlinks=False):
                self._walk(entry.inode(), Path(entry.path))
            else:
                self.paths[entry.inode()] = Path(entry.path)

    def undo(self, operation: Operation) -> None:
        """Restore the former files of the names that the operation changed."""
        for directory, before, name in reversed(operation.changes):
            entries = self.entries.setdefault(directory, {})
            entries.pop(name, None)
            if before:
                entries[name] = before

    def build(self, inode: int, at: Path) -> None:
        """Build a copy of this tree elsewhere: the same files under their names in new directories."""
        at.mkdir()
        for name, entry in self.entries[inode].items():
            if entry in self.entries:
                self.build(entry, at / name)
            else:
                os.link(self.paths[entry], at / name, follow_symlinks=False)


def _lose_names(data_dir: Path, unlinked: Path, operations: list[Operation], random: Random) -> int:
    """Undo a random part of the operations on names; return the number of undone operations."""
    undone = _draw_lost(operations, random)
    if undone:
        tree, unlinked_tree = _Tree(data_dir), _Tree(unlinked)
        tree.paths |= unlinked_tree.paths
        tree.entries |= unlinked_tree.entries
        for operation in reversed(undone):
            tree.undo(operation)
        new, old = unlinked.with_name("rebuilt"), unlinked.with_name("replaced")
        tree.build(tree.root, new)
        data_dir.rename(old)
        new.rename(data_dir)
        shutil.rmtree(old)
    return len(undone)


def _draw_lost(operations: list[Operation], random: Random) -> list[Operation]:
    """Draw the operations that do not survive. A rename across two directories is lost in both or in neither."""
    counts: dict[int, int] = {}
    for operation in operations:
        for directory in operation.directories:
            counts[directory] = counts.get(directory, 0) + 1
    left = {directory: random.randint(0, count) for directory, count in counts.items()}
    undone = []
    for operation in operations:
        is_kept = all(left[directory] > 0 for directory in operation.directories)
        for directory in operation.directories:
            left[directory] = left[directory] - 1 if is_kept else 0
        if not is_kept:
            undone.append(operation)
    return undone


def _lose_content(path: Path, file: File, random: Random, torn: bool) -> tuple[int, bool]:
    """Revert content of a file; return the number of reverted pages, and whether the size was reverted."""
    with path.open("r+b", buffering=0) as opened:
        written = os.fstat(opened.fileno()).st_size
        keeps_all = random.random() < 0.5
        size = _surviving_size(file.durable_size, written, random, torn, keeps_all)
        opened.truncate(size)
        dropped = 0
        for page, (durable, is_lost) in sorted(file.pages.items()):
            start = page * PAGE_BYTES
            is_kept = (random.random() < 0.5 if torn else keeps_all) and not is_lost and start < written
            if not is_kept:
                dropped += 1
            if not is_kept and start < size:
                os.pwrite(opened.fileno(), durable[: size - start], start)
        return dropped, size != written


def _surviving_size(durable: int | None, written: int, random: Random, torn: bool, keeps_all: bool) -> int:
    """Return the file's size after the power loss; a file that grew may keep a part of the growth, in whole pages."""
    if durable is None:
        return written
    if not torn:
        return written if keeps_all else durable
    if durable >= written:
        return random.choice((durable, written))
    border = PAGE_BYTES * random.randint(durable // PAGE_BYTES, written // PAGE_BYTES)
    return random.choice((durable, written, max(durable, border)))
