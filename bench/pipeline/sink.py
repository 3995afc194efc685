"""Measures of exactly-once writes: micro-batches of a stream, and a named batch write."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from bench.child import run_in_child
from bench.cluster_http import TOPIC, cluster_of_three, create_topic, port_of
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.pipeline.stage import PARTITIONS, driver_memory, measure_time, records_for, require_java, session
from bench.read_back import require_read_back
from bench.samples import VALUE_BYTES

RECORDS = 2_000_000
_FILES = 8
_FILES_A_TRIGGER = 2


def make_rows(spark: SparkSession, count: int) -> DataFrame:
    """Return `count` different values of 100 bytes, with keys."""
    digest = functions.sha2(functions.col("id").cast("string"), 512)
    return spark.range(count, numPartitions=_FILES).select(
        functions.encode(functions.substring(digest, 1, VALUE_BYTES), "utf-8").alias("value"),
        functions.col("id").cast("string").cast("binary").alias("key"),
    )


def write(scratch: str, bootstrap: str, records: int, streams: bool) -> dict[str, Any]:
    """Write `records` records to the topic; in a child process."""
    with session(scratch) as spark:
        given = str(Path(scratch, "rows"))
        make_rows(spark, records).write.mode("overwrite").parquet(given)
        with measure_time(records) as taken:
            (_write_stream if streams else _write_batch)(spark, given, scratch, bootstrap)
        return {**taken, **driver_memory()}


def _write_stream(spark: SparkSession, source_path: str, scratch: str, bootstrap: str) -> None:
    """Write the Parquet files below `source_path` as a stream to the topic."""
    schema = spark.read.parquet(source_path).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", _FILES_A_TRIGGER).parquet(source_path)
    writer = source.writeStream.format("raftlog").option("bootstrap", bootstrap).option("topic", TOPIC)
    query = writer.option("checkpointLocation", str(Path(scratch, "checkpoint"))).trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    require(len(batches) == _FILES // _FILES_A_TRIGGER, f"{len(batches)} micro-batches wrote something")


def _write_batch(spark: SparkSession, source_path: str, scratch: str, bootstrap: str) -> None:
    """Write the Parquet files below `source_path` as one batch to the topic."""
    writer = spark.read.parquet(source_path).write.format("raftlog").mode("append")
    writer.option("bootstrap", bootstrap).option("topic", TOPIC).option("writeId", "bench").save()


def run(workspace: Workspace) -> Values:
    records = records_for(workspace, RECORDS)
    streamed, batched = (_measure_write(workspace, records, streams=streams) for streams in (True, False))
    return {**streamed, **{f"batch_{key}": value for key, value in batched.items()}, "records": records}


def _measure_write(workspace: Workspace, records: int, *, streams: bool) -> dict[str, Any]:
    require_java()
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster, PARTITIONS)
        workspace.show_stage("a stream" if streams else "a batch")
        done = run_in_child(
            write,
            scratch=str(directory / "scratch"),
            bootstrap=cluster.bootstrap,
            records=records,
            streams=streams,
        )
        stored = require_read_back(
            port_of(cluster, cluster.leader(TOPIC)), TOPIC, records, records, partitions=PARTITIONS
        )
    return {**done, **stored}


MEASURES = (
    Measure(
        "pipeline-sink",
        f"Spark, sink: {RECORDS:,} records of 100 bytes, exactly once",
        f"{_FILES} Parquet files of records with keys are streamed to a topic of {PARTITIONS} partitions and three "
        f"replicas, {_FILES_A_TRIGGER} files a micro-batch; timed is the query from its start to its end, with all "
        "commits. Then the same as a batch write with a writeId, to another cluster. Everything is read back: each "
        "record has to be there once.",
        (
            Figure("per_s", "streamed", "records/s", at_least=60_000),
            Figure("batch_per_s", "as one batch", "records/s", at_least=60_000),
            Figure("cpu_us", "streamed: CPU of Spark", "µs/record"),
            Figure("driver_python_mib", "driver, Python", "MiB"),
            Figure("driver_jvm_mib", "… its JVM, at most", "MiB"),
        ),
        run,
    ),
)
