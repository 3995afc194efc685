"""Complete checks of segments with a possible error, and comparisons of copies entry by entry.

Both use the code of `raftlog log verify`, which is much slower. So they run only after a problem, or if replicas were
compacted: then the newest record of every key must be the same. Called in tasks, by `job`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.errors import RaftlogError
from raftlog.pipeline.segments.replicas import DataDirectory, real_disk
from raftlog.pipeline.verification.groups import PartitionCopies
from raftlog.pipeline.verification.segment_walk import SegmentFile
from raftlog.pipeline.verification.verdicts import CheckedSegment, ComparedGroup
from raftlog.runtime.log.newest_records import NewestRecords, OfflineEntry, find_difference
from raftlog.runtime.log.offline import OfflineReplica, compare_replicas, list_offline_replicas
from raftlog.storage.disk import Disk
from raftlog.storage.verify import verify_segment
from raftlog.types import Index, Offset

PROBLEMS_OF_A_SEGMENT_MAX: Final = 100
"""Maximum number of problems of a segment that are sent to the driver."""


class SegmentToCheck(NamedTuple):
    """Segment to check completely; `newer` is the base offset of the next segment."""

    file: SegmentFile
    newer: int | None


class Copy(NamedTuple):
    """Copy of a Raft group's log, and its path."""

    path: str
    owner: DataDirectory | None
    log_start: int


class GroupToCompare(NamedTuple):
    """Copies of a log to compare entry by entry; with `newest_below`, only their newest records below that entry."""

    group_id: UUID
    copies: tuple[Copy, ...]
    newest_below: int | None


def plan_comparison(group: PartitionCopies, *, is_newest: bool) -> GroupToCompare:
    """Return the task input for a comparison of all copies; `is_newest`: only of the newest record of each key."""
    assert group.group_id is not None, f"{group} is alone"
    copies = [
        Copy(log.path, log.owner if journaled is not None else None, 0 if journaled is None else journaled.log_start)
        for log, journaled in zip(group.logs, group.journaled, strict=True)
    ]
    return GroupToCompare(group.group_id, tuple(copies), group.copies.uncompacted_from if is_newest else None)


def check_segment(segment: SegmentToCheck) -> list[CheckedSegment]:
    """Check a segment; return a list with its report. Raises `OSError`."""
    file = segment.file
    try:
        report = verify_segment(real_disk(), file.directory, file.base, segment.newer)
    except FileNotFoundError:
        return [CheckedSegment(file.directory, file.base, None, 0)]
    listed = replace(report, problems=report.problems[:PROBLEMS_OF_A_SEGMENT_MAX])
    return [CheckedSegment(file.directory, file.base, listed, len(report.problems))]


def compare_groups(groups: Sequence[GroupToCompare]) -> Iterator[ComparedGroup]:
    """Yield the result of the comparison of each group; read each journal once. Raises `OSError`."""
    disk = real_disk()
    known: dict[DataDirectory, dict[str, OfflineReplica]] = {}
    for group in groups:
        try:
            yield _compare_group(disk, group, known)
        except RaftlogError as error:
            yield ComparedGroup(group.group_id, False, 1, 0, 0, str(error))


def _compare_group(
    disk: Disk, group: GroupToCompare, known: dict[DataDirectory, dict[str, OfflineReplica]]
) -> ComparedGroup:
    """Return the result of comparing the copies of a group. Raises `RaftlogError`."""
    if group.newest_below is not None:
        below = group.newest_below
        copies = [copy for copy in group.copies if _find_last_index(disk, group, copy) >= below - 1]
        behind = tuple(copy.path for copy in group.copies if copy not in copies)
        found = [_read_newest(disk, group, copy, below) for copy in copies]
        difference = (
            find_difference(
                [copy.path for copy in copies], found, lambda number: _read_entries(disk, group, copies[number])
            )
            if len(copies) > 1
            else None
        )
        return ComparedGroup(group.group_id, True, 0, 0, 0, difference, behind)
    replicas = []
    for copy in group.copies:
        owner = copy.owner
        if owner is None:
            replicas.append(OfflineReplica(copy.path, group.group_id, None, None))
            continue
        if owner not in known:
            known[owner] = {each.path: each for each in list_offline_replicas(disk, owner.data_dir, owner.disk_uuid)}
        replicas.append(known[owner][copy.path])
    compared = compare_replicas(disk, replicas)
    return ComparedGroup(
        group.group_id,
        False,
        compared.first,
        compared.last,
        compared.end_offset,
        compared.difference,
        compared.behind,
    )


def _read_newest(disk: Disk, group: GroupToCompare, copy: Copy, below: int) -> NewestRecords:
    """Return the newest records of a copy below entry `below`."""
    newest = NewestRecords(Index(below), Offset(copy.log_start))
    entries = _read_entries(disk, group, copy)
    newest.take(next(entries, None), entries)
    return newest


def _find_last_index(disk: Disk, group: GroupToCompare, copy: Copy) -> int:
    """Return the index of the last entry in a copy's files."""
    return OfflineReplica(copy.path, group.group_id, None, None).find_last_index(disk)


def _read_entries(disk: Disk, group: GroupToCompare, copy: Copy) -> Iterator[OfflineEntry]:
    """Yield all entries of a copy's files."""
    return OfflineReplica(copy.path, group.group_id, None, None).entries(disk)
