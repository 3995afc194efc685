"""Comparison of an archive with logs: at offsets that both cover, they contain the same records, each once.

A task reads a range of offsets from the log and from the archive, in order of offset, and compares the columns of one
batch of rows after the other. So nothing is shuffled, and only the current batches are in memory. If a batch differs,
its rows are compared one by one. Records that compaction removed from the log may still be in the archive; all others
must be in both, once.

The driver makes the plan (`find_ranges`), tasks compare (`check_range`), the driver combines the results
(`archive_verdicts`). Called by `job`."""

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.errors import RaftlogError
from raftlog.pipeline.archives.files import files_at
from raftlog.pipeline.archives.manifest import ArchivedFile, Coverage
from raftlog.pipeline.archives.parquet import FILE_SCHEMA, RowsByOffset, read_in_order
from raftlog.pipeline.archives.state import ArchiveState, read_newest, read_settled
from raftlog.pipeline.errors import ArchiveDamaged
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.segments.extent import LogExtent
from raftlog.pipeline.segments.pieces import SegmentSplit
from raftlog.pipeline.segments.plan import logs_in, splits_of
from raftlog.pipeline.segments.reader import read_segment_split
from raftlog.pipeline.verification.report import ArchiveVerdict, Problems
from raftlog.types import TopicPartition

LISTED_MAX: Final = 10
"""Maximum number of offsets that are listed for each kind of difference in a range."""
_NO_ROWS: Final = pa.RecordBatch.from_pylist([], schema=FILE_SCHEMA)


class ArchiveRange(NamedTuple):
    """Range for one task: the offsets of `split`, which are compared with `files` of the archive at `path`."""

    path: str
    split: SegmentSplit
    files: tuple[ArchivedFile, ...]


class ComparedRange(NamedTuple):
    """Result of comparing a range; each of `sentences` describes at least one record."""

    verdict: ArchiveVerdict
    sentences: tuple[str, ...]

    @property
    def problem_count(self) -> int:
        return max(sum(self.verdict.counts[1:]), len(self.sentences))


# on the driver


def find_ranges(
    paths: Sequence[str],
    archive: str,
    topics: Collection[str],
    split_bytes: int,
    problems: Problems,
    notes: Problems,
) -> list[ArchiveRange]:
    """Return the ranges of these topics that the archive and the logs both cover.

    Ranges that cannot be compared are added to `problems`; offsets that only the archive has, to `notes`. Raises
    `NotAnArchive`, and `ArchiveDamaged` when its coverage cannot be read."""
    state = _read_state(archive, problems)
    chosen = sorted({place.topic for place in state.covered} & set(topics))
    found: list[ArchiveRange] = []
    if not chosen:
        problems.add(
            [f"{archive} has none of the topics whose logs are there ({', '.join(sorted(topics)[:LISTED_MAX])})"]
        )
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the checks of the logs report their damage
            extents = logs_in(paths, topics=TopicChoice(names=tuple(chosen)), skips_damage=True)
    except RaftlogError as error:
        problems.add([f"{archive} was not compared with the logs: {error}"])
        return found
    for extent in extents:
        place = TopicPartition(extent.topic, extent.partition)
        coverage = state.covered.get(place)
        if coverage is None:
            continue
        if coverage.log_id != str(extent.replica.group_id):
            problems.add(
                [
                    f"{archive} has {place} of another log ({coverage.log_id}) than the one in {extent.replica.path} "
                    f"({extent.replica.group_id}): the topic was deleted and created anew, or the cluster is "
                    "another one"
                ]
            )
            continue
        if extent.end < coverage.end:
            notes.add(
                [
                    f"{extent.replica.path} is behind {archive}: it ends at offset {extent.end}, and the archive has "
                    f"{place} up to {coverage.end}; offsets {extent.end} to {coverage.end} (exclusive) were not "
                    "compared. Name the data directories of all brokers, or a newer copy"
                ]
            )
        found += _make_ranges(files_at(archive).uri, state, extent, coverage, split_bytes)
    return found


def _read_state(archive: str, problems: Problems) -> ArchiveState:
    """Return the newest state of the archive whose files are complete.

    If files of the last commit are missing, add a problem and return the state after this commit."""
    files = files_at(archive)
    try:
        return read_settled(files)
    except ArchiveDamaged as error:
        newest = read_newest(files).newest
        problems.add([str(error)])
        return newest


def _make_ranges(
    archive: str, state: ArchiveState, extent: LogExtent, coverage: Coverage, split_bytes: int
) -> Iterator[ArchiveRange]:
    """Yield the ranges that log and archive both cover, with the files of the archive in each."""
    start, end = max(coverage.start, extent.start), min(coverage.end, extent.end)
    if start >= end:
        return
    files = [file for file in state.files_of_topics([extent.topic]) if file.partition == extent.partition]
    for split in splits_of(extent, start, end, split_bytes=split_bytes, skips_undecodable=True):
        yield ArchiveRange(
            archive, split, tuple(file for file in files if file.first < split.end and file.last >= split.start)
        )


