"""Creation of a replica's directory: with the group's first roll, or with an empty log that the leader will fill.

Everything is synced before the journal has the `created` mark; a directory without that mark that holds at most a first
roll was left by a crash, and is made again."""

import uuid

from raftlog.errors import FormatError
from raftlog.raft import HardState, Restart
from raftlog.records import HEADER_SIZE, crc_matches, read_header
from raftlog.runtime.log.control_entries import configuration_of_roll
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.log.replica_directory import REPLICA, delete_tree
from raftlog.storage.directory import (
    META,
    internal_path,
    is_inside,
    list_ancestors,
    make_directory_unsynced,
    meta_fields,
)
from raftlog.storage.disk import Disk, File
from raftlog.storage.json_file import place_json, stage_json
from raftlog.storage.recovery import segment_bases
from raftlog.storage.roll import Roll
from raftlog.storage.segmented_log import SegmentedLog, SyncTargets
from raftlog.types import Index, Offset, Term

_BLOCK = 4096


class DirectoryCreation:
    """Creation of one directory, in two stages, each of which the caller syncs before it continues.

    The meta file gets its name only when its content is durable: a torn meta file would count as damage."""

    def __init__(self, disk: Disk, data_dir: str, path: str, group_id: uuid.UUID, roll: Roll | None) -> None:
        """Prepare the directory of a new replica at `path`; `roll` begins its log (None: the log begins empty)."""
        assert roll is None or roll.base_index == 1, "the first roll of a group is at index 1"
        self.path = path
        self.group_id = group_id
        self._disk = disk
        self._data_dir = data_dir
        self._roll = roll
        self._meta: File | None = None
        self._segments: SegmentedLog | None = None

    def begin(self) -> SyncTargets:
        """Make the directory, and write the staged meta file. Raises `FormatError` if it holds an unknown log."""
        disk, path = self._disk, self.path
        if disk.exists(path):
            _check_leftover(disk, path)
            delete_tree(disk, path)
        make_directory_unsynced(disk, internal_path(path))
        # The topic's directory may exist already: made for another partition, not synced yet.
        directories = [
            above for above in reversed(list_ancestors(internal_path(path))) if is_inside(above, self._data_dir)
        ]
        self._meta = stage_json(disk, internal_path(path, META), meta_fields(REPLICA, {"group_id": str(self.group_id)}))
        return SyncTargets([self._meta], [*directories, internal_path(path)])

    def write_roll(self) -> SyncTargets:
        """Rename the meta file to its final name, and write the first roll, if there is one."""
        assert self._meta is not None, f"{self.path}: begin first"
        self._meta.close()
        place_json(self._disk, internal_path(self.path, META))
        segments = self._segments = SegmentedLog(self._disk, self.path, (), Offset(0))
        if self._roll is not None:
            segments.append_roll(self._roll, Term(0))
            segments.write()
        files, directories = segments.sync_targets()
        return SyncTargets(files, [internal_path(self.path), *directories])

    def finish(self, recent_bytes_max: int) -> tuple[GroupLog, Restart]:
        """Return the group's log and Raft state, once everything is durable and may be marked as created."""
        segments = self._segments
        assert segments is not None, f"{self.path}: nothing was made"
        none = HardState(Term(0), None)
        if self._roll is None:
            return GroupLog(segments, recent_bytes_max), Restart(none, ())
        segments.mark_durable(segments.last_index)
        restart = Restart(none, (configuration_of_roll(self._roll),), Index(1), Index(1))
        return GroupLog(segments, recent_bytes_max), restart

    def run(self, recent_bytes_max: int) -> tuple[GroupLog, Restart]:
        """Run all stages with their syncs; blocking."""
        try:
            self._disk.sync(*self.begin())
            self._disk.sync(*self.write_roll())
        except BaseException:
            self.abandon()
            raise
        return self.finish(recent_bytes_max)

    def abandon(self) -> None:
        """Close the files; without a mark in the journal the directory is created again."""
        if self._meta is not None:
            self._meta.close()
        if self._segments is not None:
            self._segments.close()


def _check_leftover(disk: Disk, path: str) -> None:
    """Raise `FormatError` if a directory without a mark holds more than a first roll, whole or torn."""
    bases = segment_bases(disk, path)
    if not bases:
        return
    file = disk.open(f"{path}/{bases[0]:020d}.log", read_only=True)
    try:
        data = file.read(0, _BLOCK + 1)
        is_first_roll = bases == [0] and len(data) <= _first_roll_size(data)
    finally:
        file.close()
    if not is_first_roll:
        raise FormatError(f"{path} holds a log that is not in the journal; move it away, and retry")


def _first_roll_size(data: bytes) -> int:
    """Return the highest size of a file that holds only a first roll, whole or torn."""
    if len(data) < HEADER_SIZE:
        return HEADER_SIZE
    header = read_header(data)
    is_complete = HEADER_SIZE <= header.size <= len(data) and crc_matches(data[: header.size], header)
    return header.size if is_complete else _BLOCK
