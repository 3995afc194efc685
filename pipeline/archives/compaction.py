"""Compaction job: merges small files of an archive.

Files of one partition and day with adjacent offsets become one file of about the wanted size. Rows do not change, and
the archive has each row once at any time, because one commit adds the new files and drops the old ones. Old files are
deleted at the end of the run, or, with a grace period, by the first run after this period. A query that was planned
before and still reads the old files then fails, and has to be started again. While the old files exist, a reader of the
directory without `read_archive` sees their rows twice. Independent of Spark."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Final

from raftlog.pipeline.archives.files import Files
from raftlog.pipeline.archives.manifest import ArchivedFile, StagedFile
from raftlog.pipeline.archives.parquet import DayFiles, read_in_order
from raftlog.pipeline.archives.sources import SplitBatches
from raftlog.pipeline.archives.writer import open_writer

TARGET_BYTES: Final = 128 * 1024 * 1024
OFFSET_END: Final = (1 << 63) - 1


@dataclass(frozen=True)
class CompactionReport:
    """Result of a compaction: `files_before` files were replaced by `files_after`, with `rows` rows in them."""

    path: str
    run: str
    files_before: int
    files_after: int
    rows: int
    bytes_before: int
    bytes_after: int

    def as_json(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return asdict(self)


def compact_in_batches(
    batches: SplitBatches, files: Files, *, target_bytes: int, compression: str, grace_seconds: float
) -> CompactionReport:
    """Run a compaction in batches; see `jobs.compact_archive`."""
    with open_writer(files, grace_seconds=grace_seconds) as writer:
        merges = plan_merges(writer.state.files_of_topics(None), target_bytes)
        after: list[ArchivedFile] = []
        for batch, staged in batches("compacting", merges, partial(merge_files, files, writer.staging, compression)):
            writer.commit("compacted", staged, dropped=[file.path for merged in batch for file in merged])
            after += [each.file for each in staged]
        writer.delete_dropped(grace_seconds)
    before = [file for merged in merges for file in merged]
    return CompactionReport(
        files.uri,
        writer.run,
        len(before),
        len(after),
        sum(file.rows for file in after),
        sum(file.size for file in before),
        sum(file.size for file in after),
    )


def plan_merges(files: Sequence[ArchivedFile], target_bytes: int) -> list[list[ArchivedFile]]:
    """Return groups of files to merge: at least two files of one partition and day with adjacent offsets. Pure.

    Files of at least half the target size are not merged, so that rows are not rewritten repeatedly."""
    merges: list[list[ArchivedFile]] = []
    for _, of_day in groupby(sorted(files), key=_day_key):
        merge: list[ArchivedFile] = []
        for file in of_day:
            if merge and (file.size * 2 >= target_bytes or sum(each.size for each in merge) + file.size > target_bytes):
                merges.append(merge)
                merge = []
            if file.size * 2 < target_bytes:
                merge.append(file)
        merges.append(merge)
    return [merge for merge in merges if len(merge) > 1]


def _day_key(file: ArchivedFile) -> tuple[str, int, str]:
    """Return topic, partition and day, by which files are grouped."""
    return file.topic, file.partition, file.day


def merge_files(files: Files, staging: str, compression: str, merged: Sequence[ArchivedFile]) -> list[StagedFile]:
    """Write the rows of several files to one staged file, and return a list with it. Runs in a task."""
    writing = DayFiles(files, staging, merged[0].place, compression, file_bytes_max=sys.maxsize)
    for rows in read_in_order(files, merged, 0, OFFSET_END):
        writing.write(rows)
    staged = writing.finish()
    assert len(staged) == 1, f"{merged[0].path} and its neighbours are of one day"
    assert staged[0].file.rows == sum(file.rows for file in merged), f"{staged[0].file.path} has other rows than before"
    return staged
