"""Brokers of two releases in one cluster: upgrade to the later one, and its point of no return."""

import asyncio
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from raftlog.cli.entry import raftlog
from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerAddresses, BrokerClient
from raftlog.errors import RaftlogError
from raftlog.records import NewRecord, build_batch
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask
from raftlog.types import TopicPartition
from tests.integration.cluster_load import read_values
from tests.upgrade.releases import Release, releases, write_wheel
from tests.waiting import block_until

SECURITY_LEVEL = 3
"""Feature level of users, permissions and quotas."""


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
    block_until(lambda: kafka_addresses(cluster) == wanted, lambda: kafka_addresses(cluster))


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


def order(cluster: Cluster, path: str, body: object) -> None:
    status, answer = ask(cluster.nodes[2].http, path, method="POST", body=body, access=cluster.nodes[2].access)
    assert status == 204, answer


def log_in_by_kafka(cluster: Cluster, user: str, password: str) -> set[str]:
    """Return the topics that a user sees over Kafka's protocol."""
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
    client = AdminClient({"bootstrap.servers": cluster.kafka, "security.protocol": "SASL_PLAINTEXT", **login})
    return set(client.list_topics(timeout=30).topics)


def test_users_of_an_upgraded_cluster(two: tuple[Release, Release], tmp_path: Path) -> None:
    """Users and entries are possible from the end of the upgrade on; then logins are switched on, broker by broker."""
    old, new = two
    for user in ("admin", "alice"):
        (tmp_path / user).write_text(f"password of {user}\n")
    with Cluster(3, python=old.python) as cluster:
        asyncio.run(run_client_operations(cluster.addresses[0], "before"))
        for number in cluster.nodes:
            restart_with(cluster, number, new)
        admin = {"name": "admin", "password": "password of admin", "is_superuser": True}
        if old.level < SECURITY_LEVEL:
            status, refused = ask(cluster.addresses[0], "/v1/security/users", method="POST", body=admin)
            assert (status, "cluster upgrade --finish" in refused["message"]) == (400, True)
        upgrade(cluster, "--finish")
        order(cluster, "/v1/security/users", admin)
        order(cluster, "/v1/security/users", {"name": "alice", "password": "password of alice"})
        reading = {"resource_type": "TOPIC", "resource_name": "before", "operation": "READ", "permission": "ALLOW"}
        order(cluster, "/v1/security/acls", {"acls": [{**reading, "principal": "User:alice"}]})
        asyncio.run(run_client_operations(cluster.addresses[1], "after"))
        for node in cluster.nodes.values():
            assert node.stop() == 0
            node._flags += ("--authentication", "required")
            node.access = BrokerAddresses(node.http, user="admin", password_file=str(tmp_path / "admin"))
            node.start()
            cluster.wait_ready()
            cluster.wait_healthy()
        alice = BrokerAddresses(cluster.addresses, user="alice", password_file=str(tmp_path / "alice"))
        for node in cluster.nodes.values():
            assert ask(node.http, "/topics")[0] == 401
            assert ask(node.http, "/topics", access=alice) == (200, ["before"])
            records = "/topics/before/partitions/0/records?offset=0"
            assert ask(node.http, records, access=alice)[1][0]["value"] == 7
            body = {"records": [{"value": 8}]}
            assert ask(node.http, "/topics/before", method="POST", body=body, access=alice)[0] == 403
            assert ask(node.http, "/topics/before", method="POST", body=body, access=node.access)[0] == 200
        assert log_in_by_kafka(cluster, "alice", "password of alice") == {"before"}
        assert log_in_by_kafka(cluster, "admin", "password of admin") >= {"before", "after"}


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
