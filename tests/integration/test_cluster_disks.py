"""A disk of one broker that is full, or whose syncs fail: the others go on, and nothing acknowledged is lost."""

import pytest

from raftlog.testing import Cluster, ClusterNode
from tests.integration.cluster_load import Load, check, create_topic
from tests.integration.disk_faults import EIO_ON_SYNC, ENOSPC, failing, need_strace

ENOUGH = 50


def victim(cluster: Cluster, topic: str, *, leads: bool) -> ClusterNode:
    leader = cluster.leader(topic)
    return cluster.nodes[leader if leads else next(number for number in cluster.nodes if number != leader)]


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_syncs_that_fail(cluster: Cluster, topic: str, leads: bool) -> None:
    """The broker ends, because nobody knows what its disk holds; the others go on, and it comes back as it was."""
    need_strace()
    create_topic(cluster.addresses[0], topic)
    node = victim(cluster, topic, leads=leads)
    healthy = [other.http for other in cluster.nodes.values() if other is not node]
    with Load(cluster, topic, addresses=healthy) as ledger:
        ledger.wait_for_more(ENOUGH)
        with failing(node.pid, EIO_ON_SYNC):
            ledger.wait_for_more(ENOUGH)
            assert node.process.wait(10) == 1
        assert "sync" in node.log_text()
        assert cluster.leader(topic, other_than=[node.node_id]) != node.node_id
        node.start()
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()
    check(cluster, ledger)


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_full_disk(cluster: Cluster, topic: str, leads: bool) -> None:
    """Health says so, what cannot be stored is refused, and when there is room again all goes on by itself."""
    need_strace()
    create_topic(cluster.addresses[0], topic)
    node = victim(cluster, topic, leads=leads)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
        with failing(node.pid, ENOSPC, (node.data_dir / topic / "0").iterdir()):
            cluster.wait_unhealthy("disk")
            if not leads:
                ledger.wait_for_more(ENOUGH)
        ledger.wait_for_more(ENOUGH)
    assert not ledger.unknown
    cluster.wait_healthy()
    check(cluster, ledger)
