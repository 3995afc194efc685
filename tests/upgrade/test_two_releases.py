"""Brokers of two releases in one cluster: upgrade to the later one, and its point of no return."""

import asyncio
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog.cli.entry import raftlog
from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerClient
from raftlog.errors import RaftlogError
from raftlog.records import NewRecord, build_batch
from raftlog.testing import BrokerFailed, Cluster
from raftlog.types import TopicPartition
from tests.integration.cluster_load import read_values
from tests.upgrade.releases import Release, releases, write_wheel


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Release, Release]:
    return releases(tmp_path_factory.mktemp("releases") / "other")


def versions(cluster: Cluster) -> list[Any]:
    """Return the versions that the brokers report."""
    return [broker["version"] for broker in cluster.nodes[1].get("/v1/brokers")]


def kafka_addresses(cluster: Cluster) -> list[Any]:
    """Return the addresses for Kafka's clients that brokers of this release report."""
    return [broker.get("kafka_addresses", {}) for broker in cluster.nodes[1].get("/v1/brokers")]


def wait_for_kafka(cluster: Cluster) -> None:
    """Wait until all running brokers have registered their Kafka listeners."""
    wanted = [{"kafka": node.kafka} for node in cluster.nodes.values()]
    until = time.monotonic() + 30
    while kafka_addresses(cluster) != wanted:
        assert time.monotonic() < until, kafka_addresses(cluster)
        time.sleep(0.02)


def restart_with(cluster: Cluster, number: int, release: Release) -> None:
    """Restart a broker with a release, and wait until all partitions have their replicas."""
    node = cluster.nodes[number]
    assert node.stop() == 0
    node.python = release.python
    node.start()
    cluster.wait_healthy()


def upgrade(cluster: Cluster, *flags: str) -> str:
    """Return the output of `raftlog cluster upgrade`; raise its error."""
    command = ["cluster", "upgrade", "--bootstrap", cluster.bootstrap, *flags]
    return CliRunner().invoke(raftlog, command, catch_exceptions=False).output


async def run_client_operations(address: str, topic: str) -> None:
    """Run client operations through one broker: create a topic, produce, fetch, commit an offset."""
    async with BrokerClient([address]) as client:
        await client.create_topic(topic, 3, 3)
        for place in (TopicPartition(topic, number) for number in range(3)):
            batch = build_batch([NewRecord(b"7")])
            assert (await client.produce_batches(*place, batch)).base_offset == 0
            assert (await client.fetch_batches(*place, 0, timeout_ms=5_000)).high_watermark == 1
            await client.groups.commit(topic, {place: 1})
            assert {at: int(each.offset) for at, each in (await client.groups.committed(topic)).items()}[place] == 1


def test_brokers_are_upgraded_one_by_one(two: tuple[Release, Release]) -> None:
    """Both releases work together; the last step needs support by all brokers, and cannot be undone."""
    old, new = two
    with Cluster(3, python=old.python) as cluster:
        assert versions(cluster) == [old.version] * 3
        asyncio.run(run_client_operations(cluster.addresses[0], "before"))
        restart_with(cluster, 1, new)
        assert versions(cluster) == [new.version, old.version, old.version]
        for number, node in cluster.nodes.items():
            asyncio.run(run_client_operations(node.http, f"mixed-{number}"))
        if new.level > old.level:
            assert f"node 2 ({old.version}), node 3 ({old.version}) must run the new release" in upgrade(cluster)
            with pytest.raises((CommandFailed, RaftlogError), match="must run the new release"):
                upgrade(cluster, "--finish")
        restart_with(cluster, 2, new)
        restart_with(cluster, 3, new)
        if new.level > old.level:
            assert "Finish the upgrade" in upgrade(cluster)
        assert kafka_addresses(cluster) == [{}, {}, {}], "not before the end of the upgrade"
        assert f"feature level {new.level}: the upgrade is finished" in upgrade(cluster, "--finish")
        cluster.wait_healthy()
        wait_for_kafka(cluster)
        asyncio.run(run_client_operations(cluster.addresses[2], "after"))
        for node in cluster.nodes.values():
            for topic in ("before", "mixed-1", "mixed-2", "mixed-3", "after"):
                assert read_values(node.http, topic) == [7]
        if new.level > old.level:
            node = cluster.nodes[3]
            assert node.stop() == 0
            node.python = old.python
            with pytest.raises(BrokerFailed, match="run a newer release"):
                node.start(timeout_s=20.0)


def test_the_wheel_is_small_and_can_be_used(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    assert wheel.stat().st_size < 2_000_000
    with zipfile.ZipFile(wheel) as files:
        assert not [name for name in files.namelist() if "pipeline/session" in name or "__pycache__" in name]
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import raftlog; print(raftlog.__file__)"],
        env={"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(wheel) in done.stdout
