"""Plan of a read: chooses one replica of each partition, and divides its batches among tasks.

    splits of a partition: end of one = start of the next;   bytes of a split ≤ `split_bytes`, or one batch

Of several replicas the one is read whose journal has the highest commit index. Called on the driver by the data source
and by the jobs: `logs_in` returns the logs, `splits_of` divides a range of offsets, `plan_segments` does both. Damage
that can be found without reading all batches is an error here, or with `skips_damage` a warning."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Final
from uuid import UUID

from raftlog.errors import FormatError, InvalidArgument, UnknownTopic
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.positions import EARLIEST, LATEST, OffsetPosition, OffsetPositions, PositionKind
from raftlog.pipeline.segments.extent import CarriedBudget, LogExtent, find_extent
from raftlog.pipeline.segments.pieces import SegmentPiece, SegmentSplit, divide_piece
from raftlog.pipeline.segments.reader import find_offset_at
from raftlog.pipeline.segments.replicas import FoundReplica, find_replicas, real_disk
from raftlog.storage.disk import Disk
from raftlog.storage.segment import open_for_reading

SPLIT_BYTES: Final = 64 << 20
PIECES_MAX: Final = 1024
"""Maximum number of pieces in one split: a log can have many small files."""
_LISTED_MAX: Final = 20
_ALL: Final = TopicChoice()
_FROM_EARLIEST: Final = OffsetPositions(EARLIEST)
_TO_LATEST: Final = OffsetPositions(LATEST)


def plan_segments(
    paths: Sequence[str],
    *,
    topics: TopicChoice = _ALL,
    starting: OffsetPositions = _FROM_EARLIEST,
    ending: OffsetPositions = _TO_LATEST,
    split_bytes: int = SPLIT_BYTES,
    splits_min: int = 1,
    skips_damage: bool = False,
    skips_undecodable: bool = False,
) -> list[SegmentSplit]:
    """Return the splits of all chosen partitions, sorted by topic, partition and offset.

    If there would be fewer than `splits_min` splits, they are made smaller. Raises `UnknownTopic`; `InvalidArgument`
    for offsets outside of the log; `CorruptBatch`, `FormatError` and `StorageError` for damage; `OSError`."""
    extents = logs_in(paths, topics=topics, skips_damage=skips_damage)
    partitions: dict[str, int] = {}
    for extent in extents:
        partitions[extent.topic] = max(partitions.get(extent.topic, 0), extent.partition + 1)
    starting.check(partitions)
    ending.check(partitions)
    ranges = [_select_range(extent, starting, ending) for extent in extents]

    def divide(size: int) -> list[SegmentSplit]:
        """Return the splits of all logs with about `size` bytes each."""
        return [
            split
            for extent, (start, end) in zip(extents, ranges, strict=True)
            for split in splits_of(
                extent,
                start,
                end,
                split_bytes=size,
                skips_damage=skips_damage,
                skips_undecodable=skips_undecodable,
            )
        ]

    splits = divide(split_bytes)
    if 0 < len(splits) < splits_min:
        splits = divide(max(1, sum(split.size for split in splits) // splits_min))
    return splits


# choice of replicas


def logs_in(paths: Sequence[str], *, topics: TopicChoice = _ALL, skips_damage: bool = False) -> list[LogExtent]:
    """Return the log of each chosen partition, sorted by topic and partition: its start, end and files.

    Internal topics are chosen only by name. Raises the errors of `plan_segments`."""
    found = find_replicas(paths)
    by_name: dict[tuple[str, int], list[FoundReplica]] = {}
    for replica in found:
        by_name.setdefault((replica.topic, replica.partition), []).append(replica)
    chosen = _chosen_topics(topics, found, paths)
    room = CarriedBudget()
    extents = []
    names: dict[UUID, FoundReplica] = {}
    for name in sorted(by_name):
        if name[0] not in chosen:
            continue
        extent = _choose_log(by_name[name], room)
        replica = extent.replica
        assert replica.group_id is not None, f"{replica} was chosen"
        other = names.setdefault(replica.group_id, replica)
        if other is not replica:
            raise InvalidArgument(f"{replica} and {other} are copies of the same log: name only one of them")
        _report_problems(extent, skips_damage)
        extents.append(extent)
    named = set(map(os.path.abspath, paths))
    _warn_of_missing_partitions(extent for extent in extents if extent.replica.path not in named)
    return extents


def _chosen_topics(topics: TopicChoice, found: Iterable[FoundReplica], paths: Sequence[str]) -> set[str]:
    """Return the topics to read. Raises `UnknownTopic` for a named one without a log."""
    if topics.names is None:
        return set(topics.select({replica.topic for replica in found if not replica.is_internal}))
    there = {replica.topic for replica in found}
    missing = sorted(set(topics.names) - there)
    if missing:
        listed = ", ".join(sorted(there)[:_LISTED_MAX]) + (", …" if len(there) > _LISTED_MAX else "")
        raise UnknownTopic(f"no log of topic {', '.join(missing)} lies in {', '.join(paths)}; there are {listed}")
    return set(topics.names)


def _choose_log(replicas: Sequence[FoundReplica], room: CarriedBudget) -> LogExtent:
    """Return the log of the replica with the highest commit index, preferably one without damage."""
    unknown = next((replica for replica in replicas if replica.group_id is None), None)
    if unknown is not None:
        raise FormatError(
            f"{unknown.path} cannot be identified: none of its segments begins with a readable roll entry. Read "
            "another replica, or leave this directory out"
        )
    other = next((replica for replica in replicas if replica.group_id != replicas[0].group_id), None)
    if other is not None:
        raise InvalidArgument(
            f"{replicas[0].path} and {other.path} are called {other.topic}/{other.partition} and are different logs "
            f"(groups {replicas[0].group_id} and {other.group_id}): the topic was deleted and created anew, or the "
            "directories are of different clusters. Name the directory of one of them"
        )
    journaled = [replica for replica in replicas if replica.folded is not None]
    if journaled:
        most = max(map(_commit_index, journaled))
        candidates = [replica for replica in journaled if _commit_index(replica) == most]
    else:
        candidates = list(replicas)
    best: LogExtent | None = None
    for replica in candidates:
        extent = find_extent(real_disk(), replica, room)
        if best is None or _preference(extent) > _preference(best):
            best = extent
        if journaled and not best.problems:
            break
    assert best is not None, "there is a replica"
    return best


def _commit_index(replica: FoundReplica) -> int:
    """Return the last entry of a replica that its journal shows as committed."""
    folded = replica.folded
    assert folded is not None, f"{replica} has no journal"
    return min(folded.commit_hint, folded.last_index)


def _preference(extent: LogExtent) -> tuple[bool, int]:
    """Return the sort key to prefer an extent: without problems before others, then by last index."""
    return not extent.problems, extent.last_index


def _report_problems(extent: LogExtent, skips_damage: bool) -> None:
    """Raise the first problem of an extent, or warn of all of them if damage is skipped."""
    for problem in extent.problems:
        if not skips_damage:
            raise problem
        warnings.warn(f"left out: {problem}", stacklevel=3)


def _warn_of_missing_partitions(extents: Iterable[LogExtent]) -> None:
    """Warn of missing partitions, as a data directory contains the replicas of one broker only."""
    there: dict[str, set[int]] = {}
    for extent in extents:
        there.setdefault(extent.topic, set()).add(extent.partition)
    for topic, partitions in there.items():
        missing = (number for number in range(max(partitions)) if number not in partitions)
        listed = ", ".join(map(str, islice(missing, _LISTED_MAX)))
        if listed:
            warnings.warn(
                f"topic {topic} has no replica of partition {listed} here: name the data directories of other brokers "
                "as well",
                stacklevel=3,
            )


# ranges of offsets


def _select_range(extent: LogExtent, starting: OffsetPositions, ending: OffsetPositions) -> tuple[int, int]:
    """Return the start and end offset to read. Raises `InvalidArgument`."""
    start = _resolve_position(extent, starting.position_of(extent.topic, extent.partition), starting.option)
    end = _resolve_position(extent, ending.position_of(extent.topic, extent.partition), ending.option)
    if start > end:
        raise InvalidArgument(
            f"{extent.topic}/{extent.partition} is to be read from offset {start} ({starting.option}) up to {end} "
            f"({ending.option})"
        )
    return start, end


def _resolve_position(extent: LogExtent, position: OffsetPosition, option: str) -> int:
    """Return the offset of a position. Raises `InvalidArgument` for an offset outside of the extent."""
    if position.kind is PositionKind.EARLIEST:
        return extent.start
    if position.kind is PositionKind.LATEST:
        return extent.end
    if position.kind is PositionKind.TIMESTAMP:
        return find_offset_at(extent, position.value)
    if not extent.start <= position.value <= extent.end:
        raise InvalidArgument(
            f"{option}: offset {position.value} of {extent.topic}/{extent.partition} is not there: "
            f"{extent.replica.path} holds offsets {extent.start} to {extent.end} (exclusive)"
        )
    return position.value


# dividing


def splits_of(
    extent: LogExtent,
    start: int,
    end: int,
    *,
    split_bytes: int = SPLIT_BYTES,
    skips_damage: bool = False,
    skips_undecodable: bool = False,
    disk: Disk | None = None,
) -> list[SegmentSplit]:
    """Return the splits of offsets from `start` up to `end`, within the extent; none if there are no records."""
    assert extent.start <= start <= end <= extent.end, f"{start} to {end} of {extent.start} to {extent.end}"
    replica = extent.replica
    assert replica.group_id is not None, f"{replica} was chosen"
    groups = list(_group_pieces(_select_pieces(disk or real_disk(), extent, start, end, split_bytes), split_bytes))
    splits = []
    for number, pieces in enumerate(groups):
        first = pieces[0].first.offset if number else start
        behind = groups[number + 1][0].first.offset if number + 1 < len(groups) else end
        owner = replica.owner if any(piece.is_journaled for piece in pieces) else None
        splits.append(
            SegmentSplit(
                replica.topic,
                replica.partition,
                replica.group_id,
                replica.path,
                tuple(pieces),
                first,
                behind,
                owner,
                skips_damage,
                skips_undecodable,
            )
        )
    return splits


def _select_pieces(disk: Disk, extent: LogExtent, start: int, end: int, split_bytes: int) -> Iterator[SegmentPiece]:
    """Yield the pieces with offsets in `[start, end)`, divided to at most `split_bytes`."""
    for piece in extent.pieces:
        if piece.last.offset <= start or piece.first.offset >= end or piece.first.offset == piece.last.offset:
            continue
        fits = start <= piece.first.offset and piece.last.offset <= end and piece.size <= split_bytes
        if fits or piece.is_journaled:
            yield piece
            continue
        with closing(open_for_reading(disk, extent.replica.path, piece.base)) as segment:
            segment.compacted_to = piece.compacted_to
            yield from divide_piece(piece, segment, start, end, split_bytes)


def _group_pieces(pieces: Iterable[SegmentPiece], split_bytes: int) -> Iterator[list[SegmentPiece]]:
    """Yield lists of consecutive pieces of at most `split_bytes` together, or of one piece."""
    group: list[SegmentPiece] = []
    size = 0
    for piece in pieces:
        if group and (size + piece.size > split_bytes or len(group) == PIECES_MAX):
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.size
    if group:
        yield group
