"""A replica on a slow or full disk leaves elections to others, and delays none when there are no others."""

import pytest

from raftlog.raft.messages import PreVoteRequest, TimeoutNow
from raftlog.raft.ready import Role
from raftlog.raft.settings import RaftSettings
from tests.raft.lone import ONE, TWO, LoneFollower, entry_id

LEAST = RaftSettings().election_ticks_min


def ticks_until_it_campaigns(follower: LoneFollower) -> int:
    for tick in range(1, 20 * LEAST):
        follower.core.tick()
        follower.work()
        if follower.core.role is not Role.FOLLOWER:
            return tick
    pytest.fail("it never campaigns")


def test_a_reluctant_replica_leaves_some_elections_to_others() -> None:
    willing, reluctant = LoneFollower(1), LoneFollower(1)
    reluctant.core.set_unfit(True)
    assert LEAST <= ticks_until_it_campaigns(willing) < 2 * LEAST
    assert 4 * LEAST <= ticks_until_it_campaigns(reluctant) < 8 * LEAST
    assert any(isinstance(said, PreVoteRequest) for said in reluctant.said)


def test_hearing_a_leader_begins_the_patience_again() -> None:
    follower = LoneFollower(1)
    follower.core.set_unfit(True)
    for _ in range(3 * LEAST):
        follower.core.tick()
    follower.append(1, entry_id(1, 1), 1)
    assert ticks_until_it_campaigns(follower) >= 4 * LEAST


def test_a_leader_can_hand_over_to_it_all_the_same() -> None:
    follower = LoneFollower(1)
    follower.core.set_unfit(True)
    follower.append(1, entry_id(1, 1), 1)
    follower.core.step(TimeoutNow(ONE, TWO, follower.core.term))
    assert follower.core.role is Role.CANDIDATE
