"""Broker with a disk whose syncs fail or are slow, or that refuses writes (F11, F18, F19, R42).

The others continue, and no acknowledged write is lost. The faults are injected by strace, so they affect
only this broker and end when the block ends."""

import time
from collections.abc import Iterator

import pytest

from jepsen.system_calls import FULL, inject, one_failing_sync, slow_syncs, unsupported_reason
from raftlog.testing import Cluster, ClusterNode
from tests.integration.cluster_load import Load, check_stored, create_topic

ENOUGH = 50
SYNC_S = 8.0
SLOW_FOR_S = 4.0
RESUMED_S_MAX = 6.0
"""Far less than a sync takes, far more than it should be on a machine that does nothing else (`bench/slow_disk`)."""
EXIT_S_MAX = 30.0


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Provide brokers whose syncs strace can trace: the end of an AIO sync is no system call."""
    with Cluster(3, serve_flags=["--sync-method", "threads"]) as cluster:
        cluster.wait_healthy()
        yield cluster


@pytest.fixture(autouse=True)
def _require_strace() -> None:
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)


def choose_victim(cluster: Cluster, topic: str, *, leads: bool) -> ClusterNode:
    leader = cluster.leader(topic)
    return cluster.nodes[leader if leads else next(number for number in cluster.nodes if number != leader)]


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_broker_with_a_failed_sync_exits_and_returns(cluster: Cluster, topic: str, leads: bool) -> None:
    """The broker exits because the content of its disk is unknown; the others continue, and it returns unchanged."""
    create_topic(cluster.addresses[0], topic)
    node = choose_victim(cluster, topic, leads=leads)
    healthy = [other.http for other in cluster.nodes.values() if other is not node]
    with Load(cluster, topic, addresses=healthy) as ledger:
        ledger.wait_for_more(ENOUGH)
        with inject(node.pid, one_failing_sync()):
            ledger.wait_for_more(ENOUGH)
            assert node.wait(EXIT_S_MAX) == 1
        # The sync may also be that of a small file, beside the journal's.
        assert any(words in node.log_text() for words in ("a sync failed", "the content of the disk is unknown"))
        assert "Input/output error" in node.log_text()
        assert cluster.leader(topic, other_than=[node.node_id]) != node.node_id
        node.start()
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()
    check_stored(cluster, ledger)


def test_a_leader_with_slow_syncs_is_replaced(cluster: Cluster, topic: str) -> None:
    """Another broker leads within the bound and while the disk is slow; no write has an unknown outcome."""
    create_topic(cluster.addresses[0], topic)
    node = choose_victim(cluster, topic, leads=True)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
        slow_at = time.monotonic()
        with inject(node.pid, slow_syncs(SYNC_S)):
            cluster.leader(topic, other_than=[node.node_id])
            ledger.wait_for_more(ENOUGH)
            cluster.wait_unhealthy(f"node {node.node_id}: its disk or its loop is stalled")
            while time.monotonic() < slow_at + SLOW_FOR_S:
                ledger.wait_for_more(ENOUGH)
                assert cluster.leader(topic) != node.node_id
        ledger.wait_for_more(ENOUGH)
        assert ledger.longest_pause_s(slow_at) < RESUMED_S_MAX
    assert not ledger.unknown
    check_stored(cluster, ledger)


def test_slow_syncs_of_a_follower_do_not_slow_writes(cluster: Cluster, topic: str) -> None:
    """Writes continue at the speed of the majority."""
    create_topic(cluster.addresses[0], topic)
    node = choose_victim(cluster, topic, leads=False)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
        slow_at = time.monotonic()
        with inject(node.pid, slow_syncs(SYNC_S)):
            while time.monotonic() < slow_at + SLOW_FOR_S:
                ledger.wait_for_more(ENOUGH)
            assert cluster.leader(topic) != node.node_id
        assert ledger.longest_pause_s(slow_at) < RESUMED_S_MAX
    check_stored(cluster, ledger)


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_disk_that_refuses_writes_despite_free_space_counts_as_full(
    cluster: Cluster, topic: str, leads: bool
) -> None:
    """The file system reports free space, but every write fails.

    As with a full disk, health reports it, brokers with space continue, and afterwards all is as before."""
    create_topic(cluster.addresses[0], topic)
    node = choose_victim(cluster, topic, leads=leads)
    with Load(cluster, topic) as ledger:
        ledger.wait_for_more(ENOUGH)
        with inject(node.pid, FULL, (node.data_dir / topic / "0").iterdir()):
            cluster.wait_unhealthy("disk")
            ledger.wait_for_more(ENOUGH)
            assert cluster.leader(topic) != node.node_id
        ledger.wait_for_more(ENOUGH)
    assert not ledger.unknown
    cluster.wait_healthy()
    check_stored(cluster, ledger)
