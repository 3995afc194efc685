"""Writing with Spark: batches and streams into topics, repeated and interrupted, each row once."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from raftlog.client import BrokerClient
from raftlog.pipeline import PipelineFailed
from raftlog.pipeline.errors import InputChanged
from raftlog.pipeline.failures import convert_spark_errors
from raftlog.pipeline.sink.attempt import write_rows
from raftlog.pipeline.sink.columns import Columns
from raftlog.pipeline.sink.identity import WriteIdentity
from raftlog.pipeline.sink.marks import EpochStart, Recorder
from raftlog.pipeline.sink.settings import SinkSettings
from raftlog.pipeline.sink.writers import recorded_epoch
from raftlog.testing import Cluster
from tests.pipeline.spark.conftest import NewTopic
from tests.pipeline.stored_records import stored_numbers, stored_records
from tests.waiting import block_until

COUNT = 6_000
ONCE = Counter(range(COUNT))
CONTENT = ("cast(key as string)", "cast(value as string)", "timestamp", "headers")


def numbered_rows(spark: SparkSession, count: int = COUNT) -> DataFrame:
    return spark.range(count).selectExpr(
        "cast(id % 97 as string) as key",
        "cast(id as string) as value",
        "timestamp_millis(1700000000000 + id) as timestamp",
        "case when id % 2 = 0 then array(named_struct('key', 'even', 'value', cast('yes' as binary))) end as headers",
        "current_date() as date",
    )


def save(rows: DataFrame, bootstrap: str, topic: str, **options: str) -> None:
    writer = rows.write.format("raftlog").mode("append").option("bootstrap", bootstrap).option("topic", topic)
    with convert_spark_errors("writing"):
        writer.options(**options).save()


def read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    return spark.read.format("raftlog").option("bootstrap", bootstrap).option("topics", topic).load()


def count_stored_numbers(bootstrap: str, topic: str) -> Counter[int]:
    return asyncio.run(stored_numbers(bootstrap.split(","), topic))


def fail_once(rows: DataFrame, bootstrap: str, topic: str, flag: Path) -> DataFrame:
    """Return the same rows; one in the middle fails in its first task after some were written."""

    @udf("string", useArrow=False)
    def fragile(value: str) -> str:
        if value == str(COUNT // 2) and not flag.exists():
            flag.touch()
            block_until(lambda: count_stored_numbers(bootstrap, topic))
            raise RuntimeError("the executor failed")
        return value

    return rows.withColumn("value", fragile("value"))


def test_a_repeated_batch_is_written_once(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(3)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    rows = numbered_rows(spark).repartition(3)
    broken = fail_once(rows, bootstrap, topic, tmp_path / "failed")
    with pytest.raises(PipelineFailed, match="the executor failed"):
        save(broken, bootstrap, topic, writeId="nightly", batchBytes="1k")
    assert 0 < sum(count_stored_numbers(bootstrap, topic).values()) < COUNT
    assert recorded_epoch(bootstrap.split(","), "nightly") is None
    for _ in range(2):
        save(broken, bootstrap, topic, writeId="nightly", batchBytes="8k", compression="zstd")
    assert recorded_epoch(bootstrap.split(","), "nightly") == 0
    stored = read(spark, bootstrap, topic)
    assert sorted(map(str, stored.selectExpr(*CONTENT).collect())) == sorted(
        map(str, rows.selectExpr(*CONTENT).collect())
    )
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    copy = new_topic(3)
    save(stored, bootstrap, copy)
    assert copied_records(bootstrap, copy) == copied_records(bootstrap, topic)


def copied_records(bootstrap: str, topic: str) -> dict[int, Counter[object]]:
    """Return the copied records of each partition as a multiset: several tasks may write to one partition."""
    found = asyncio.run(stored_records(bootstrap.split(","), topic))
    return {
        partition: Counter((r.timestamp, r.key, r.value, tuple(r.headers)) for r in records)
        for partition, records in found.items()
    }


def test_unwritable_rows_are_reported_plainly(spark: SparkSession, bootstrap: str) -> None:
    """Some errors are detected when the query is planned, others only in a task."""
    rows = spark.range(1).selectExpr("cast(id as string) as value", "1 as extra")
    with pytest.raises(PipelineFailed, match="writing: the column extra cannot be written"):
        save(rows, bootstrap, "nowhere")
    with pytest.raises(PipelineFailed, match="raftlog topic create nowhere --partitions N"):
        save(rows.drop("extra"), bootstrap, "nowhere")


def run_stream(spark: SparkSession, bootstrap: str, source: str, sink: str, checkpoint: Path) -> str:
    """Run the query until the sink has a record for each of the source; return the query's id."""
    rows = (
        spark.readStream.format("raftlog")
        .option("bootstrap", bootstrap)
        .option("topics", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(COUNT // 2))
        .load()
    )
    query = (
        rows.selectExpr("value", "upper(cast(key as string)) as key")
        .writeStream.format("raftlog")
        .option("bootstrap", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    return str(query.id)


def test_a_stream_continues_after_its_driver_was_killed(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink, checkpoint = new_topic(3), new_topic(3), tmp_path / "checkpoint"
    save(numbered_rows(spark), bootstrap, source)
    write_id = run_stream(spark, bootstrap, source, sink, checkpoint)
    assert count_stored_numbers(bootstrap, sink) == ONCE
    last = recorded_epoch(bootstrap.split(","), write_id)
    assert last is not None
    assert last >= 1

    # Killed after the sink's record, before Spark's own.
    done = checkpoint / "commits" / str(last)
    for path in (done, done.with_name(f".{last}.crc")):
        path.unlink(missing_ok=True)
    assert run_stream(spark, bootstrap, source, sink, checkpoint) == write_id
    assert count_stored_numbers(bootstrap, sink) == ONCE

    # Killed when all was written and nothing recorded.
    for path in (done, done.with_name(f".{last}.crc")):
        path.unlink()
    asyncio.run(restore_begun_epoch(bootstrap, write_id, sink, last))
    assert run_stream(spark, bootstrap, source, sink, checkpoint) == write_id
    assert count_stored_numbers(bootstrap, sink) == ONCE
    assert recorded_epoch(bootstrap.split(","), write_id) == last


async def restore_begun_epoch(bootstrap: str, write_id: str, topic: str, epoch: int) -> None:
    """Restore the commit record as left by a driver that crashed after the begin of the epoch."""
    records = await stored_records(bootstrap.split(","), topic)
    ms = max(each[-1].timestamp for each in records.values())  # of rows that came without
    async with BrokerClient(bootstrap.split(",")) as client:
        recorder = Recorder(client, write_id)
        await client.groups.delete(recorder.group)
        await recorder.begin(topic, epoch, EpochStart("gone", ms, 3), await recorder.read())


def test_rows_are_written_once_when_the_leader_is_killed(cluster: Cluster, new_topic: NewTopic, bootstrap: str) -> None:
    topic = new_topic(3)
    settings = SinkSettings(tuple(bootstrap.split(",")), topic=topic, batch_bytes=2_000)
    batches = [
        pa.record_batch({"value": pa.array([str(number).encode() for number in range(start, start + 200)])})
        for start in range(0, COUNT, 200)
    ]

    def rows_with_a_kill() -> Iterator[pa.RecordBatch]:
        for count, batch in enumerate(batches):
            if count == 10:
                cluster.nodes[cluster.leader(topic, 0)].kill()
            yield batch

    outcome = write_rows(rows_with_a_kill(), Columns(value=0), settings, WriteIdentity("killed", 0, 0), "run")
    assert outcome.rows == COUNT
    again = write_rows(reversed(batches), Columns(value=0), settings, WriteIdentity("killed", 0, 0), "another run")
    assert again.rows == COUNT
    with pytest.raises(InputChanged):
        write_rows(batches[1:], Columns(value=0), settings, WriteIdentity("killed", 0, 0), "a third")
    assert count_stored_numbers(bootstrap, topic) == ONCE
