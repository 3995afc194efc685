"""Brokers of two releases in one cluster: from the release before to this one, back, and to where no way leads back."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog import __version__
from raftlog.cli.entry import raftlog
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.rolling_cluster import RollingCluster
from raftlog.cli.rolling_steps import RollingRestart, Unit
from raftlog.client import BrokerClient, CommittedOffset
from raftlog.errors import RaftlogError
from raftlog.records import build_batch
from raftlog.testing import BrokerFailed, Cluster
from raftlog.types import Offset, TopicPartition
from tests.integration.cluster_load import create_topic, stored
from tests.upgrade.conftest import OLD, version_of
from tests.upgrade.writing import Writing, require_stored

NEW = (sys.executable, __version__)


def restart(cluster: Cluster, number: int, python: str, version: str) -> None:
    """Restart a broker with a release, and wait until nothing lacks a replica."""
    node = cluster.nodes[number]
    if node.is_running:
        assert node.stop() == 0
    node.python = python
    node.start()
    cluster.wait_healthy()
    assert version_of(cluster, number) == version


def upgrade(cluster: Cluster, *flags: str) -> str:
    """What `raftlog cluster upgrade` says; raises what it fails with."""
    done = CliRunner().invoke(
        raftlog, ["cluster", "upgrade", "--bootstrap", cluster.bootstrap, *flags], catch_exceptions=False
    )
    return done.output


async def use_through(address: str, topic: str) -> None:
    """What clients do, at one broker: a topic, a record in and out, a group's offset."""
    async with BrokerClient([address]) as client:
        place = TopicPartition(topic, 0)
        await client.create_topic(topic, 1, 3)
        produced = await client.produce_batches(*place, build_batch([b"7"]))
        assert produced.base_offset == 0
        assert (await client.fetch_batches(*place, 0, timeout_ms=5_000)).high_watermark == 1
        await client.groups.commit(topic, {place: 1})
        assert await client.groups.committed(topic) == {place: CommittedOffset(Offset(1))}


def test_one_by_one_to_this_release(old_cluster: Callable[..., Cluster], old_python: str) -> None:
    """Writable throughout; both work together; the last step comes when all know the level, and has no way back."""
    cluster = old_cluster()
    create_topic(cluster.addresses[0], "t", 3)
    assert "no broker could be asked" in upgrade(cluster)
    with Writing(cluster.addresses, "t", 3) as writing:
        restart(cluster, 1, *NEW)
        for number, node in cluster.nodes.items():
            asyncio.run(use_through(node.http, f"mixed-{number}"))
        for node in cluster.nodes.values():
            assert stored(node.http, "mixed-3") == [7]
        assert "node 2 (0.1.0), node 3 (0.1.0) must run the new release" in upgrade(cluster)
        with pytest.raises((CommandFailed, RaftlogError), match="must run the new release"):
            upgrade(cluster, "--finish")
        restart(cluster, 2, *NEW)
        restart(cluster, 3, *NEW)
        assert "Finish the upgrade" in upgrade(cluster)
        assert "feature level 3: the upgrade is finished" in upgrade(cluster, "--finish")
        assert "feature level 3: the upgrade is finished" in upgrade(cluster, "--finish"), (
            "giving it again does no harm"
        )
        writing.more()
        require_refused(cluster, 3, old_python)
        writing.more()
    require_stored(cluster, [writing.report])


@pytest.mark.slow
def test_whoever_regrets_it_can_go_back(old_cluster: Callable[..., Cluster], old_python: str) -> None:
    """As long as the level was not raised: all brokers, after all of them ran this release. By the procedure of
    `raftlog cluster rolling-restart`, which has to get along with both."""
    cluster = old_cluster()
    create_topic(cluster.addresses[0], "t", 3)
    with Writing(cluster.addresses, "t", 3) as writing:
        for python, version in (NEW, (old_python, OLD), NEW):
            asyncio.run(roll(cluster, python))
            assert [version_of(cluster, number) for number in cluster.nodes] == 3 * [version]
            writing.more()
        assert "feature level 3: the upgrade is finished" in upgrade(cluster, "--finish")
        asyncio.run(roll(cluster, NEW[0]))  # with maintenance
        writing.more()
    require_stored(cluster, [writing.report])


async def roll(cluster: Cluster, python: str) -> None:
    """Restart all brokers with an interpreter."""
    async with RollingCluster(cluster.addresses) as seen:
        rolling = RollingRestart(
            seen,
            WithAnother(cluster, python),
            timeout_s=60,
            tell=lambda step: None,
            waiting=lambda what: None,
            done=lambda unit: None,
        )
        await rolling.run([Unit(number, (number,)) for number in cluster.nodes])


class WithAnother:
    """Restarts the brokers of a cluster with another interpreter."""

    def __init__(self, cluster: Cluster, python: str) -> None:
        self._cluster, self._python = cluster, python

    async def restart(self, unit: Unit) -> dict[str, Any]:
        node = self._cluster.nodes[unit.node_id]
        assert await asyncio.to_thread(node.stop) == 0
        node.python = self._python
        await asyncio.to_thread(node.start)
        return {}

    def how(self, unit: Unit) -> str:
        return f"{self._python} instead"


def require_refused(cluster: Cluster, number: int, python: str) -> None:
    """The old release does not come to serve any more, and says why."""
    node = cluster.nodes[number]
    assert node.stop() == 0
    node.python = python
    with pytest.raises(BrokerFailed) as refused:
        node.start(timeout_s=20.0)
    assert "run a newer release" in str(refused.value)


@pytest.mark.slow
def test_disks_are_filled_by_leaders_of_the_other_release(old_cluster: Callable[..., Cluster]) -> None:
    """A broker of each release loses its disk, and gets everything from leaders of both."""
    cluster = old_cluster(serve_flags=("--topic-config", "segment.bytes=65536"))
    create_topic(cluster.addresses[0], "t", 3)
    restart(cluster, 1, *NEW)
    with Writing(cluster.addresses, "t", 3) as writing:
        writing.more(300)
        for number in (1, 2):
            wipe(cluster, number)
            writing.more()
    require_stored(cluster, [writing.report])


def wipe(cluster: Cluster, number: int) -> None:
    """The broker comes back with an empty directory, as another disk."""
    node = cluster.nodes[number]
    before: Any = node.get(f"/v1/brokers/{number}")["disk_uuid"]
    node.kill()
    node.data_dir.rename(node.data_dir.with_suffix(".lost"))
    node.start()
    cluster.wait_healthy(60.0)
    assert node.get(f"/v1/brokers/{number}")["disk_uuid"] != before
