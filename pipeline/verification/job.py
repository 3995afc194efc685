"""Job `verify`: checks every byte of all replicas, the replicas against each other, and an archive against them.

    journals → ranges of files, compared among replicas → complete checks of doubtful segments → verdicts

Each step is a Spark job whose tasks return small values; the driver combines them. The executor of a step is a
parameter, so that a verification can also run in one process. Called by users and by `raftlog pipeline`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from pyspark.sql import SparkSession

from raftlog.errors import InvalidArgument
from raftlog.pipeline.jobs import run_splits
from raftlog.pipeline.options import TopicChoice, as_names
from raftlog.pipeline.progress import OnProgress
from raftlog.pipeline.segments.replicas import real_disk
from raftlog.pipeline.verification.archive_comparison import archive_verdicts, check_range, find_ranges
from raftlog.pipeline.verification.file_comparison import check_units
from raftlog.pipeline.verification.found_logs import FoundLogs, logs_in
from raftlog.pipeline.verification.full_checks import (
    GroupToCompare,
    SegmentToCheck,
    check_segment,
    compare_groups,
    plan_comparison,
)
from raftlog.pipeline.verification.groups import (
    PartitionCopies,
    group_copies,
    journal_problems,
    list_notes,
)
from raftlog.pipeline.verification.journals import JournalRead, read_data_directory
from raftlog.pipeline.verification.ranges import choose_range_bytes, combine_units, list_segments, list_units
from raftlog.pipeline.verification.report import NOTES_MAX, Problems, VerifyReport
from raftlog.pipeline.verification.verdicts import (
    Verdicts,
    group_by_file,
    list_doubtful,
    needs_entry_comparison,
    sum_counts,
)

SPLIT_BYTES: Final = 64 << 20
SPLIT_BYTES_MIN: Final = 1 << 12
_GROUPS_OF_A_TASK: Final = 16
S = TypeVar("S")
R = TypeVar("R")


class RunTasks(Protocol):
    """Executor of the tasks of a step; returns their results in the order of the splits."""

    def __call__(self, what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]], /) -> list[R]: ...


def verify(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    topics: Sequence[str] | None = None,
    topics_pattern: str | None = None,
    archive: str | None = None,
    split_bytes: int = SPLIT_BYTES,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Verify all replicas in and below `paths`: data directories of stopped brokers, or copies of them.

    Like `raftlog log verify` it checks the headers, CRCs, index rows and terms of each replica, and that index, offset
    and position continue through all files. It also checks the replica's state in the journal. Replicas of one
    partition must have the same bytes up to the lowest commit index of all; where they were compacted, they must have
    the same newest record of every key. With
    `archive` it compares the records that both log and archive should have. `topics` or `topics_pattern` choose topics;
    by default all are checked, also the controller's log and internal topics. Nothing is changed.

    Problems are in the report. Raises `InvalidArgument` for directories without logs, `PipelineFailed` when files
    cannot be read. Brokers should be stopped: the changes of a running one can look like damage."""

    def run(what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]], /) -> list[R]:
        """Run `work` on the splits in a Spark job; return the results in order."""
        return run_splits(spark, what, splits, work, on_progress=on_progress)

    return verify_by(run, paths, topics=topics, topics_pattern=topics_pattern, archive=archive, split_bytes=split_bytes)


def verify_by(
    run: RunTasks,
    paths: Sequence[str],
    *,
    topics: Sequence[str] | None = None,
    topics_pattern: str | None = None,
    archive: str | None = None,
    split_bytes: int = SPLIT_BYTES,
) -> VerifyReport:
    """Run `verify` with the executor `run`."""
    if split_bytes < SPLIT_BYTES_MIN:
        raise InvalidArgument(f"split_bytes is {split_bytes}; it must be at least {SPLIT_BYTES_MIN}")
    disk, paths = real_disk(), as_names(paths)
    choice = None if topics is None and topics_pattern is None else TopicChoice.from_arguments(topics, topics_pattern)
    found = logs_in(disk, paths, choice)
    journals = run("reading journals", found.owners, read_data_directory)
    seen = {path: list_segments(disk, path) for path in found.logs}
    groups = group_copies(found, journals, seen)
    size = choose_range_bytes(seen.values(), split_bytes)
    units = (unit for group in groups for unit in list_units(disk, group.copies, size))
    ranges = group_by_file(run("checking replicas", list(combine_units(units, size)), check_units))
    segments_to_check = [SegmentToCheck(*each) for each in list_doubtful(seen.values(), ranges)]
    segments = run("checking doubtful segments", segments_to_check, check_segment)
    again = [plan_comparison(group, is_newest=False) for group in groups if needs_entry_comparison(group, ranges)]
    known = {each.group_id for each in again}
    again += [
        plan_comparison(group, is_newest=True) for group in groups if group.is_compacted and group.group_id not in known
    ]
    compared = run("comparing entries", list(_make_tasks(again)), compare_groups)
    problems = Problems()
    report = _make_report(
        found, journals, groups, Verdicts(ranges, segments, compared), problems, is_all=choice is None
    )
    if archive is None:
        return report
    there = {log.topic for log in found.logs.values()}
    behind = Problems(NOTES_MAX)
    of_archive = find_ranges(paths, archive, there, split_bytes, problems, behind)
    verdicts = archive_verdicts(run("comparing the archive", of_archive, check_range), problems)
    return replace(
        report,
        archive=tuple(verdicts),
        problem_count=problems.count,
        problems=tuple(problems.listed),
        notes=(*report.notes, *behind.listed),
    )


def _make_tasks(groups: Sequence[GroupToCompare]) -> Iterator[tuple[GroupToCompare, ...]]:
    """Yield the groups for each task, at most `_GROUPS_OF_A_TASK`."""
    for first in range(0, len(groups), _GROUPS_OF_A_TASK):
        yield tuple(groups[first : first + _GROUPS_OF_A_TASK])


def _make_report(
    found: FoundLogs,
    journals: Sequence[JournalRead],
    groups: Sequence[PartitionCopies],
    results: Verdicts,
    problems: Problems,
    *,
    is_all: bool,
) -> VerifyReport:
    """Return the report of a verification; adds to `problems`."""
    problems.add(found.problems)
    chosen = None if is_all else {log.topic for log in found.logs.values()}
    problems.add(journal_problems(found, journals, chosen))
    verdicts = [results.verdict(group, problems) for group in groups]
    reports = [report for _, of_logs in verdicts for report in of_logs]
    notes = Problems(NOTES_MAX)
    notes.add(list_notes(groups))
    notes.add(results.list_notes(groups))
    return VerifyReport(
        len(reports),
        *sum_counts(reports),
        sum(each.tail_bytes for each in reports),
        tuple(partition for partition, _ in verdicts),
        problems.count,
        tuple(problems.listed),
        tuple(notes.listed),
    )
