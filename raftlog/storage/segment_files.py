"""Files of a segment, three for each: names, opening, creation and replacement.

Their content is defined in `segment`. Called by the code that opens, creates or examines a log's directory."""

import errno
from collections.abc import Callable, Sequence
from typing import NamedTuple

from raftlog.storage.disk import Disk, File
from raftlog.types import Buffer

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
STAGED_SUFFIX = ".compacted"
"""Suffix of files that compaction writes, until they replace their sources."""


def segment_stem(base_offset: int) -> str:
    """Return the file name of a segment without suffix: the base offset in twenty digits."""
    return f"{base_offset:020d}"


class SegmentFiles(NamedTuple):
    """Three open files of a segment."""

    log: File
    index: File  # type: ignore[assignment]  # the file is called so; tuple.index is never wanted here
    times: File


def open_segment_files(disk: Disk, path: str, base_offset: int) -> SegmentFiles:
    """Open the files of one segment; create missing index files, empty."""

    def open_one(name: str) -> File:
        """Open one file; a missing index file is created."""
        return disk.open(name, create=not name.endswith(LOG_SUFFIX) and not disk.exists(name))

    return _open_three(f"{path}/{segment_stem(base_offset)}", open_one)


def open_files_for_reading(disk: Disk, path: str, base_offset: int) -> SegmentFiles:
    """Open the files of one segment for tools that only read; a missing index file reads as empty."""

    def open_one(name: str) -> File:
        """Open one file; a missing index file appears empty."""
        if name.endswith(LOG_SUFFIX) or disk.exists(name):
            return disk.open(name, read_only=True)
        return MissingFile(name)

    return _open_three(f"{path}/{segment_stem(base_offset)}", open_one)


def _open_three(stem: str, open_one: Callable[[str], File]) -> SegmentFiles:
    """Open all three files or none: after an error close those already open."""
    files: list[File] = []
    try:
        for suffix in SUFFIXES:
            files.append(open_one(stem + suffix))
    except OSError:
        for file in files:
            file.close()
        raise
    return SegmentFiles(*files)


class MissingFile:
    """Placeholder of an index file that does not exist."""

    def __init__(self, path: str) -> None:
        self.path = path

    def size(self) -> int:
        return 0

    def read(self, position: int, length: int) -> bytes:
        return b""

    def prefetch(self) -> None:
        """Do nothing: there are no bytes."""

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        raise FileNotFoundError(errno.ENOENT, "the file is missing", self.path)

    def truncate(self, size: int) -> None:
        raise FileNotFoundError(errno.ENOENT, "the file is missing", self.path)

    def close(self) -> None:
        """Do nothing: no file is open."""


def stage_segment_files(disk: Disk, path: str, base_offset: int) -> SegmentFiles:
    """Create staged files to replace those of a segment; delete files of an interrupted attempt first."""
    unstage_segment_files(disk, path, base_offset)
    stem = f"{path}/{segment_stem(base_offset)}"
    return _open_three(stem, lambda name: disk.open(name + STAGED_SUFFIX, create=True))


def place_segment_files(disk: Disk, path: str, base_offset: int) -> None:
    """Delete the old index files, then rename staged files to their final names.

    So no index is ever beside a `.log` to which it does not belong. A `.log` without its indexes gets new ones on
    opening."""
    stem = f"{path}/{segment_stem(base_offset)}"
    for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX):
        disk.unlink(stem + suffix)
    for suffix in SUFFIXES:
        disk.rename(stem + suffix + STAGED_SUFFIX, stem + suffix)


def unstage_segment_files(disk: Disk, path: str, base_offset: int) -> None:
    """Delete staged files that were not renamed."""
    for suffix in SUFFIXES:
        name = f"{path}/{segment_stem(base_offset)}{suffix}{STAGED_SUFFIX}"
        if disk.exists(name):
            disk.unlink(name)


def create_segment_files(disk: Disk, path: str, base_offset: int) -> SegmentFiles:
    """Create the files of a new segment, and replace index files left over from a deleted log."""
    stem = f"{path}/{segment_stem(base_offset)}"
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        if disk.exists(stem + suffix):
            disk.unlink(stem + suffix)
    files: list[File] = []
    try:
        for suffix in SUFFIXES:
            files.append(disk.open(stem + suffix, create=True))
    except OSError:
        for file in files:
            file.close()
            disk.unlink(file.path)
        raise
    return SegmentFiles(*files)
