"""Entry points `archive` and `compact_archive`, which run each batch of splits as a Spark job."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from raftlog.errors import InvalidArgument
from raftlog.pipeline.archives.archive import ArchiveReport, archive_in_batches
from raftlog.pipeline.archives.compaction import TARGET_BYTES, CompactionReport, compact_in_batches
from raftlog.pipeline.archives.files import files_at
from raftlog.pipeline.archives.parquet import COMPRESSIONS
from raftlog.pipeline.archives.sources import ArchiveSource, SplitBatches
from raftlog.pipeline.jobs import run_splits
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.progress import OnProgress, Progress

SPLITS_PER_CORE: Final = 8
SPLITS_MIN: Final = 32
"""Minimum number of splits in a batch; otherwise `SPLITS_PER_CORE` for each core, to keep all cores busy."""

S = TypeVar("S")
R = TypeVar("R")


def archive(
    spark: SparkSession,
    source: ArchiveSource,
    path: str,
    *,
    topics: Sequence[str] | None = None,
    topics_pattern: str | None = None,
    compression: str = "zstd",
    fail_on_data_loss: bool = True,
    on_progress: OnProgress | None = None,
) -> ArchiveReport:
    """Copy new records of topics to Parquet files in `path`; of all topics when none are named.

    `path` is an archive or an empty directory: a local path, or a URI that pyarrow supports. Every executor must be
    able to access it. The end of each partition is fixed when the run begins. Raises `InvalidArgument`, `UnknownTopic`,
    `NotAnArchive`, `ArchiveTaken`, `ArchiveDamaged`; `LogReplaced` for a topic that was created anew; `DataLost` for
    records that were trimmed before they were archived, unless `fail_on_data_loss` is false; `PipelineFailed` when
    reading fails for good."""
    _require_known_codec(compression)
    choice = TopicChoice.from_arguments(topics, topics_pattern)
    batches = _make_batch_runner(spark, on_progress)
    return archive_in_batches(
        batches, source, files_at(path), choice, compression=compression, fail_on_data_loss=fail_on_data_loss
    )


def compact_archive(
    spark: SparkSession,
    path: str,
    *,
    target_bytes: int = TARGET_BYTES,
    compression: str = "zstd",
    grace_seconds: float = 0,
    on_progress: OnProgress | None = None,
) -> CompactionReport:
    """Merge files below half of `target_bytes` with their neighbours, up to `target_bytes`.

    Raises `InvalidArgument`, `NotAnArchive`, `ArchiveTaken`, `ArchiveDamaged`, `PipelineFailed`."""
    if target_bytes <= 0 or grace_seconds < 0:
        raise InvalidArgument("target_bytes has to be above 0, and grace_seconds not below")
    _require_known_codec(compression)
    return compact_in_batches(
        _make_batch_runner(spark, on_progress),
        files_at(path),
        target_bytes=target_bytes,
        compression=compression,
        grace_seconds=grace_seconds,
    )


def _require_known_codec(compression: str) -> None:
    """Raise `InvalidArgument` for a compression that is not one of `COMPRESSIONS`."""
    if compression not in COMPRESSIONS:
        raise InvalidArgument(f"compression {compression} is not one of {', '.join(COMPRESSIONS)}")


def _make_batch_runner(spark: SparkSession, on_progress: OnProgress | None) -> SplitBatches:
    """Return a function that runs splits in batches, each as a Spark job; it raises the errors of `run_splits`."""
    size = max(SPLITS_MIN, SPLITS_PER_CORE * spark.sparkContext.defaultParallelism)

    def run_in_batches(
        label: str, splits: Sequence[S], work: Callable[[S], Iterable[R]]
    ) -> Iterator[tuple[Sequence[S], list[R]]]:
        """Run `work` on the splits, a batch of them in each Spark job; yield each batch with its results."""
        for first in range(0, len(splits), size):
            batch = splits[first : first + size]
            shifted_progress = shift_progress(on_progress, first, len(splits))
            yield batch, run_splits(spark, label, batch, work, on_progress=shifted_progress)

    return run_in_batches


def shift_progress(on_progress: OnProgress | None, before: int, total: int) -> OnProgress | None:
    """Return a progress callback for one of several jobs of a run; None without `on_progress`.

    It adds `before` to the job's tasks and reports `total` as the total."""
    if on_progress is None:
        return None

    def report_progress(part: Progress) -> None:
        """Report the progress of a part as progress of the whole."""
        on_progress(part._replace(done=before + part.done, total=total))

    return report_progress
