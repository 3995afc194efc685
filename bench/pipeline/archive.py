"""Measure of the archive of a topic as Parquet, from the files of stopped brokers."""

from typing import Any

from bench.child import run_in_child
from bench.cluster_http import TOPIC
from bench.measure import Figure, Measure, Values, Workspace
from bench.pipeline.batch_read import check_rows
from bench.pipeline.stage import (
    PARTITIONS,
    RECORDS,
    driver_memory,
    filled_cluster,
    measure_time,
    records_for,
    session,
    start_workers,
    stop,
)
from raftlog.pipeline import Segments, archive, read_archive


def write(scratch: str, paths: list[str], archive_path: str, records: int) -> dict[str, Any]:
    """Archive the topic, and read the archive; in a child process."""
    with session(scratch) as spark:
        start_workers(spark)
        with measure_time(records) as taken:
            archive(spark, Segments(paths), archive_path, topics=[TOPIC])
        memory = driver_memory()
        check_rows(read_archive(spark, archive_path), records)
        return {**taken, **memory}


def run(workspace: Workspace) -> Values:
    records = records_for(workspace)
    with workspace.directory() as directory, filled_cluster(workspace, directory, records) as cluster:
        paths = stop(cluster)
        workspace.show_stage("archiving")
        done = run_in_child(
            write,
            scratch=str(directory),
            paths=paths,
            archive_path=str(directory / "archive"),
            records=records,
        )
    return {**done, "records": records}


MEASURES = (
    Measure(
        "pipeline-archive",
        f"Spark, archive of {RECORDS:,} records of 100 bytes to Parquet, from segment files",
        f"A topic of {PARTITIONS} partitions is written to three brokers, which are stopped. Timed is `archive` from "
        "their data directories to an empty directory, planning and commit included, after an action that starts the "
        "workers. Then the archive is read: each offset has to be there once.",
        (
            Figure("per_s", "archived", "records/s", at_least=300_000),
            Figure("cpu_us", "CPU of Spark", "µs/record"),
            Figure("driver_python_mib", "driver, Python", "MiB"),
            Figure("driver_jvm_mib", "… its JVM, at most", "MiB"),
        ),
        run,
    ),
)
