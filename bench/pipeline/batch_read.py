"""Measures of batch reads of a topic: through brokers, and from their files after they stopped."""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from bench.child import run_in_child
from bench.cluster_http import TOPIC
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.pipeline.stage import (
    MASTER,
    PARTITIONS,
    RECORDS,
    driver_memory,
    filled_cluster,
    measure_time,
    records_for,
    session,
    stop,
)
from bench.samples import VALUE_BYTES

SPLITS = 6
_WARM_OFFSET = 5_000
_WARM_UP = json.dumps({TOPIC: {str(partition): _WARM_OFFSET for partition in range(PARTITIONS)}})


def open_source(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Return the topic's rows: through brokers if `options` has `bootstrap`, otherwise from segment files."""
    name = "raftlog" if "bootstrap" in options else "raftlog-segments"
    return spark.read.format(name).options(**options).option("topics", TOPIC).load()


def check_rows(rows: DataFrame, records: int) -> None:
    """Read all rows and columns; raises `MeasureFailed` unless each offset exists once, with its value."""
    found = rows.groupBy("partition").agg(
        functions.count("*").alias("rows"),
        functions.min("offset").alias("first"),
        functions.max("offset").alias("last"),
        functions.sum(functions.length("value")).alias("bytes"),
        functions.count("timestamp").alias("stamped"),
    )
    parts = found.collect()
    require(sum(part.rows for part in parts) == records, f"{parts} are not {records:,} records")
    require(all(part.last - part.first + 1 == part.rows for part in parts), f"offsets are missing: {parts}")
    require(sum(part.bytes for part in parts) == records * VALUE_BYTES, f"values are missing: {parts}")
    require(all(part.stamped == part.rows for part in parts), f"timestamps are missing: {parts}")


def read(scratch: str, options: dict[str, str], records: int) -> dict[str, Any]:
    """Read the topic once, after a small read that starts Spark's processes; in a child process."""
    with session(scratch) as spark:
        check_rows(open_source(spark, {**options, "endingOffsets": _WARM_UP}), PARTITIONS * _WARM_OFFSET)
        with measure_time(records) as taken:
            check_rows(open_source(spark, options), records)
        return {**taken, **driver_memory()}


def run(workspace: Workspace) -> Values:
    records = records_for(workspace)
    with workspace.directory() as directory, filled_cluster(workspace, directory, records) as cluster:
        common = {"scratch": str(directory), "records": records}
        workspace.show_stage("through brokers")
        options = {"bootstrap": cluster.bootstrap, "minPartitions": str(SPLITS)}
        brokers = run_in_child(read, **common, options=options)
        workspace.show_stage("from segment files")
        options = {"path": ",".join(stop(cluster)), "minPartitions": str(SPLITS)}
        segments = run_in_child(read, **common, options=options)
    return {
        **{f"brokers_{key}": value for key, value in brokers.items()},
        **{f"segments_{key}": value for key, value in segments.items()},
        "records": records,
    }


MEASURES = (
    Measure(
        "pipeline-read",
        f"Spark, batch read of {RECORDS:,} records of 100 bytes",
        f"Three brokers, a topic of {PARTITIONS} partitions and three replicas, batches of 1,000 records. Spark "
        f"{MASTER} on the same machine reads it in {SPLITS} splits, through the brokers; then the brokers are stopped, "
        "and their three data directories are read. Timed is one aggregate over every column that counts the records "
        "of each partition, after a small read that starts Spark's workers. Each offset has to be there once.",
        (
            Figure("brokers_per_s", "through brokers", "records/s", at_least=200_000),
            Figure("segments_per_s", "from segment files", "records/s", at_least=500_000),
            Figure("brokers_cpu_us", "through brokers: CPU of Spark", "µs/record"),
            Figure("segments_cpu_us", "from segment files: CPU of Spark", "µs/record"),
            Figure("brokers_driver_python_mib", "through brokers: driver, Python", "MiB"),
            Figure("brokers_driver_jvm_mib", "… its JVM, at most", "MiB"),
        ),
        run,
    ),
)
