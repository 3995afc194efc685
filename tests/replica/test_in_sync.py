"""Voters in sync as operators see them: by the time that they are behind, and exactly."""

import pytest

from raftlog.partitions.replica.description import voters_in_sync
from raftlog.raft import RaftCore, Status
from tests.raft.cluster import Cluster


@pytest.fixture
def one_behind() -> Cluster:
    """Return a cluster whose leader 1 and follower 2 have committed an entry that follower 3 lacks."""
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


def in_sync(cluster: Cluster, lag_ticks_max: int) -> list[int]:
    return sorted(voter.node_id for voter in voters_in_sync(status_of(cluster), lag_ticks_max))


def test_one_commit_behind_is_in_sync_for_a_while(one_behind: Cluster) -> None:
    assert in_sync(one_behind, 0) == [1, 2], "what is stopped is decided by this"
    assert in_sync(one_behind, 3) == [1, 2, 3]
    one_behind.tick_one(1, 3)
    assert in_sync(one_behind, 3) == [1, 2, 3]
    one_behind.tick_one(1)
    assert in_sync(one_behind, 3) == [1, 2]
    assert in_sync(one_behind, 4) == [1, 2, 3]


def test_one_that_fetches_what_it_lacks_is_out_of_sync_at_once(one_behind: Cluster) -> None:
    status = status_of(one_behind)
    fetching = tuple(each._replace(state="catch-up") if each.member.node_id == 3 else each for each in status.followers)
    assert sorted(each.node_id for each in voters_in_sync(status._replace(followers=fetching), 100)) == [1, 2]


def test_a_silent_follower_is_out_of_sync_with_any_time_left(one_behind: Cluster) -> None:
    for _ in range(100):
        one_behind.tick()
    assert in_sync(one_behind, 1 << 30) == [1, 2]
