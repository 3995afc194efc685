"""The data source `raftlog-segments` in Spark: data directories of a stopped cluster, intact and damaged."""

import asyncio
import shutil
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from raftlog.client import BrokerClient
from raftlog.pipeline.rows import check_schema
from raftlog.pipeline.segments.replicas import find_replicas
from raftlog.records import Compression, build_columns
from raftlog.testing import Cluster
from raftlog.testing.http import ask

RECORDS = 6000
BATCH_RECORDS = 50
NEW_YEAR_MS = 1_767_225_600_000


async def produce(bootstrap: list[str]) -> None:
    async with BrokerClient(bootstrap) as client:
        for first in range(0, RECORDS, 2 * BATCH_RECORDS):
            for partition in range(2):
                numbers = range(first + partition, first + 2 * BATCH_RECORDS, 2)
                values, keys = [b"value %d" % number for number in numbers], [b"%d" % number for number in numbers]
                times, headers = [NEW_YEAR_MS] * BATCH_RECORDS, [[]] * BATCH_RECORDS
                batch = build_columns(values, keys, times, headers, Compression.ZSTD)
                await client.produce_batches("orders", partition, batch)


@pytest.fixture(scope="module")
def data_dirs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory = tmp_path_factory.mktemp("stopped")
    with Cluster(3, data_dir=directory, with_cuts=False) as cluster:
        wanted = {
            "topic_name": "orders",
            "partitions_count": 2,
            "replication_factor": 3,
            "configs": [{"name": "segment.bytes", "value": str(1 << 16)}],
        }
        status, answer = ask(cluster.addresses[0], "/v3/clusters/-/topics", method="POST", body=wanted)
        assert status == 201, answer
        asyncio.run(produce(cluster.addresses))
        for node in cluster.nodes.values():
            node.stop()
        return [str(node.data_dir) for node in cluster.nodes.values()]


def load(spark: SparkSession, paths: list[str], **options: str) -> DataFrame:
    return spark.read.format("raftlog-segments").options(**options).load(paths if len(paths) > 1 else paths[0])


def test_three_data_directories_are_one_table(spark: SparkSession, data_dirs: list[str]) -> None:
    rows = load(spark, data_dirs, minPartitions="4")
    check_schema(rows.schema)
    found = rows.select("*", sql.spark_partition_id().alias("task")).toArrow().to_pydict()
    assert len(set(found["task"])) >= 4
    assert set(found["topic"]) == {"orders"}
    assert set(found["headers"]) == {None}
    assert None not in found["timestamp"]
    numbers = [2 * offset + partition for offset, partition in zip(found["offset"], found["partition"], strict=True)]
    assert sorted(numbers) == list(range(RECORDS))
    assert found["value"] == [b"value %d" % number for number in numbers]
    assert found["key"] == [b"%d" % number for number in numbers]
    some = load(
        spark,
        data_dirs,
        topicsPattern="ord.*",
        startingOffsets='{"orders": {"0": 5, "1": -1}}',
        endingOffsets='{"orders": {"0": 8}}',
    )
    assert sorted(row.offset for row in some.select("offset").collect()) == [5, 6, 7]


def test_problems_are_reported_with_their_file(spark: SparkSession, data_dirs: list[str], tmp_path: Path) -> None:
    [replica] = [each for each in find_replicas(data_dirs[:1]) if (each.topic, each.partition) == ("orders", 1)]
    copy = Path(shutil.copytree(replica.path, tmp_path / "orders" / "1"))
    file = sorted(copy.glob("*.log"))[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(PySparkException, match=rf"{file}: corrupt batch at position \d+, offset \d+: the CRC does not"):
        load(spark, [str(copy)]).count()
    left = load(spark, [str(copy)], onCorruption="skip").count()
    assert left == RECORDS // 2 - BATCH_RECORDS
    with pytest.raises(AnalysisException, match=r"no log of topic gone lies in .*; there are"):
        load(spark, [",".join(data_dirs)], topics="gone").count()
    with pytest.raises(AnalysisException, match="has no option topic; did you mean topics"):
        load(spark, data_dirs, topic="orders").count()
