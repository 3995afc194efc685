"""Measures of jobs in 1, 2 and 4 splits: time saved, and memory of the driver."""

from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from bench.child import run_in_child
from bench.cluster_http import TOPIC
from bench.measure import Figure, Measure, Values, Workspace
from bench.pipeline.batch_read import check_rows, open_source
from bench.pipeline.stage import driver_memory, filled_cluster, measure_time, records_for, session, start_workers, stop
from raftlog.pipeline import Segments, archive, verify

RECORDS: Final = 2_000_000
SPLITS: Final = (1, 2, 4)
MASTER: Final = "local[4]"
"""Spark master with four threads, so that all splits run at the same time on the cores of the machine."""
JOBS: Final = {
    "brokers": "read through brokers",
    "segments": "read from segment files",
    "archive": "archive from segment files",
    "verify": "verify one replica",
}


def run_once(job: str, scratch: str, place: str, splits: int, records: int) -> dict[str, Any]:
    """Run a job in `splits` splits; `place` is the brokers' addresses or a data directory. In a child process."""
    with session(scratch, MASTER) as spark:
        start_workers(spark)
        with measure_time(records) as taken:
            _run(spark, job, scratch, place, splits, records)
        return {"s": taken["took_s"], "cpu_us": taken["cpu_us"], **driver_memory()}


def _run(spark: SparkSession, job: str, scratch: str, place: str, splits: int, records: int) -> None:
    if job == "brokers":
        check_rows(open_source(spark, {"bootstrap": place, "minPartitions": str(splits)}), records)
        return
    split_bytes = -(-sum(file.stat().st_size for file in Path(place, TOPIC, "0").glob("*.log")) // splits)
    if job == "segments":
        check_rows(open_source(spark, {"path": place, "splitBytes": str(split_bytes)}), records)
    elif job == "archive":
        archive(spark, Segments([place], split_bytes=split_bytes), f"{scratch}/archive-{splits}", topics=[TOPIC])
    else:
        verify(spark, [place], topics=[TOPIC], split_bytes=split_bytes)


def run(workspace: Workspace) -> Values:
    records = records_for(workspace, RECORDS)
    values: dict[str, float] = {}
    with workspace.directory() as directory, filled_cluster(workspace, directory, records, partitions=1) as cluster:
        place = cluster.bootstrap
        for job in JOBS:
            if job == "segments":
                place = stop(cluster)[0]
            for splits in SPLITS:
                workspace.show_stage(f"{JOBS[job]}, {splits} splits")
                done = run_in_child(
                    run_once,
                    job=job,
                    scratch=str(directory / "scratch"),
                    place=place,
                    splits=splits,
                    records=records,
                )
                values |= {f"{job}_{splits}_{key}": value for key, value in done.items()}
            values[f"{job}_speedup"] = values[f"{job}_1_s"] / values[f"{job}_2_s"]
            values[f"{job}_memory_ratio"] = _driver_mib(values, job, SPLITS[-1]) / _driver_mib(values, job, SPLITS[0])
    return {**values, "records": records}


def _driver_mib(values: dict[str, float], job: str, splits: int) -> float:
    return values[f"{job}_{splits}_driver_python_mib"] + values[f"{job}_{splits}_driver_jvm_mib"]


def _figures(job: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{job}_speedup", f"{JOBS[job]}: 1 split ÷ 2 splits", "×", at_least=1.3),
        Figure(f"{job}_memory_ratio", "… driver's memory, 4 splits ÷ 1 split", "×", at_most=1.25),
        *(Figure(f"{job}_{splits}_s", f"… {splits} splits", "s") for splits in SPLITS),
        Figure(f"{job}_4_driver_python_mib", "… driver, Python", "MiB"),
        Figure(f"{job}_4_driver_jvm_mib", "… its JVM, at most", "MiB"),
    )


MEASURES = (
    Measure(
        "pipeline-growth",
        f"Spark, the same jobs over {RECORDS:,} records of 100 bytes in 1, 2 and 4 splits",
        "A topic of one partition and three replicas is read through its brokers, then, when they are stopped, read, "
        f"archived and verified from one data directory, each in 1, 2 and 4 splits by a fresh Spark {MASTER}, timed "
        "after an action that starts its workers. Memory is the most that the driver's Python and its JVM had; in "
        "local mode the JVM runs the executor, too.",
        tuple(figure for job in JOBS for figure in _figures(job)),
        run,
    ),
)
