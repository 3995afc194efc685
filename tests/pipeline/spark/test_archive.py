"""Topics to Parquet and back on a real cluster: each record once, whichever step is repeated."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import raftlog.pipeline as pipeline
from raftlog.client import BrokerClient
from raftlog.errors import InvalidArgument, UnknownTopic
from raftlog.log import Log
from raftlog.pipeline.errors import NotAnArchive
from raftlog.pipeline.replays import job
from raftlog.records import build_columns
from raftlog.testing import Cluster

DAY_MS = 86_400_000
NEW_YEAR_MS = 1_767_225_600_000


def fields_of(number: int) -> tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]]]:
    """Return value, key, timestamp and headers of the record at an offset; days alternate."""
    value = b"%d" % number
    headers = [("h", value), ("h", None)] if number % 4 == 0 else []
    return value, None if number % 3 else b"key " + value, NEW_YEAR_MS + (number % 2) * DAY_MS + number, headers


def produce(bootstrap: str, topic: str, first: int, end: int, partitions: int = 2) -> None:
    """Produce the same records to each partition."""
    columns = [list(column) for column in zip(*map(fields_of, range(first, end)), strict=True)]
    batch = bytes(build_columns(*columns))

    async def send() -> None:
        async with BrokerClient(bootstrap.split(",")) as client:
            for partition in range(partitions):
                await client.produce_batches(topic, partition, batch)

    asyncio.run(send())


def read_topic(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    return spark.read.format("raftlog").options(bootstrap=bootstrap, topics=topic).load()


def require_each_once(rows: DataFrame, end: int) -> None:
    """Check that the rows are the records of two partitions up to that offset, each once."""
    columns = ["partition", "value", "key", "cast(timestamp as double) as s", "headers"]
    found = sorted(
        (row.partition, int(row.value), row.key and bytes(row.key), round(row.s * 1000), header_pairs_of(row.headers))
        for row in rows.selectExpr(*columns).collect()
    )
    expected = [(number, *fields_of(number)[1:]) for number in range(end)]
    assert found == [(partition, *fields) for partition in range(2) for fields in expected]


def header_pairs_of(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(header.key, header.value and bytes(header.value)) for header in headers or ()]


def test_a_topic_survives_archive_and_replay(
    spark: SparkSession,
    cluster: Cluster,
    bootstrap: str,
    new_topic: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, path = new_topic(partitions=2), str(tmp_path / "lake")
    source = pipeline.Brokers(bootstrap, split_rows=400)
    produce(bootstrap, topic, 0, 1000)
    told: list[pipeline.Progress] = []
    report = pipeline.archive(spark, source, path, topics=[topic], on_progress=told.append)
    assert (report.rows, told[-1].done, told[-1].total) == (2000, 6, 6)
    produce(bootstrap, topic, 1000, 1300)
    assert pipeline.archive(spark, source, path, topics=[topic]).rows == 600
    assert pipeline.archive(spark, source, path, topics=[topic]).rows == 0
    data_dirs = [str(node.data_dir) for node in cluster.nodes.values()]
    assert pipeline.archive(spark, pipeline.Segments(data_dirs), path, topics=[topic]).rows == 0

    archived = pipeline.read_archive(spark, path)
    assert archived.schema == read_topic(spark, bootstrap, topic).schema
    require_each_once(archived, 1300)
    plain = spark.read.parquet(path)
    require_each_once(plain, 1300)
    assert [row.date.isoformat() for row in plain.select("date").distinct().sort("date").collect()] == [
        "2026-01-01",
        "2026-01-02",
    ]
    compacted = pipeline.compact_archive(spark, path)
    assert (compacted.files_after, compacted.rows) == (4, 2600)
    require_each_once(spark.read.parquet(path), 1300)

    target = new_topic(partitions=2)
    monkeypatch.setattr(job, "STEP_OFFSETS", 800)
    step, steps = job._TopicReplay._write_step, []

    def cut_off(self: Any, *arguments: Any) -> None:
        steps.append(step(self, *arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(job._TopicReplay, "_write_step", cut_off)
    with pytest.raises(KeyboardInterrupt):
        pipeline.replay(spark, path, bootstrap, to=target)
    monkeypatch.setattr(job._TopicReplay, "_write_step", step)
    produce(bootstrap, topic, 1300, 1310)
    assert pipeline.archive(spark, source, path, topics=[topic]).rows == 20
    assert steps == [1600]
    assert pipeline.replay(spark, path, bootstrap, to=target).rows == 1020
    assert pipeline.replay(spark, path, bootstrap, to={topic: target}).rows == 0
    require_each_once(read_topic(spark, bootstrap, target), 1310)


def test_a_replay_selects_rows_and_partitions_by_key(
    spark: SparkSession, bootstrap: str, new_topic: Any, tmp_path: Path
) -> None:
    """Rows of segment files are replayed to a topic with fewer partitions."""
    topic, path = new_topic(), str(tmp_path / "lake")
    with Log.open(tmp_path / "orders") as log:
        log.append([b"%d" % number for number in range(100)])
    report = pipeline.archive(spark, pipeline.Segments([str(tmp_path / "orders")]), path)
    assert report.rows == 100
    where = "offset >= 90 and value <> '95'"
    options = {"to": topic, "where": where, "keep_partitions": False, "records_per_second": 1000.0}
    assert pipeline.replay(spark, path, bootstrap, **options).rows == 9
    assert pipeline.replay(spark, path, bootstrap, **options).rows == 0
    assert pipeline.replay(spark, path, bootstrap, again=True, **options).rows == 9
    values = [bytes(row.value) for row in read_topic(spark, bootstrap, topic).select("value").collect()]
    assert sorted(values) == sorted(2 * [b"%d" % number for number in range(90, 100) if number != 95])
    for changed in ({"where": "nothing = 1"}, {"name": "mine", "again": True}, {"records_per_second": 0}):
        with pytest.raises(InvalidArgument):
            pipeline.replay(spark, path, bootstrap, **(options | changed))


def test_unsupported_replays_are_refused(spark: SparkSession, bootstrap: str, new_topic: Any, tmp_path: Path) -> None:
    narrow, wide, path = new_topic(), new_topic(partitions=2), str(tmp_path / "lake")
    produce(bootstrap, wide, 0, 3)
    pipeline.archive(spark, pipeline.Brokers(bootstrap), path, topics=wide)
    with pytest.raises(UnknownTopic, match="raftlog topic create missing --partitions 2"):
        pipeline.replay(spark, path, bootstrap, to="missing")
    with pytest.raises(InvalidArgument, match="has 1 partitions"):
        pipeline.replay(spark, path, bootstrap, to=narrow)
    with pytest.raises(UnknownTopic, match="is not in the archive"):
        pipeline.replay(spark, path, bootstrap, topics=["other"])
    with pytest.raises(InvalidArgument, match="no topics are named"):
        pipeline.replay(spark, path, bootstrap, topics=[])
    with pytest.raises(NotAnArchive):
        pipeline.replay(spark, str(tmp_path / "nothing"), bootstrap)
    with pytest.raises(NotAnArchive):
        pipeline.read_archive(spark, str(tmp_path / "nothing"))
    pipeline.archive(spark, pipeline.Brokers(bootstrap), path, topics=[narrow])
    assert pipeline.read_archive(spark, path, topics=[narrow]).collect() == []
