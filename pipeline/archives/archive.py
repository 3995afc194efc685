"""Archive job from topics to Parquet: adds the records that the archive lacks, each once.

A run compares the source with the archive's coverage of each partition, divides new offsets into splits, and processes
the splits in batches: tasks read splits and stage files, the driver commits each batch as a whole (`writer`). A run
that is interrupted loses its current batch; the next run continues where the archive's coverage ends. If a task runs
twice (a retry, speculation), only the files of one of its runs are committed, and only committed files are part of the
archive.

Coverage is of offsets, not of rows: a compacted topic has fewer rows than offsets. Independent of Spark."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from raftlog.pipeline.archives.files import Files
from raftlog.pipeline.archives.manifest import Coverage, LostRange, StagedFile
from raftlog.pipeline.archives.parquet import DayFiles
from raftlog.pipeline.archives.sources import ArchiveSource, ArchiveSplit, SourceLog, SplitBatches
from raftlog.pipeline.archives.writer import open_writer
from raftlog.pipeline.errors import DataLost, LogReplaced
from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition


class PartitionArchived(NamedTuple):
    """Offsets that a run added to a partition, `start ≤ offset < end`, and their number of rows."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int


@dataclass(frozen=True)
class ArchiveReport:
    """Result of one run of `archive`.

    `lost`: offsets that were trimmed before they were archived. `behind`: partitions whose log in the source ends
    before the archive's coverage."""

    path: str
    run: str
    partitions: tuple[PartitionArchived, ...]
    """Partitions with new rows."""
    files: int
    bytes: int
    lost: tuple[LostRange, ...] = ()
    behind: tuple[TopicPartition, ...] = ()

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    def as_json(self) -> dict[str, object]:
        """Return the report as a JSON object, with `lost` and `behind` as sentences."""
        problems = [f"{row.topic}/{row.partition}: offsets {row.start} to {row.end - 1} were lost" for row in self.lost]
        problems += [f"{place}: the source ends before the archive does" for place in self.behind]
        return {
            "path": self.path,
            "run": self.run,
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "partitions": [partition._asdict() for partition in self.partitions],
            "problems": problems,
        }


def archive_in_batches(
    batches: SplitBatches,
    source: ArchiveSource,
    files: Files,
    choice: TopicChoice,
    *,
    compression: str,
    fail_on_data_loss: bool,
) -> ArchiveReport:
    """Run an archive job in batches; see `jobs.archive`."""
    logs = source.logs(choice, fail_on_data_loss=fail_on_data_loss)
    with open_writer(files, may_create=True) as writer:
        plan = plan_archive(logs, writer.state.covered, may_lag=source.may_lag, fail_on_data_loss=fail_on_data_loss)
        if plan.begun:
            writer.commit("archived", (), covered=plan.begun, lost=plan.lost)
        count, size, rows = 0, 0, Counter[TopicPartition]()
        work = partial(stage_split, files, writer.staging, compression)
        splits = [split for log in plan.wanted for split in log.cut(log.start, log.end)]
        for batch, staged in batches("archiving", splits, work):
            writer.commit("archived", staged, covered=_coverage_after(writer.state.covered, batch))
            for file in (each.file for each in staged):
                count, size = count + 1, size + file.size
                rows[file.place] += file.rows
    return ArchiveReport(
        files.uri,
        writer.run,
        tuple(PartitionArchived(*log.place, log.start, log.end, rows[log.place]) for log in plan.wanted),
        count,
        size,
        plan.lost,
        plan.behind,
    )


class ArchivePlan(NamedTuple):
    """Plan of a run of `archive`.

    `wanted`: logs with the ranges of offsets to archive. `begun`: coverage to commit before, of new partitions and
    after lost offsets. `lost` and `behind`: see `ArchiveReport`."""

    wanted: tuple[SourceLog, ...]
    begun: dict[TopicPartition, Coverage]
    lost: tuple[LostRange, ...]
    behind: tuple[TopicPartition, ...]


def plan_archive(
    logs: Sequence[SourceLog],
    covered: Mapping[TopicPartition, Coverage],
    *,
    may_lag: bool,
    fail_on_data_loss: bool,
) -> ArchivePlan:
    """Return the plan of a run. Raises `LogReplaced` and `DataLost`. Pure."""
    wanted, begun, lost, behind = [], {}, [], []
    for log in logs:
        before = covered.get(log.place)
        if before is None:
            begun[log.place] = before = Coverage(log.log_id, log.start, log.start)
        if before.log_id != log.log_id:
            raise LogReplaced(
                f"{log.place} is not the log that was archived, {before.log_id}, but {log.log_id}: the topic was "
                "deleted and created anew, or the cluster is another one; archive it to another directory"
            )
        if log.start > before.end:
            gap = LostRange(*log.place, before.end, log.start)
            if fail_on_data_loss:
                raise DataLost(
                    f"{log.place}: offsets {gap.start} to {gap.end - 1} were trimmed before they were archived; "
                    "continue without them by accepting the loss, and archive more often, or keep records for longer"
                )
            lost.append(gap)
            begun[log.place] = before = before._replace(end=log.start)
        if log.end > before.end:
            wanted.append(log._replace(start=before.end))
        elif log.end < before.end and may_lag:
            behind.append(log.place)
        elif log.end < before.end:
            raise LogReplaced(
                f"{log.place} ends at offset {log.end}, but was archived up to {before.end}: it lost records, whose "
                "offsets new ones take; archive it to another directory"
            )
    return ArchivePlan(tuple(wanted), begun, tuple(lost), tuple(behind))


def stage_split(files: Files, staging: str, compression: str, split: ArchiveSplit) -> list[StagedFile]:
    """Write the rows of a split to staged files, and return the files. Runs in a task."""
    writing = DayFiles(files, staging, split.place, compression)
    for rows in split.read():
        writing.write(rows)
    staged = writing.finish()
    for file in (each.file for each in staged):
        assert split.start <= file.first <= file.last < split.end, f"{file.path} is not inside its split"
    return staged


def _coverage_after(
    covered: Mapping[TopicPartition, Coverage], batch: Sequence[ArchiveSplit]
) -> dict[TopicPartition, Coverage]:
    """Return the coverage of the partitions of a batch, after that batch."""
    further: dict[TopicPartition, Coverage] = {}
    for split in batch:
        before = further.get(split.place) or covered[split.place]
        assert split.start == before.end, f"{split.place}: a split begins at {split.start}, behind {before.end}"
        further[split.place] = before._replace(end=split.end)
    return further
