"""`verify` in Spark: a cluster that was killed during writes, its archive, and then damage."""

import asyncio
import contextlib
import itertools
import json
import shutil
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from raftlog.client import BrokerClient
from raftlog.errors import RaftlogError
from raftlog.pipeline import Progress, Segments, archive, verify
from raftlog.records import NewRecord, build_batch
from raftlog.testing import Cluster
from tests.pipeline.spark.conftest import NewTopic
from tests.pipeline.verifying import flip, run_log_verify

ENOUGH = 200
"""Batches."""


async def write(addresses: list[str], topic: str, enough: threading.Event) -> None:
    """Write until the brokers have stopped; `enough` is set once there are some records."""
    with contextlib.suppress(RaftlogError, OSError):
        async with BrokerClient(addresses) as client:
            for number in itertools.count():
                batch = build_batch([NewRecord(b"%d" % number * 20, b"%d" % each) for each in range(20)])
                await client.produce_batches(topic, number % 2, bytes(batch))
                if number == ENOUGH:
                    enough.set()


def test_a_cluster_killed_during_writes_is_verified(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2, segment_bytes=str(1 << 16))
    enough = threading.Event()
    writer = threading.Thread(target=lambda: asyncio.run(write(cluster.addresses, topic, enough)))
    writer.start()
    assert enough.wait(60)
    for node in cluster.nodes.values():
        node.kill()
    paths = [shutil.copytree(node.data_dir, tmp_path / str(node.node_id)) for node in cluster.nodes.values()]
    writer.join()

    told: list[Progress] = []
    report = verify(spark, list(map(str, paths)), split_bytes=1 << 16, on_progress=told.append)
    assert report.problems == ()
    of_topic = [each for each in report.partitions if each.topic == topic]
    assert [(each.partition, each.replicas, each.is_compared) for each in of_topic] == [(0, 3, True), (1, 3, True)]
    assert ("__controller", 0) in {(each.topic, each.partition) for each in report.partitions}
    assert run_log_verify(*paths).is_sound
    assert {"reading journals", "checking replicas"} <= {each.what for each in told}

    lake = str(tmp_path / "lake")
    archive(spark, Segments(list(map(str, paths))), lake, topics=[topic])
    report = verify(spark, list(map(str, paths)), topics=[topic], archive=lake)
    assert report.problems == ()
    assert [(each.partition, each.start) for each in report.archive] == [(0, 0), (1, 0)]
    assert sum(each.records for each in report.archive) == sum(each.end - each.start for each in report.archive) > 0

    file = max((paths[1] / topic / "1").glob("*.log"))
    flip(file, file.stat().st_size // 2)
    report = verify(spark, list(map(str, paths)), topics=[topic])
    wanted = run_log_verify(*(path / topic for path in paths))
    assert not report.is_sound
    assert wanted.problems <= set(report.problems)
    assert all(str(file) in problem for problem in report.problems)
    assert json.loads(json.dumps(report.as_json()))["sound"] is False
