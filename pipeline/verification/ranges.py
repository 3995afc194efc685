"""Ranges of files that are read together, and their distribution to tasks.

    ranges of a file: each begins where the one before ends, at a batch with an index row
    bytes of a task ≤ about `split_bytes` of each replica; ranges of all files ≤ `UNITS_MAX`, or one each

A unit is a range of all files of a group with the same name, if none of them is compacted; otherwise of one file. A
file whose roll cannot be read is in no unit: it is checked as a whole. Called by `job` on the driver, which reads the
roll of each file, and of large files some index rows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from raftlog.pipeline.segments.pieces import IndexRows
from raftlog.pipeline.verification.file_comparison import ComparedFiles
from raftlog.pipeline.verification.segment_walk import BatchPosition, SegmentFile, SegmentSpan
from raftlog.runtime.log.offline import find_next_index
from raftlog.storage.checkpoint import Checkpoint, read_checkpoint
from raftlog.storage.disk import Disk
from raftlog.storage.recovery import read_roll, segment_bases
from raftlog.storage.roll import Roll
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.segment import open_for_reading

UNITS_MAX: Final = 16_384
"""Maximum number of units; the driver keeps the result of each, about 700 bytes per file and range."""
UNITS_OF_A_TASK_MAX: Final = 256
_DOUBTED_ROWS_MAX: Final = 16
"""Maximum number of damaged index rows that are skipped in the search for the end of a range."""


class ListedSegment(NamedTuple):
    """Segment with the content of its roll; `has_roll` is false if the roll is unreadable or wrong."""

    file: SegmentFile
    has_roll: bool
    base_index: int
    compacted_to: int
    voters: int

    @property
    def is_compacted(self) -> bool:
        return self.compacted_to > self.file.base


class ListedLog(NamedTuple):
    """Log with its segments in order, and its checkpoint, which was read before the segments were listed.

    `next_index`: index after the last segment, if all are compacted; otherwise 0."""

    path: str
    segments: tuple[ListedSegment, ...]
    checkpoint: Checkpoint | None
    next_index: int = 0

    @property
    def size(self) -> int:
        return sum(segment.file.log_bytes for segment in self.segments)

    @property
    def uncompacted_from(self) -> int:
        """First entry from which on no segment is compacted."""
        return next((each.base_index for each in self.segments if not each.is_compacted), self.next_index)


class Copies(NamedTuple):
    """Logs that should have the same entries up to `stop`, the lowest commit index in their journals (None: unknown).

    `kept_to` has for each log the last entry that is only in its files and not in its journal; None without one."""

    logs: tuple[ListedLog, ...]
    kept_to: tuple[int | None, ...]
    stop: int | None

    @property
    def uncompacted_from(self) -> int:
        return max(log.uncompacted_from for log in self.logs)


def list_segments(disk: Disk, path: str) -> ListedLog:
    """List the segments that exist now. Raises `OSError`."""
    checkpoint = read_checkpoint(disk, path)  # first: it never covers more than the segments listed afterwards
    seen = []
    for base in segment_bases(disk, path):
        try:
            segment = open_for_reading(disk, path, base)
        except FileNotFoundError:
            continue  # retention took it meanwhile
        with closing(segment):
            log_bytes, rows = segment.files.log.size(), segment.files.index.size() // ROW_SIZE
            seen.append(_describe_segment(SegmentFile(path, base, log_bytes, rows), read_roll(segment)))
    is_all_compacted = bool(seen) and all(each.is_compacted for each in seen)
    next_index = find_next_index(disk, path, seen[-1].file.base) if is_all_compacted else 0
    return ListedLog(path, tuple(seen), checkpoint, next_index)


def _describe_segment(file: SegmentFile, roll: Roll | None) -> ListedSegment:
    """Return a segment with the fields of its roll."""
    if roll is None:
        return ListedSegment(file, False, 0, -1, 0)
    return ListedSegment(file, True, roll.base_index, roll.compacted_to, len(roll.voters))


def list_units(disk: Disk, copies: Copies, split_bytes: int) -> Iterator[ComparedFiles]:
    """Yield the ranges of all files of these logs that have a roll; raises `OSError`."""
    whole = copies.uncompacted_from
    together: dict[tuple[int, int], list[tuple[ListedSegment, int | None]]] = {}
    for log, kept_to in zip(copies.logs, copies.kept_to, strict=True):
        for segment in log.segments:
            if not segment.has_roll:
                continue
            if segment.is_compacted or segment.base_index < whole:
                yield from _divide(disk, [(segment, kept_to)], None, split_bytes)
            else:
                together.setdefault((segment.file.base, segment.base_index), []).append((segment, kept_to))
    for files in together.values():
        files.sort(key=lambda each: -each[0].file.rows)
        yield from _divide(disk, files, copies.stop, split_bytes)


def _divide(
    disk: Disk, files: Sequence[tuple[ListedSegment, int | None]], stop: int | None, split_bytes: int
) -> Iterator[ComparedFiles]:
    """Yield the ranges of files that begin at the same entry, at most about `split_bytes` of each file."""
    first = files[0][0]
    start = BatchPosition(0, 0, first.base_index, first.file.base)
    for end in (*_find_borders(disk, first, split_bytes), None):
        reach = [(each.file, kept_to) for each, kept_to in files if each.file.log_bytes > start.position]
        span = SegmentSpan(first.file.base, start, end, first.compacted_to, stop)
        yield ComparedFiles(span, tuple(file for file, _ in reach), tuple(kept_to for _, kept_to in reach))
        if end is not None:
            start = end


def _find_borders(disk: Disk, listed: ListedSegment, split_bytes: int) -> Iterator[BatchPosition]:
    """Return batch positions about `split_bytes` apart, from index rows that match the batches' headers."""
    if listed.file.log_bytes <= split_bytes:
        return
    with closing(open_for_reading(disk, listed.file.directory, listed.file.base)) as segment:
        rows, number, position = IndexRows(segment.files.index), 0, split_bytes
        while position < listed.file.log_bytes:
            number = rows.find_first(number + 1, listed.file.rows, "position", position)
            doubted = range(number, min(number + _DOUBTED_ROWS_MAX, listed.file.rows))
            places = ((each, rows.boundary(each, segment.files.log)) for each in doubted)
            border = next((BatchPosition(at.position, each, at.index, at.offset) for each, at in places if at), None)
            if border is None or border.position >= listed.file.log_bytes:
                return
            yield border
            number, position = border.row, border.position + split_bytes


def choose_range_bytes(logs: Iterable[ListedLog], wanted: int) -> int:
    """Return the size of ranges in bytes: `wanted`, or more if there would be more than `UNITS_MAX` ranges."""
    return max(wanted, sum(log.size for log in logs) // UNITS_MAX)


def combine_units(units: Iterable[ComparedFiles], split_bytes: int) -> Iterator[tuple[ComparedFiles, ...]]:
    """Combine small ranges into tasks; each range is at most about `split_bytes` of each file."""
    waiting: list[ComparedFiles] = []
    size = 0
    for unit in units:
        waiting.append(unit)
        size += unit.size
        if size >= split_bytes or len(waiting) >= UNITS_OF_A_TASK_MAX:
            yield tuple(waiting)
            waiting, size = [], 0
    if waiting:
        yield tuple(waiting)
