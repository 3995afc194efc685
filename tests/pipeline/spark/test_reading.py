"""Topics read by Spark through three brokers: as a batch, as a stream, and during failures."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 – its usual name

from raftlog.client import BrokerClient
from raftlog.pipeline.errors import PipelineFailed
from raftlog.pipeline.failures import convert_spark_errors
from raftlog.records import NewRecord, build_batch
from raftlog.testing import Cluster
from tests.pipeline.spark.conftest import NewTopic


def produce(bootstrap: str, topic: str, partition: int, records: Sequence[NewRecord], per_batch: int = 500) -> None:
    async def produced() -> None:
        async with BrokerClient(bootstrap.split(",")) as client:
            for first in range(0, len(records), per_batch):
                batch = build_batch(list(records[first : first + per_batch]))
                await client.produce_batches(topic, partition, bytes(batch))

    asyncio.run(produced())


def call(bootstrap: str, name: str, *args: Any) -> None:
    async def called() -> None:
        async with BrokerClient(bootstrap.split(",")) as client:
            await getattr(client, name)(*args)

    asyncio.run(called())


def make_numbered_records(first: int, end: int, size: int = 0) -> list[NewRecord]:
    return [NewRecord(b"%d" % number + bytes(size), timestamp=1000 * number) for number in range(first, end)]


def read(spark: SparkSession, bootstrap: str, topic: str, **options: Any) -> DataFrame:
    return spark.read.format("raftlog").options(bootstrap=bootstrap, topics=topic, **options).load()


def places_of(rows: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in rows.select("partition", "offset").collect())


def test_a_batch_has_all_fields_of_the_records(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    produce(
        bootstrap, topic, 0, [*make_numbered_records(0, 3000), NewRecord(None, b"k", 5, [("h", b"1"), ("n", None)])]
    )
    produce(bootstrap, topic, 1, make_numbered_records(0, 10))
    everything = read(spark, bootstrap, topic, minPartitions=4).withColumn("split", F.spark_partition_id()).collect()
    everything.sort(key=lambda row: (row.partition, row.offset))
    places = [(row.partition, row.offset) for row in everything]
    assert places == [*((0, offset) for offset in range(3001)), *((1, offset) for offset in range(10))]
    assert len({row.split for row in everything}) >= 4
    last = everything[3000]
    assert last.asDict(recursive=True) == {
        "topic": topic,
        "partition": 0,
        "offset": 3000,
        "timestamp": datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC).replace(tzinfo=None),
        "timestampType": 0,
        "key": b"k",
        "value": None,
        "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
        "split": last.split,
    }
    some = read(
        spark,
        bootstrap,
        topic,
        startingOffsets=f'{{"{topic}": {{"0": 2990, "1": -2}}}}',
        endingOffsetsByTimestamp=f'{{"{topic}": {{"0": 2995000, "1": "1970-01-01T00:00:02Z"}}}}',
    )
    assert places_of(some) == [*((0, offset) for offset in range(2990, 2995)), (1, 0), (1, 1)]
    assert read(spark, bootstrap, topic, startingOffsets="latest").count() == 0


def test_problems_are_reported_at_planning(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    with pytest.raises(PipelineFailed, match="topic 'nowhere' does not exist"), convert_spark_errors("reading"):
        read(spark, bootstrap, "nowhere").count()
    with pytest.raises(PipelineFailed, match="rows have the columns topic string"), convert_spark_errors("reading"):
        spark.read.format("raftlog").schema("a int").options(bootstrap=bootstrap, topics="t").load().count()


def test_a_users_query_gets_the_message_without_the_workers_stack(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(AnalysisException) as planned:
        read(spark, bootstrap, "nowhere").count()
    assert "Traceback" not in str(planned.value)
    assert "UnknownTopic: topic 'nowhere' does not exist" in str(planned.value).splitlines()[0]
    rows = spark.createDataFrame([("a",)], "value string")
    with pytest.raises(PySparkException) as written:
        rows.write.format("raftlog").options(bootstrap=bootstrap, topic="nowhere").mode("append").save()
    assert "Traceback" not in str(written.value)
    assert "UnknownTopic: topic 'nowhere' does not exist" in "".join(str(written.value).splitlines()[:2])
    with pytest.raises(PySparkException, match=r"Traceback[^$]*test_reading.py[^$]*ZeroDivisionError"):
        spark.range(1).select(F.udf(lambda number: 1 // number, useArrow=False)("id")).collect()


def test_a_topic_deleted_after_planning_is_data_lost(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce(bootstrap, topic, 0, make_numbered_records(0, 100), per_batch=10)
    strict, tolerant = read(spark, bootstrap, topic).rdd, read(spark, bootstrap, topic, failOnDataLoss=False).rdd
    assert strict.getNumPartitions() == tolerant.getNumPartitions() == 1  # planned now
    call(bootstrap, "delete_records", topic, 0, 40)
    assert len(tolerant.collect()) == 60
    call(bootstrap, "delete_topic", topic)
    gone = rf"{topic}/0: records from offset 0 to 100 .* the topic was deleted"
    with pytest.raises(PipelineFailed, match=gone), convert_spark_errors("reading"):
        strict.collect()


def test_a_read_continues_when_the_leader_is_killed(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    count = 24_000  # more than one Arrow batch holds, and than lies between the processes of a task
    produce(cluster.bootstrap, topic, 0, make_numbered_records(0, count, size=1000))
    has_begun, may_go_on = tmp_path / "has-begun", tmp_path / "may-go-on"
    os.mkfifo(has_begun)
    os.mkfifo(may_go_on)

    def held(rows: Iterator[Row]) -> Iterator[int]:
        for number, row in enumerate(rows):
            if number == 0:
                has_begun.write_text("yes")
                may_go_on.read_text()
            yield row.offset

    rows = read(spark, cluster.bootstrap, topic, fetchMaxBytes="256k").select("offset", "value").rdd
    found: list[int] = []
    reading = Thread(target=lambda: found.extend(rows.mapPartitions(held).collect()))
    reading.start()
    has_begun.read_text()
    cluster.nodes[cluster.leader(topic, 0)].kill()
    may_go_on.write_text("yes")
    reading.join(60)
    assert found == list(range(count))


def run_stream(
    spark: SparkSession, bootstrap: str, topic: str, directory: Path, trigger: dict[str, Any], **options: Any
) -> list[int]:
    """Stream everything to Parquet; return the number of rows in each micro-batch."""
    source = spark.readStream.format("raftlog").options(
        bootstrap=bootstrap, topics=topic, startingOffsets="earliest", **options
    )
    query = (
        source.load()
        .writeStream.format("parquet")
        .options(path=str(directory / "rows"), checkpointLocation=str(directory / "checkpoint"))
        .trigger(**trigger)
        .start()
    )
    query.awaitTermination(120)
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_a_stream_continues_from_its_checkpoint(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    produce(bootstrap, topic, 0, make_numbered_records(0, 150))
    produce(bootstrap, topic, 1, make_numbered_records(0, 50))
    now: dict[str, Any] = {"availableNow": True}
    assert run_stream(spark, bootstrap, topic, tmp_path, now, maxOffsetsPerTrigger=80) == [80, 80, 40]
    produce(bootstrap, topic, 1, make_numbered_records(50, 60))
    assert run_stream(spark, bootstrap, topic, tmp_path, now) == [10]
    found = places_of(spark.read.parquet(str(tmp_path / "rows")))
    assert found == [*((0, offset) for offset in range(150)), *((1, offset) for offset in range(60))]
    other = new_topic()
    with pytest.raises(PipelineFailed, match="another checkpointLocation"), convert_spark_errors("streaming"):
        run_stream(spark, bootstrap, other, tmp_path, now)
