"""Changes of leaders: counters and log events."""

import logging
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.partitions.node.leader_statistics import LeaderStatistics
from raftlog.raft import ReplicaId, Role
from raftlog.raft.ready import RoleState
from raftlog.runtime.log.replica_directory import CONTROLLER
from raftlog.types import NodeId, Term

ME, OTHER = (ReplicaId(NodeId(number), uuid.UUID(int=number)) for number in (1, 2))
GROUP: Any = SimpleNamespace(key=b"k", name="t/0")


def make_state(role: Role, term: int, leader: ReplicaId | None = None) -> RoleState:
    return RoleState(role, Term(term), leader, "because")


def zero_clock() -> float:
    return 0.0


def note_state(turnover: LeaderStatistics, what: RoleState) -> None:
    turnover.record_change(GROUP, what, is_handed_over=False)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, "raftlog")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_won_election_and_a_lost_leadership_are_counted_and_logged(
    logged: Any, caplog: pytest.LogCaptureFixture
) -> None:
    turnover = LeaderStatistics(zero_clock)
    note_state(turnover, make_state(Role.PRE_CANDIDATE, 1))
    note_state(turnover, make_state(Role.CANDIDATE, 2))
    assert (turnover.elections_started, turnover.elections_won, turnover.elections_lost) == (1, 0, 0)
    note_state(turnover, make_state(Role.LEADER, 2, ME))
    note_state(turnover, make_state(Role.FOLLOWER, 3, OTHER))
    assert (turnover.elections_started, turnover.elections_won, turnover.elections_lost) == (1, 1, 0)
    assert turnover.leader_changes == 1
    assert logged() == ["leader_elected", "leadership_lost"]
    elected, lost = caplog.records
    assert (elected.group, elected.term, elected.why) == ("t/0", 2, "because")  # type: ignore[attr-defined]
    assert (lost.group, lost.term, lost.leader) == ("t/0", 3, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize("after", [Role.FOLLOWER, Role.PRE_CANDIDATE])
def test_a_lost_election_is_counted(logged: Any, after: Role) -> None:
    turnover = LeaderStatistics(zero_clock)
    note_state(turnover, make_state(Role.CANDIDATE, 2))
    note_state(turnover, make_state(after, 2))
    assert (turnover.elections_started, turnover.elections_won, turnover.elections_lost) == (1, 0, 1)
    assert logged() == []


def test_successive_elections_are_all_counted() -> None:
    turnover = LeaderStatistics(zero_clock)
    note_state(turnover, make_state(Role.CANDIDATE, 2))
    note_state(turnover, make_state(Role.CANDIDATE, 3))
    assert (turnover.elections_started, turnover.elections_lost) == (2, 1)
    alone = LeaderStatistics(zero_clock)
    note_state(alone, make_state(Role.LEADER, 1, ME))
    assert (alone.elections_started, alone.elections_won) == (1, 1)


def test_the_return_of_the_same_leader_is_no_change(logged: Any) -> None:
    turnover = LeaderStatistics(zero_clock)
    for term, leader in ((1, OTHER), (2, None), (3, OTHER)):
        note_state(turnover, make_state(Role.FOLLOWER, term, leader))
    assert turnover.leader_changes == 0
    turnover.forget(GROUP.key)
    note_state(turnover, make_state(Role.FOLLOWER, 4, ME))
    assert turnover.leader_changes == 0, "a group that begins anew had no leader"


def test_each_broker_logs_a_change_of_the_controllers_leader(logged: Any) -> None:
    turnover = LeaderStatistics(zero_clock)
    group: Any = SimpleNamespace(key=b"0", name=CONTROLLER)
    for term, leader in ((1, OTHER), (2, None), (3, OTHER), (4, ME)):
        turnover.record_change(group, make_state(Role.FOLLOWER, term, leader), is_handed_over=False)
    assert logged() == ["controller_leader_changed"] * 2


def test_the_time_without_a_leader_is_measured() -> None:
    now = [10.0]
    turnover = LeaderStatistics(lambda: now[0])
    group: Any = SimpleNamespace(key=b"k", name="t/0", core=SimpleNamespace(leader=None))
    now[0] = 12.0
    assert turnover.leaderless_s(group) == 2.0, "no leader since the start"
    turnover.record_change(group, make_state(Role.FOLLOWER, 1), is_handed_over=False)
    for _ in range(3):  # elections without a winner do not restart the time
        now[0] += 0.5
        turnover.record_change(group, make_state(Role.CANDIDATE, 2), is_handed_over=False)
    assert turnover.leaderless_s(group) == 1.5
    turnover.record_change(group, make_state(Role.FOLLOWER, 3, OTHER), is_handed_over=False)
    group.core.leader = OTHER
    assert turnover.leaderless_s(group) == 0.0
    now[0] = 20.0
    group.core.leader = None
    turnover.record_change(group, make_state(Role.FOLLOWER, 4), is_handed_over=False)
    now[0] = 21.0
    assert turnover.leaderless_s(group) == 1.0
    turnover.forget(group.key)
    assert turnover.leaderless_s(group) == 11.0


def test_a_leadership_transfer_is_logged_as_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "raftlog")
    turnover = LeaderStatistics(zero_clock)
    note_state(turnover, make_state(Role.LEADER, 1, ME))
    turnover.record_change(GROUP, make_state(Role.FOLLOWER, 2), is_handed_over=True)
    assert caplog.records[-1].why == "handed over"  # type: ignore[attr-defined]
