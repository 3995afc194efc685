"""Opening of a lone log's directory: lock, meta file, first roll, recovery.

A log exists from the moment its checkpoint does; a directory with a meta file, without a checkpoint and with only
its first roll is left from an interrupted creation, and is created again."""

import logging
import uuid
from collections.abc import Callable
from typing import NamedTuple

from raftlog.errors import FormatError, SmallFileDamaged
from raftlog.storage.checkpoint import Checkpoint, CheckpointFile
from raftlog.storage.directory import (
    CHECKPOINT,
    INTERNAL,
    LONE_LOG,
    META,
    SYNC_FAILED,
    internal_path,
    list_ancestors,
    lock_directory,
    make_directory,
    read_meta,
    write_meta,
)
from raftlog.storage.disk import DirectoryLock, Disk
from raftlog.storage.recovery import Recovery, RecoveryReport, read_roll, segment_bases
from raftlog.storage.roll import Roll
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import open_segment_files
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.topic_config import LogConfig
from raftlog.types import Offset, Term

_logger = logging.getLogger(__name__)


class OpenedLog(NamedTuple):
    """Result of opening the directory of a lone log."""

    group_id: uuid.UUID
    lock: DirectoryLock
    checkpoint: CheckpointFile
    log: SegmentedLog
    report: RecoveryReport


def open_or_create(disk: Disk, path: str, config: LogConfig, clock: Callable[[], int], *, create: bool) -> OpenedLog:
    """Lock and open the log in `path`; create it if it is missing and `create` is set.

    Raises `FormatError` and `DirectoryLocked`."""
    _check_directory(disk, path, create)
    make_directory(disk, internal_path(path))
    lock = lock_directory(disk, path)
    try:
        return _open_locked(disk, path, clock, lock)
    except BaseException:
        lock.release()
        raise


def _check_directory(disk: Disk, path: str, create: bool) -> None:
    """Raise `FormatError` if the path is not a log, nor an empty or missing directory that may become one."""
    if not disk.exists(path):
        if create:
            return
        raise FormatError(f"{path} does not exist")
    if not disk.is_directory(path):
        raise FormatError(f"{path} is not a directory")
    names = disk.list_directory(path)
    if INTERNAL not in names and (names or not create):
        raise FormatError(f"{path} is not a raftlog log: it has no {INTERNAL} directory; choose an empty directory")


def _open_locked(disk: Disk, path: str, clock: Callable[[], int], lock: DirectoryLock) -> OpenedLog:
    """Open the log in a locked directory; close its files after an error."""
    group_id = _read_or_write_meta(disk, path)
    checkpoint = CheckpointFile(disk, internal_path(path, CHECKPOINT))
    recovery = Recovery(disk, path, checkpoint.newest, write_again=disk.exists(internal_path(path, SYNC_FAILED)))
    try:
        return _recover(disk, path, clock, lock, group_id, checkpoint, recovery)
    except BaseException:
        checkpoint.file.close()
        for segment in recovery.segments:
            segment.close()
        raise


def _recover(
    disk: Disk,
    path: str,
    clock: Callable[[], int],
    lock: DirectoryLock,
    group_id: uuid.UUID,
    checkpoint: CheckpointFile,
    recovery: Recovery,
) -> OpenedLog:
    """Recover the segments, and return the open log; create its first segment if it has none."""
    # A checkpoint that is only in the page cache is no proof: a killed process may not have synced it.
    disk.sync([checkpoint.file], [internal_path(path)])
    recovery.run()
    if not recovery.segments:
        if checkpoint.newest:
            raise FormatError(
                f"{path} has lost its segment files: its checkpoint ends at offset "
                f"{checkpoint.newest.next_offset}; restore the files from a copy"
            )
        return _create(
            disk, path, clock, OpenedLog(group_id, lock, checkpoint, _open_empty(disk, path), recovery.report)
        )
    first = recovery.segments[0]
    start = checkpoint.newest.log_start_offset if checkpoint.newest else _read_start_from_rolls(recovery.segments)
    log = SegmentedLog(disk, path, tuple(recovery.segments), Offset(max(start, first.base_offset)))
    log.mark_durable(log.last_index)
    if disk.exists(internal_path(path, SYNC_FAILED)) and not recovery.report.damage:
        disk.unlink(internal_path(path, SYNC_FAILED))
    return OpenedLog(group_id, lock, checkpoint, log, recovery.report)


def _open_empty(disk: Disk, path: str) -> SegmentedLog:
    """Return a log without segments."""
    return SegmentedLog(disk, path, (), Offset(0))


def _create(disk: Disk, path: str, clock: Callable[[], int], opened: OpenedLog) -> OpenedLog:
    """Write the first roll and the first checkpoint, durably; return the open log."""
    log = opened.log
    log.append_roll(Roll(opened.group_id, 1, 0, 0, -1, clock()), Term(0))
    log.write()
    disk.sync(*log.sync_targets())
    log.mark_durable(log.last_index)
    segment = log.active
    disk.sync([segment.files.index], [path, *list_ancestors(path)])
    opened.checkpoint.write(Checkpoint(1, 0, 0, segment.end_position, 0, 1, segment.times.max_timestamp))
    disk.sync([opened.checkpoint.file], [internal_path(path)])
    return opened


def _read_or_write_meta(disk: Disk, path: str) -> uuid.UUID:
    """Return the group id in the meta file; write a lost file again from the first roll, or a new one."""
    damage = None
    try:
        meta = read_meta(disk, path, LONE_LOG)
        if meta is not None:
            return meta.uuid("group_id")
    except SmallFileDamaged as error:
        damage = error
    group_id = _read_group_from_first_roll(disk, path)
    if damage is not None and group_id is None:
        raise damage
    if damage is not None:
        _logger.warning("rewriting the meta file from the first entry: %s", damage)
    group_id = group_id or uuid.uuid4()
    write_meta(disk, path, LONE_LOG, {"group_id": str(group_id)})
    return group_id


def _read_group_from_first_roll(disk: Disk, path: str) -> uuid.UUID | None:
    """Return the group id in the first segment's roll, or None; for a log that lost its meta file."""
    bases = segment_bases(disk, path)
    if not bases:
        return None
    segment = Segment(bases[0], 0, open_segment_files(disk, path, bases[0]))
    try:
        roll = read_roll(segment)
    finally:
        segment.close()
    if roll is None:
        raise FormatError(
            f"{path} has segments but neither {internal_path(path, META)} nor a first entry that could be read; "
            "restore the meta file from a copy"
        )
    return roll.group_id


def _read_start_from_rolls(segments: list[Segment]) -> int:
    """Return the log start in the newest roll, for a log that lost its checkpoint."""
    starts = [roll.log_start_offset for segment in segments if (roll := read_roll(segment))]
    return max(starts, default=segments[0].base_offset)
