"""Files of one group's directory during recovery: present files, deletions, and tails that are set aside.

Bytes that were never promised are deleted. Entries after a lost tail were promised, so they are kept in
`.raftlog/damaged/`, durably, before their place is used again. Names that are no segment's stay as they are."""

import re
from typing import Final

from raftlog.storage.directory import DAMAGED, internal_path, make_directory
from raftlog.storage.disk import Disk
from raftlog.storage.recovery import segment_bases
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import LOG_SUFFIX, STAGED_SUFFIX, SUFFIXES, segment_stem
from raftlog.types import Offset

_SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex)")
_STAGED_FILE: Final = re.compile(rf"{_SEGMENT_FILE.pattern}{re.escape(STAGED_SUFFIX)}")
_COPY_BYTES: Final = 4 << 20


class GroupFiles:
    """Files of one directory. `bases` are the base offsets of the `.log` files, ascending."""

    def __init__(self, disk: Disk, path: str) -> None:
        """List the segment files in the directory `path`."""
        self.bases = [Offset(base) for base in segment_bases(disk, path)]
        self.is_changed = False
        """Whether a name was removed."""
        self._disk = disk
        self._path = path

    def base_before(self, base: int) -> Offset | None:
        """Return the base offset of the file before the one at `base`; None without any."""
        return next((older for older in reversed(self.bases) if older < base), None)

    def base_after(self, base: int) -> Offset | None:
        """Return the base offset of the file after the one at `base`; None without any."""
        return next((newer for newer in self.bases if newer > base), None)

    def remove(self, base: Offset) -> None:
        """Delete the files of a segment."""
        stem = f"{self._path}/{segment_stem(base)}"
        for suffix in reversed(SUFFIXES):
            if self._disk.exists(stem + suffix):
                self._disk.unlink(stem + suffix)
        self.bases.remove(base)
        self.is_changed = True

    def remove_orphans(self) -> None:
        """Delete index files without their `.log`, and staged files of an unfinished compaction."""
        for name in self._disk.list_directory(self._path):
            match = _SEGMENT_FILE.fullmatch(name)
            is_orphan = match is not None and not self._disk.exists(f"{self._path}/{match[1]}{LOG_SUFFIX}")
            if is_orphan or _STAGED_FILE.fullmatch(name):
                self._disk.unlink(f"{self._path}/{name}")
                self.is_changed = True

    @staticmethod
    def cut(segment: Segment) -> None:
        """Cut a segment's files after its last entry."""
        if segment.files.log.size() > segment.end_position:
            segment.log_changes.count()
            segment.files.log.truncate(segment.end_position)
        if segment.files.index.size() > segment.index_bytes:  # rows that wait for the file find their old bytes there
            segment.index_changes.count()
            segment.files.index.truncate(segment.index_bytes)

    # setting aside

    def keep_tail(self, segment: Segment) -> None:
        """Copy the bytes after a segment's last entry to `.raftlog/damaged/`, if there are any."""
        log = segment.files.log
        position = segment.end_position
        if log.size() <= position:
            return
        kept = self._choose_kept_path(segment.base_offset, position)
        copy = self._disk.open(kept, create=True)
        try:
            for at in range(position, log.size(), _COPY_BYTES):
                copy.write(at - position, [log.read(at, _COPY_BYTES)])
            self._disk.sync([copy], [internal_path(self._path, DAMAGED)])
        finally:
            copy.close()

    def keep_file(self, base: Offset) -> None:
        """Move a `.log` file to `.raftlog/damaged/`, and delete its index files."""
        kept = self._choose_kept_path(base, 0)
        self._disk.rename(f"{self._path}/{segment_stem(base)}{LOG_SUFFIX}", kept)
        self.remove(base)
        self._disk.sync([], [internal_path(self._path, DAMAGED), self._path])

    def _choose_kept_path(self, base: int, position: int) -> str:
        """Return an unused path in `.raftlog/damaged/` for bytes of the file at `base` from `position` on."""
        directory = internal_path(self._path, DAMAGED)
        make_directory(self._disk, directory)
        number = len(self._disk.list_directory(directory))
        while self._disk.exists(kept := f"{directory}/{segment_stem(base)}{LOG_SUFFIX}.{position}.{number}"):
            number += 1
        return kept
