"""Setup of pipeline measures: a filled cluster, a Spark session in a child process, the driver's memory.

Each job runs in a child, so that each has a JVM of its own, without the leftovers of another."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from bench import probes
from bench.child import run_in_child
from bench.cluster_http import TOPIC, cluster_of_three, create_topic
from bench.measure import NotMeasured, Workspace
from bench.samples import RECORDS_PER_BATCH, batches
from raftlog.client import BrokerClient
from raftlog.pipeline import local_session
from raftlog.pipeline.errors import MissingRequirement
from raftlog.pipeline.requirements import check_java
from raftlog.testing import Cluster

RECORDS: Final = 5_000_000
"""Records of 100 bytes each, in the measures that read a topic."""
MIB: Final = 512
"""Value of `--mib` that corresponds to the default number of records."""
PARTITIONS: Final = 3
MASTER: Final = "local[2]"
_REQUEST_RECORDS: Final = 10_000


def records_for(workspace: Workspace, usual: int = RECORDS) -> int:
    """Return the number of records to write and read."""
    return usual * workspace.bulk_mib(MIB) // MIB // _REQUEST_RECORDS * _REQUEST_RECORDS


@contextmanager
def filled_cluster(
    workspace: Workspace,
    directory: Path,
    records: int,
    *,
    partitions: int = PARTITIONS,
    batch_records: int = RECORDS_PER_BATCH,
) -> Iterator[Cluster]:
    """Run three brokers with a topic of three replicas that contains `records` records, in whole batches."""
    require_java()
    with cluster_of_three(directory) as cluster:
        create_topic(cluster, partitions)
        workspace.show_stage("filling the topic")
        amounts = {"partitions": partitions, "records": records, "batch_records": batch_records}
        run_in_child(fill, addresses=cluster.addresses, **amounts)
        cluster.wait_healthy()
        yield cluster


def fill(addresses: list[str], partitions: int, records: int, batch_records: int) -> dict[str, Any]:
    """Store records in all partitions in turn, about a megabyte a request; in a child process."""
    return asyncio.run(_fill(addresses, partitions, records // batch_records, batch_records))


async def _fill(addresses: list[str], partitions: int, count: int, batch_records: int) -> dict[str, Any]:
    per_request = max(1, _REQUEST_RECORDS // batch_records)
    pool = batches(per_request, batch_records)
    async with BrokerClient(addresses) as client:
        for number, first in enumerate(range(0, count, per_request)):
            body = b"".join(pool[: count - first])
            await client.produce_batches(TOPIC, number % partitions, body)
    return {}


def require_java() -> None:
    """Raise `NotMeasured` where Spark cannot run."""
    try:
        check_java()
    except MissingRequirement as missing:
        raise NotMeasured(str(missing)) from missing


def stop(cluster: Cluster) -> list[str]:
    """Stop all brokers; return their data directories."""
    for node in cluster.nodes.values():
        node.stop()
    return [str(node.data_dir) for node in cluster.nodes.values()]


@contextmanager
def session(scratch: str, master: str = MASTER) -> Iterator[SparkSession]:
    """Yield the Spark session of this child process; stop it at the end of the block."""
    spark = local_session("bench", master, {"spark.local.dir": scratch, "spark.driver.memory": "1g"})
    try:
        yield spark
    finally:
        spark.stop()


def start_workers(spark: SparkSession) -> None:
    """Start Spark's workers, so that the first action of a session does not wait for them."""
    tasks = spark.sparkContext.defaultParallelism
    spark.sparkContext.parallelize(range(tasks), tasks).map(str).count()


@contextmanager
def measure_time(records: int) -> Iterator[dict[str, float]]:
    """Measure the duration of a block, and the CPU time of driver, JVM and workers, which is less disturbed."""
    found: dict[str, float] = {}
    begin, cpu = time.perf_counter(), _cpu_s()
    yield found
    took_s = time.perf_counter() - begin
    found |= {"per_s": records / took_s, "took_s": took_s, "cpu_us": (_cpu_s() - cpu) / records * 1e6}


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, including ended ones that were waited for."""
    pids, total = [os.getpid()], 0.0
    while pids:
        pid = pids.pop()
        with contextlib.suppress(OSError):
            total += probes.cpu_seconds(pid, with_children=True)
            for thread in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (thread / "children").read_text().split())
    return total


def driver_memory() -> dict[str, float]:
    """Return the maximum resident memory of the driver's two processes so far.

    The JVM's memory includes that of the executor in local mode."""
    jvm = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
    return {"driver_python_mib": probes.memory_mib(os.getpid())[1], "driver_jvm_mib": probes.memory_mib(jvm)[1]}
