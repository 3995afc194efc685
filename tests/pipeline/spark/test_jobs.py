"""One function per split in workers: ordered results, progress, and errors with the worker's message."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from raftlog.errors import CorruptBatch
from raftlog.pipeline import PipelineFailed, Progress
from raftlog.pipeline.jobs import run_splits
from raftlog.pipeline.progress import report_jobs
from raftlog.types import Offset, Position


def yield_squares(number: int) -> Iterator[tuple[int, int]]:
    yield number, number * number


def raise_damage(number: int) -> Iterator[int]:
    if number == 2:
        raise CorruptBatch("/data/orders/0/0.log", Position(61), Offset(7), "its CRC does not match")
    yield number


def test_results_have_the_order_of_the_splits_and_progress_reaches_all(spark: SparkSession) -> None:
    told: list[Progress] = []
    results = run_splits(spark, "squaring", [3, 1, 2], yield_squares, on_progress=told.append)
    assert results == [(3, 9), (1, 1), (2, 4)]
    assert told[0] == Progress("squaring", 0, 3)
    assert told[-1] == Progress("squaring", 3, 3)
    assert run_splits(spark, "nothing", [], yield_squares) == []


def test_a_failed_split_is_reported_with_the_workers_message(spark: SparkSession) -> None:
    with pytest.raises(PipelineFailed) as failed:
        run_splits(spark, "checking", [1, 2, 3], raise_damage)
    assert str(failed.value) == (
        "checking: /data/orders/0/0.log: corrupt batch at position 61, offset 7: its CRC does not match"
    )


def test_progress_and_errors_of_actions_in_a_block_are_reported(spark: SparkSession) -> None:
    told: list[Progress] = []
    with report_jobs(spark, "counting", told.append):
        assert spark.range(1000).repartition(2).count() == 1000
    assert told[-1].done == told[-1].total > 0
    with pytest.raises(PipelineFailed, match=r"selecting: .*nowhere"), report_jobs(spark, "selecting"):
        spark.range(3).select("nowhere").count()
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