def archive_verdicts(compared: Iterable[ComparedRange], problems: Problems) -> list[ArchiveVerdict]:
    """Combine the results of ranges into one result for each partition."""
    verdicts = []
    in_order = sorted(compared)
    for (topic, partition), ranges in groupby(in_order, key=attrgetter("verdict.topic", "verdict.partition")):
        together = list(ranges)
        for each in together:
            problems.add(each.sentences, each.problem_count)
        sums = map(sum, zip(*(each.verdict.counts for each in together), strict=True))
        start, end = together[0].verdict.start, together[-1].verdict.end
        verdicts.append(ArchiveVerdict(topic, partition, start, end, *sums))
    return verdicts


# in a task


def check_range(compare: ArchiveRange) -> list[ComparedRange]:
    """Compare one range; return its result in a list of one, also for read errors. Raises `OSError`."""
    comparison = _Comparison(compare)
    try:
        comparison.run()
    except RaftlogError as error:
        comparison.sentences.append(f"{comparison.place}, offsets {comparison.at} to {compare.split.end}: {error}")
    return [comparison.result()]


class _Comparison:
    """Comparison of the log and the archive in one range; both are read up to the same offset `at`."""

    def __init__(self, compare: ArchiveRange) -> None:
        """Prepare to compare the log and the archive in one range."""
        self.sentences: list[str] = []
        self.at = compare.split.start
        self.place = TopicPartition(compare.split.topic, compare.split.partition)
        self._compare = compare
        self._counts: Counter[str] = Counter()
        self._compacted_to = max((piece.compacted_to for piece in compare.split.pieces), default=-1)

    def run(self) -> None:
        """Read the log and the archive, and compare them. Raises `RaftlogError` if one of them cannot be read."""
        split = self._compare.split
        files = files_at(self._compare.path)
        archived = RowsByOffset(read_in_order(files, self._compare.files, split.start, split.end))
        for rows in read_segment_split(split):
            last = rows.column("offset")[rows.num_rows - 1].as_py()
            self._compare_rows(rows.select(FILE_SCHEMA.names), _concatenate(archived.take_up_to(last)))
            self.at = last + 1
        self._compare_rows(_NO_ROWS, _concatenate(archived.take_up_to(split.end)))

    def result(self) -> ComparedRange:
        """Return the counts, and the sentences about differences found so far."""
        split = self._compare.split
        counts = self._counts
        sums = (counts[name] for name in ("records", "different", "missing", "unknown", "doubled"))
        return ComparedRange(ArchiveVerdict(*self.place, split.start, split.end, *sums), tuple(self.sentences))

    def _compare_rows(self, logged: pa.RecordBatch, archived: pa.RecordBatch) -> None:
        """Compare rows of the log and of the archive, which end at the same offset."""
        self._counts["records"] += logged.num_rows
        if logged.equals(archived):
            return
        archived = self._report_unknown(logged, archived)
        if not logged.equals(archived):
            self._compare_by_offset(logged, archived)

    def _report_unknown(self, logged: pa.RecordBatch, archived: pa.RecordBatch) -> pa.RecordBatch:
        """Report archived rows that the log lacks although it was not compacted there; return rows that both have."""
        is_known = pc.is_in(archived.column("offset"), logged.column("offset"))
        unknown = archived.filter(pc.invert(is_known)).column("offset").to_pylist()
        unexpected = [offset for offset in unknown if offset >= self._compacted_to]
        self._report("unknown", unexpected, "are in the archive, and not in the log")
        return archived.filter(is_known)

    def _compare_by_offset(self, logged: pa.RecordBatch, archived: pa.RecordBatch) -> None:
        """Report logged rows that the archive lacks, has twice, or has with other content."""
        times = Counter(archived.column("offset").to_pylist())
        here = {row["offset"]: row for row in logged.to_pylist()}
        there: dict[int, list[dict[str, Any]]] = {}
        for row in archived.to_pylist():
            there.setdefault(row["offset"], []).append(row)
        self._report(
            "missing", [offset for offset in here if not times[offset]], "are in the log, and not in the archive"
        )
        self._report("doubled", [offset for offset in here if times[offset] > 1], "are in the archive more than once")
        different = [offset for offset, rows in there.items() if any(row != here[offset] for row in rows)]
        self._report("different", different, "are not the same in log and archive")

    def _report(self, kind: str, offsets: Sequence[int], sentence: str) -> None:
        """Count these offsets as differences of this kind, and add the sentence about them."""
        if not offsets:
            return
        self._counts[kind] += len(offsets)
        listed = ", ".join(map(str, offsets[:LISTED_MAX])) + (", …" if len(offsets) > LISTED_MAX else "")
        self.sentences.append(f"{self.place}: {len(offsets)} records {sentence}: offset {listed}")


def _concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of several batches as one."""
    table = pa.Table.from_batches(batches, FILE_SCHEMA).combine_chunks()
    return next(iter(table.to_batches()), _NO_ROWS)
