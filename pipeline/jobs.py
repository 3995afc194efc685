"""Executor of a function on splits, as one Spark job.

Called by archive, replay and verify. Splits and results are small values that cloudpickle can encode; large data stays
in the workers. A split is one task. Spark repeats a task on another executor if it fails or its executor is lost, so
`work` may run more than once for a split, also at the same time."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

from raftlog.pipeline.progress import OnProgress, report_jobs

S = TypeVar("S")
R = TypeVar("R")


def run_splits(
    spark: SparkSession,
    label: str,
    splits: Sequence[S],
    work: Callable[[S], Iterable[R]],
    *,
    on_progress: OnProgress | None = None,
) -> list[R]:
    """Run `work` on all splits; return the results in the order of the splits.

    `label` names the work in progress and in errors. Raises `PipelineFailed` with the worker's error when a split fails
    for good."""
    if not splits:
        return []
    with report_jobs(spark, label, on_progress, total=len(splits)):
        return spark.sparkContext.parallelize(splits, len(splits)).flatMap(work).collect()
