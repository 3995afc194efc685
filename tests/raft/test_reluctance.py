"""A replica on a slow or full disk campaigns late, and delays no election when there are no other candidates."""

import pytest

from raftlog.raft.messages import PreVoteRequest, TimeoutNow
from raftlog.raft.ready import Role
from raftlog.raft.settings import RaftSettings
from tests.raft.lone import ONE, TWO, LoneFollower, entry_id

LEAST = RaftSettings().election_ticks_min


def ticks_until_campaign(follower: LoneFollower) -> int:
    for tick in range(1, 20 * LEAST):
        follower.core.tick()
        follower.handle_readys()
        if follower.core.role is not Role.FOLLOWER:
            return tick
    pytest.fail("it never campaigns")


def test_an_unfit_replica_campaigns_later() -> None:
    fit, unfit = LoneFollower(1), LoneFollower(1)
    unfit.core.set_unfit(True)
    assert LEAST <= ticks_until_campaign(fit) < 2 * LEAST
    assert 4 * LEAST <= ticks_until_campaign(unfit) < 8 * LEAST
    assert any(isinstance(said, PreVoteRequest) for said in unfit.sent)


def test_a_message_of_a_leader_restarts_the_delay() -> None:
    follower = LoneFollower(1)
    follower.core.set_unfit(True)
    for _ in range(3 * LEAST):
        follower.core.tick()
    follower.append(1, entry_id(1, 1), 1)
    assert ticks_until_campaign(follower) >= 4 * LEAST


def test_a_leader_can_transfer_leadership_to_an_unfit_replica() -> None:
    follower = LoneFollower(1)
    follower.core.set_unfit(True)
    follower.append(1, entry_id(1, 1), 1)
    follower.core.step(TimeoutNow(ONE, TWO, follower.core.term))
    assert follower.core.role is Role.CANDIDATE
