"""Making a replica's directory: with the group's first roll, or empty for one that will be filled by its leader.

Everything is synced before the journal says `created`; a directory without that mark that holds at most a first roll
was left by a crash, and is made again.
"""

import uuid

from raftlog.errors import FormatError
from raftlog.raft import HardState, Restart
from raftlog.records import HEADER_SIZE, crc_matches, read_header
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.control_entries import configuration_of_roll
from raftlog.runtime.group_log import GroupLog
from raftlog.runtime.replica_directory import delete_tree, make_replica_directory
from raftlog.storage.disk import Disk
from raftlog.storage.recovery import segment_bases
from raftlog.storage.roll import Roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Offset, Term

_BLOCK = 4096


def create_log(disk: Disk, path: str, roll: Roll, config: DriverConfig) -> tuple[GroupLog, Restart]:
    """Make the directory with the first roll in it, at index 1 and term 0; durable on return. Raises `FormatError`."""
    assert roll.base_index == 1, f"the first roll of a group is at index {roll.base_index}"
    segments = _make(disk, path, roll.group_id)
    segments.append_roll(roll, Term(0))
    segments.write()
    disk.sync(*segments.sync_targets())
    segments.mark_durable(segments.last_index)
    configuration = configuration_of_roll(roll)
    restart = Restart(HardState(Term(0), None), (configuration,), Index(1), Index(1))
    return GroupLog(segments, config.recent_bytes_max), restart


def empty_log(disk: Disk, path: str, group_id: uuid.UUID, config: DriverConfig) -> tuple[GroupLog, Restart]:
    """Make the directory without a segment; durable on return. Raises `FormatError`."""
    return GroupLog(_make(disk, path, group_id), config.recent_bytes_max), Restart(HardState(Term(0), None), ())


def _make(disk: Disk, path: str, group_id: uuid.UUID) -> SegmentedLog:
    if disk.exists(path):
        _check_left_over(disk, path)
        delete_tree(disk, path)
    make_replica_directory(disk, path, group_id)
    return SegmentedLog(disk, path, (), Offset(0))


def _check_left_over(disk: Disk, path: str) -> None:
    """A first roll, or less of it, is all that a directory without a mark may hold."""
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
        raise FormatError(f"{path} holds a log that the journal does not know of; move it away before it is made anew")


def _first_roll_size(data: bytes) -> int:
    """How long a file may be that holds nothing but a first roll, whole or torn."""
    if len(data) < HEADER_SIZE:
        return HEADER_SIZE
    header = read_header(data)
    is_whole = HEADER_SIZE <= header.size <= len(data) and crc_matches(data[: header.size], header)
    return header.size if is_whole else _BLOCK
