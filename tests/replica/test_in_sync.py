"""Voters in sync as shown to operators: with a tolerated lag, and exactly."""

import pytest

from raftlog.partitions.replica.description import voters_in_sync
from raftlog.raft import RaftCore, Status
from tests.raft.cluster import Cluster


@pytest.fixture
def cluster_with_lag() -> Cluster:
    """Return a cluster whose leader 1 and follower 2 committed an entry that follower 3 lacks."""
    cluster = Cluster([1, 2, 3])
    cluster.elect(1)
    cluster.tick(10)
    cluster.isolate(3)
    cluster.propose(1, "a")
    cluster.settle()
    return cluster


def status_of(cluster: Cluster) -> Status:
    core: RaftCore = cluster.core(1)
    return core.status()


def nodes_in_sync(cluster: Cluster, lag_ticks_max: int) -> list[int]:
    return sorted(voter.node_id for voter in voters_in_sync(status_of(cluster), lag_ticks_max))


def test_a_replica_one_commit_behind_is_in_sync_for_a_while(cluster_with_lag: Cluster) -> None:
    assert nodes_in_sync(cluster_with_lag, 0) == [1, 2], "decisions to stop a broker use the exact list"
    assert nodes_in_sync(cluster_with_lag, 3) == [1, 2, 3]
    cluster_with_lag.tick_one(1, 3)
    assert nodes_in_sync(cluster_with_lag, 3) == [1, 2, 3]
    cluster_with_lag.tick_one(1)
    assert nodes_in_sync(cluster_with_lag, 3) == [1, 2]
    assert nodes_in_sync(cluster_with_lag, 4) == [1, 2, 3]


def test_a_replica_in_catch_up_is_out_of_sync_at_once(cluster_with_lag: Cluster) -> None:
    status = status_of(cluster_with_lag)
    fetching = tuple(each._replace(state="catch-up") if each.member.node_id == 3 else each for each in status.followers)
    assert sorted(each.node_id for each in voters_in_sync(status._replace(followers=fetching), 100)) == [1, 2]


def test_a_silent_follower_is_out_of_sync_with_any_tolerance(cluster_with_lag: Cluster) -> None:
    for _ in range(100):
        cluster_with_lag.tick()
    assert nodes_in_sync(cluster_with_lag, 1 << 30) == [1, 2]
