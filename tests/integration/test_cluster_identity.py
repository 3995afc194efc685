"""Real brokers that lose their disks or return with old ones: no acknowledged write is lost.

Every replica is whole again, byte for byte.

    kill -9, rm -rf, the same command   →   a new disk: learner, then voter, of every Raft group and the controller"""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftlog.cli.log.verbs import verify
from raftlog.testing import BrokerNotReady, Cluster, ClusterNode
from tests.integration.cluster_load import Load, check_stored, create_topic, read_values

ENOUGH = 50
PARTITIONS = 4
SMALL_SEGMENTS = {"segment_bytes": 64 * 1024}


@pytest.fixture
def three(cluster: Cluster, topic: str) -> Cluster:
    """Return the module's cluster with a topic of several partitions."""
    create_topic(cluster.addresses[0], topic, PARTITIONS, **SMALL_SEGMENTS)
    cluster.wait_healthy()
    return cluster


def disk_of(cluster: Cluster, node: int) -> str:
    """Return the disk uuid that the cluster has registered for a node."""
    asked = next(each for each in cluster.nodes.values() if each.is_running)
    return str(next(row["disk_uuid"] for row in asked.get("/v1/brokers") if row["node_id"] == node))


def wipe(node: ClusterNode) -> None:
    node.kill()
    shutil.rmtree(node.data_dir)


def stop_and_compare(cluster: Cluster) -> None:
    """Stop all brokers; check that their files are valid and equal."""
    for node in cluster.nodes.values():
        assert node.stop() == 0
    result = CliRunner().invoke(verify, ["--compare", *(str(node.data_dir) for node in cluster.nodes.values())])
    assert result.exit_code == 0, result.output


def controller_leader(cluster: Cluster) -> int:
    return int(cluster.nodes[1].get("/v1/cluster/health_overview")["controller_id"])


def other_than(cluster: Cluster, *nodes: int) -> int:
    return next(number for number in cluster.nodes if number not in nodes)


OTHERS = ("the controller's leader", "a follower")


@pytest.mark.parametrize(
    "which",
    ["the leader", *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)],
)
def test_a_wiped_disk_is_replaced_under_load(three: Cluster, topic: str, which: str) -> None:
    with Load(three, topic, partitions=PARTITIONS) as ledger:
        ledger.wait_for_more(ENOUGH)
        controller, leader = controller_leader(three), three.leader(topic)
        number = {"the leader": leader, "the controller's leader": controller}.get(which, other_than(three, leader))
        before = disk_of(three, number)
        wipe(three.nodes[number])
        ledger.wait_for_more(ENOUGH)
        three.nodes[number].launch()
        three.nodes[number].wait_ready()
        three.wait_healthy()
        ledger.wait_for_more(ENOUGH)
    assert disk_of(three, number) != before
    check_stored(three, ledger, PARTITIONS)
    stop_and_compare(three)


@pytest.mark.slow
def test_no_record_is_lost_when_each_disk_is_lost_once(three: Cluster, topic: str) -> None:
    """The disks are lost one after another; afterwards no record was on any of the first disks."""
    with Load(three, topic, partitions=PARTITIONS) as ledger:
        for node in three.nodes.values():
            ledger.wait_for_more(ENOUGH)
            wipe(node)
            node.start()
            three.wait_healthy()
        ledger.wait_for_more(ENOUGH)
    check_stored(three, ledger, PARTITIONS)
    stop_and_compare(three)


def test_an_old_copy_of_a_disk_is_treated_as_another_disk(three: Cluster, topic: str, tmp_path: Path) -> None:
    """An old copy of a disk is recognised even if only the disks hold the evidence.

    The process reports it, takes another disk uuid by itself, and keeps the old files aside."""
    node = three.nodes[3]
    with Load(three, topic, partitions=PARTITIONS) as ledger:
        ledger.wait_for_more(ENOUGH)
        node.kill()
        shutil.copytree(node.data_dir, tmp_path / "copy")
        node.start()
        before = disk_of(three, 3)
        ledger.wait_for_more(ENOUGH)
        for each in three.nodes.values():
            each.kill()
        shutil.rmtree(node.data_dir)
        shutil.move(tmp_path / "copy", node.data_dir)
        for each in three.nodes.values():
            each.launch()
        three.wait_healthy()
        ledger.wait_for_more(ENOUGH)
    assert disk_of(three, 3) != before
    assert "runs in two processes" in node.log_text(), "it has the boot epoch of the life that was lost with the disk"
    assert (node.data_dir / ".raftlog" / "damaged" / f"journal-{before}").is_dir()
    assert sorted(each.name for each in (node.data_dir / ".raftlog" / "unknown").iterdir()), "its old groups are kept"
    check_stored(three, ledger, PARTITIONS)
    stop_and_compare(three)


@pytest.mark.slow
def test_a_replaced_disk_does_not_return(three: Cluster, topic: str, tmp_path: Path) -> None:
    """The old disk returns neither under its own identity nor in place of its successor."""
    node = three.nodes[2]
    with Load(three, topic, partitions=PARTITIONS) as ledger:
        ledger.wait_for_more(ENOUGH)
        node.kill()
        shutil.move(node.data_dir, tmp_path / "old")
        node.start()
        three.wait_healthy()
        ledger.wait_for_more(ENOUGH)
        wipe(node)
        shutil.move(tmp_path / "old", node.data_dir)
        with pytest.raises(BrokerNotReady, match="went to the disk"):
            node.start()
        assert "was replaced or removed" in node.log_text()
        wipe(node)
        node.start()
        three.wait_healthy()
        ledger.wait_for_more(ENOUGH)
    check_stored(three, ledger, PARTITIONS)
    stop_and_compare(three)


def test_a_partition_whose_only_disk_is_lost_waits_for_an_operator(raftlog_cluster: Cluster) -> None:
    three = raftlog_cluster
    create_topic(three.addresses[0], "alone", 3, copies=1)
    with Load(three, "alone", partitions=3) as ledger:
        ledger.wait_for_more(ENOUGH)
    lost = next(partition for partition in range(3) if three.leader("alone", partition) == 3)
    kept = [partition for partition in range(3) if partition != lost]
    before = {partition: read_values(three.addresses[0], "alone", partition) for partition in kept}
    wipe(three.nodes[3])
    three.nodes[3].start()
    reasons = three.wait_unhealthy(f"alone/{lost}: no broker that answers has a replica of it")
    assert any("1 partitions have no leader" in reason for reason in reasons)
    described = three.nodes[1].get(f"/v1/partitions/kafka/alone/{lost}")
    assert "raftlog partition recover" in described["problem"]
    assert described["leader_id"] == -1
    assert {partition: read_values(three.addresses[2], "alone", partition) for partition in kept} == before
    three.nodes[3].restart()
    three.wait_unhealthy(f"alone/{lost}: no broker that answers has a replica of it")
