"""Verdicts: combine the results of ranges to segments, of segments to logs, and of logs to a comparison of copies.

    a file is undamaged if its ranges cover it from its roll to its end, and none of them had a problem
    any other file has been checked as a whole, by the same code as `raftlog log verify`

So the verdict on a log is that of `raftlog log verify`, and in addition it covers decreasing terms, start and end in
the journal, and differences between copies. Pure; called by `job`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.pipeline.verification.file_comparison import CheckedRange, Difference
from raftlog.pipeline.verification.groups import PartitionCopies
from raftlog.pipeline.verification.journals import JournaledReplica
from raftlog.pipeline.verification.ranges import ListedLog, ListedSegment
from raftlog.pipeline.verification.report import PartitionVerdict, Problems
from raftlog.pipeline.verification.segment_walk import SegmentFile
from raftlog.storage.verify import LogCheck, SegmentReport, join_segments

DIFFERENCES_MAX: Final = 10
"""Maximum number of listed differences of one partition."""
FileKey = tuple[str, int]
"""Key of a segment file: its directory and base offset."""


class CheckedSegment(NamedTuple):
    """Result for a segment that was checked completely; `problem_count` includes unlisted problems.

    `report` is None if a trim has deleted the segment."""

    directory: str
    base: int
    report: SegmentReport | None
    problem_count: int


class ComparedGroup(NamedTuple):
    """Result of comparing the copies of a partition.

    `is_newest`: compared by the newest record of each key, below the compaction mark; otherwise entry by entry.
    `behind`: paths of copies that were left out, as they end below the compacted part of the others."""

    group_id: UUID
    is_newest: bool
    first: int
    last: int
    end_offset: int
    difference: str | None
    behind: tuple[str, ...] = ()


def group_by_file(checked: Iterable[CheckedRange]) -> dict[FileKey, list[CheckedRange]]:
    """Return the checked ranges of each file, in order of position."""
    found: dict[FileKey, list[CheckedRange]] = {}
    for each in checked:
        found.setdefault((each.file.directory, each.file.base), []).append(each)
    for ranges in found.values():
        ranges.sort(key=lambda each: each.start.position)
    return found


def sum_counts(reports: Sequence[LogCheck]) -> tuple[int, int, int, int]:
    """Return the total numbers of segments, batches, records and bytes."""
    return (
        sum(each.segments for each in reports),
        sum(each.batches for each in reports),
        sum(each.records for each in reports),
        sum(each.bytes_read for each in reports),
    )


def report_sound_segment(segment: ListedSegment, ranges: Sequence[CheckedRange]) -> SegmentReport | None:
    """Return the report of an undamaged file; None if the file has to be checked completely."""
    if not ranges or any(each.walked.problem is not None for each in ranges):
        return None
    if any(one.walked.end != other.start or one.walked.tail_bytes for one, other in pairwise(ranges)):
        return None
    first, last = ranges[0], ranges[-1]
    end = last.walked.end
    if first.start.position != 0 or end.position + last.walked.tail_bytes != segment.file.log_bytes:
        return None
    return SegmentReport(
        segment.file.base,
        segment.base_index,
        end.index,
        end.offset,
        True,
        sum(each.walked.batches for each in ranges),
        sum(each.walked.records for each in ranges),
        end.position,
        last.walked.tail_bytes,
    )


def list_doubtful(
    logs: Iterable[ListedLog], ranges: Mapping[FileKey, Sequence[CheckedRange]]
) -> list[tuple[SegmentFile, int | None]]:
    """Return the files that have to be checked completely, each with the base offset of the next file."""
    found: list[tuple[SegmentFile, int | None]] = []
    for log in logs:
        for number, segment in enumerate(log.segments):
            if report_sound_segment(segment, ranges.get((log.path, segment.file.base), ())) is None:
                newer = log.segments[number + 1].file.base if number + 1 < len(log.segments) else None
                found.append((segment.file, newer))
    return found


def needs_entry_comparison(group: PartitionCopies, ranges: Mapping[FileKey, Sequence[CheckedRange]]) -> bool:
    """Return whether the ranges alone do not prove that the copies of a group are the same."""
    if len(group.logs) < 2:
        return False
    files = [segment.file for log in group.copies.logs for segment in log.segments]
    return (
        group.is_only_journaled
        or group.has_doubtful_rolls
        or any(not each.is_compared for file in files for each in ranges.get((file.directory, file.base), ()))
    )


class Verdicts:
    """Results for partitions, computed from the results of all tasks."""

    def __init__(
        self,
        ranges: Mapping[FileKey, Sequence[CheckedRange]],
        segments: Iterable[CheckedSegment],
        groups: Iterable[ComparedGroup],
    ) -> None:
        """Collect the results of tasks: of ranges by file, of whole segments, and of compared groups."""
        self._ranges = ranges
        self._segments = {(each.directory, each.base): each for each in segments}
        self._groups: dict[UUID, list[ComparedGroup]] = {}
        for each in groups:
            self._groups.setdefault(each.group_id, []).append(each)

    def verdict(self, group: PartitionCopies, problems: Problems) -> tuple[PartitionVerdict, list[LogCheck]]:
        """Return the result for a partition and the reports of its copies; add problems to `problems`."""
        before = problems.count
        reports = []
        for log, journaled in zip(group.copies.logs, group.journaled, strict=True):
            reports.append(self._check_log(log, problems))
            problems.add(self._falling_terms(log))
            if journaled is not None:
                problems.add(_journal_problems(log, journaled, reports[-1], self._next_index(log)))
        first, last, end_offset = self._compare_copies(group, problems)
        partition = PartitionVerdict(
            *group.name,
            "" if group.group_id is None else str(group.group_id),
            len(group.logs),
            *sum_counts(reports),
            first,
            last,
            end_offset,
            problems.count - before,
        )
        return partition, reports

    # one log

    def _ranges_in(self, log: ListedLog) -> Iterator[CheckedRange]:
        """Yield the checked ranges of a log, in order."""
        for segment in log.segments:
            yield from self._ranges.get((log.path, segment.file.base), ())

    def _report(self, segment: ListedSegment) -> SegmentReport | None:
        """Return the report of a segment; None for a deleted file."""
        key = segment.file.directory, segment.file.base
        if key in self._segments:
            return self._segments[key].report
        report = report_sound_segment(segment, self._ranges.get(key, ()))
        assert report is not None, f"{segment.file.log} was not checked"
        return report

    def _check_log(self, log: ListedLog, problems: Problems) -> LogCheck:
        """Return the report on one log; add its problems."""
        there = [each for each in map(self._report, log.segments) if each is not None]
        report = join_segments(log.path, log.checkpoint, there)
        checked = (self._segments.get((log.path, segment.file.base)) for segment in log.segments)
        counts = sum(each.problem_count for each in checked if each is not None)
        unlisted = counts - sum(len(segment.problems) for segment in there)
        problems.add(report.problems, len(report.problems) + unlisted)
        if not report.segments:
            problems.add([f"{log.path} has no segment left; restore it from a copy"])
        return report

    def _next_index(self, log: ListedLog) -> int:
        """Return the index after the last undamaged entry of a log; 0 without segments."""
        last = self._report(log.segments[-1]) if log.segments else None
        return 0 if last is None else last.next_index

    def _falling_terms(self, log: ListedLog) -> Iterator[str]:
        """Yield problems of terms that are lower than those of earlier entries."""
        term = -1
        for each in self._ranges_in(log):
            if each.walked.term_decrease is not None:
                yield f"{each.file.log}: {each.walked.term_decrease}"
            if each.walked.terms is None:
                continue
            if each.walked.terms[0] < term:
                where = f"entry {each.start.index} at position {each.start.position}"
                yield f"{each.file.log}: {where} has term {each.walked.terms[0]}, the one before {term}"
            term = each.walked.terms[1]

    # copies

    def list_notes(self, groups: Iterable[PartitionCopies]) -> Iterator[str]:
        """Yield notes on copies that could not be compared with the compacted part of the others."""
        for group in groups:
            compared = () if group.group_id is None else self._groups.get(group.group_id, ())
            for path in {path: None for each in compared for path in each.behind}:
                yield f"{group}: {path} ends below the compacted part of other replicas: it was not compared with them"

    def _compare_copies(self, group: PartitionCopies, problems: Problems) -> tuple[int, int, int]:
        """Return the first and the last compared entry, and the offset after them; add the differences."""
        if group.group_id is None or len(group.logs) < 2:
            return 1, 0, 0
        compared = self._groups.get(group.group_id, [])
        for each in compared:
            if each.difference is not None:
                problems.add([f"{group}: {each.difference}"])
            if not each.is_newest:
                return each.first, each.last, each.end_offset
        ranges = (each for log in group.copies.logs for each in self._ranges_in(log))
        found = {each.difference for each in ranges if each.difference is not None}
        differences = sorted({*found, *self._missing_files(group)}, key=lambda each: each.index)
        problems.add([f"{group}: {each.what}" for each in differences[:DIFFERENCES_MAX]], len(differences))
        last, end_offset = self._compared_end(group)
        return max(group.first, group.copies.uncompacted_from), last, end_offset

    def _missing_files(self, group: PartitionCopies) -> Iterator[Difference]:
        """Yield differences for files with committed entries that some copies have and others lack."""
        copies = group.copies
        there = {
            segment.file.base: segment
            for log in copies.logs
            for segment in log.segments
            if segment.base_index >= copies.uncompacted_from
            and (copies.stop is None or segment.base_index <= copies.stop)
        }
        for log, kept_to in zip(copies.logs, copies.kept_to, strict=True):
            if kept_to is None or not log.segments:
                continue
            bases = {segment.file.base for segment in log.segments}
            for base, segment in sorted(there.items()):
                if base not in bases and segment.base_index > log.segments[0].base_index:
                    what = (
                        f"entry {segment.base_index} at offset {base} is in {segment.file.log}, and {log.path} lacks it"
                    )
                    yield Difference((segment.file.log, log.path), 0, base, segment.base_index, what)

    def _compared_end(self, group: PartitionCopies) -> tuple[int, int]:
        """Return the last compared entry, and the offset after it."""
        stop = group.copies.stop
        ends = []
        for log, kept_to in zip(group.copies.logs, group.copies.kept_to, strict=True):
            for each in self._ranges_in(log):
                if stop is not None and each.walked.offset_at_stop is not None:
                    ends.append((stop, each.walked.offset_at_stop))
            if kept_to is None:
                ends.append(self._sound_end(log))
        return min(ends, default=(stop or 0, 0))

    def _sound_end(self, log: ListedLog) -> tuple[int, int]:
        """Return the last entry before the first error, and the offset after it."""
        end = 0, 0
        for each in self._ranges_in(log):
            end = each.walked.end.index - 1, each.walked.end.offset
            if each.walked.problem is not None:
                break
        return end


def _journal_problems(log: ListedLog, journaled: JournaledReplica, report: LogCheck, next_index: int) -> Iterator[str]:
    """Yield differences of the first or last entry between the files and the journal."""
    first = (
        report.first_offset if journaled.journaled_from is None else min(report.first_offset, journaled.journaled_from)
    )
    if report.segments and first > journaled.log_start:
        yield f"{log.path}: offsets {journaled.log_start} to {first} are missing: the log begins there by its journal"
    if report.is_sound and report.segments and next_index - 1 < journaled.kept_to:
        yield (
            f"{log.path}: the files end with entry {next_index - 1}, and "
            f"entry {journaled.kept_to} was synced by its journal"
        )
