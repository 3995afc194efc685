"""Configurations: results of changes, invalid changes, and the history compared with a naive twin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.raft.configuration import (
    NO_CONFIGURATION,
    Configuration,
    ConfigurationChange,
    ConfigurationHistory,
    change_error,
)
from raftlog.raft.ready import Accepted, RefusalReason, RefusedProposal, Role
from raftlog.types import Index
from tests.raft.cluster import Cluster, configuration, replica_id

_A, _B, _C, _D = (replica_id(number) for number in (1, 2, 3, 4))


def test_a_change_of_voters_is_joint_and_one_of_learners_is_not() -> None:
    current = configuration([1, 2, 3])
    joint = current.begin_change(ConfigurationChange((_D, _B, _A), (_C,), Index(0)), Index(5))
    assert joint == Configuration(Index(5), (_A, _B, _D), (_C,), (_A, _B, _C))
    assert joint.is_joint
    assert joint.all_voters() == (_A, _B, _C, _D)
    assert joint.leave_joint(Index(6)) == Configuration(Index(6), (_A, _B, _D), (_C,))
    assert not current.begin_change(ConfigurationChange((_A, _B, _C), (_D,), Index(0)), Index(5)).is_joint


@pytest.mark.parametrize(
    ("voters", "learners"),
    [
        ((), (_A,)),
        ((_A, _A), ()),
        ((_A, _B), (_C, _C)),
        ((_A, _B), (_B,)),
        ((_A, _A._replace(disk_uuid=_B.disk_uuid)), ()),
    ],
)
def test_invalid_configurations_are_refused(voters: tuple, learners: tuple) -> None:
    assert change_error(ConfigurationChange(voters, learners, Index(0)))


def test_a_new_disk_of_a_node_may_learn_before_it_replaces_the_old_one() -> None:
    """R33: a wiped disk is a new member: first a learner beside the old one, then a voter in its place."""
    wiped = _A._replace(disk_uuid=_D.disk_uuid)
    assert change_error(ConfigurationChange((_A, _B, _C), (wiped,), Index(0))) is None
    assert change_error(ConfigurationChange((wiped, _B, _C), (), Index(0))) is None


class _Twin:
    """All configurations so far by index, and the rule as plain code."""

    def __init__(self) -> None:
        self.log: dict[int, Configuration] = {}

    def current(self) -> Configuration:
        return self.log[max(self.log)] if self.log else NO_CONFIGURATION


@given(st.lists(st.tuples(st.sampled_from(["append", "cut", "commit"]), st.integers(0, 5)), max_size=60))
def test_history_equals_a_naive_twin(steps: list[tuple[str, int]]) -> None:
    history, twin = ConfigurationHistory(()), _Twin()
    last = committed = 0
    for what, amount in steps:
        if what == "append":
            last += amount + 1
            appended = Configuration(Index(last), (replica_id(last),))
            history.append(appended)
            twin.log[last] = appended
        elif what == "cut":
            last = max(committed, last - amount)
            before = twin.current()
            twin.log = {index: known for index, known in twin.log.items() if index <= last}
            assert history.roll_back_to(Index(last)) == (twin.current() != before)
        else:
            committed = min(last, committed + amount)
            history.commit_to(Index(committed))
        assert history.current == twin.current()
        possible = [known for index, known in twin.log.items() if index > committed]
        base = max((known for index, known in twin.log.items() if index <= committed), default=NO_CONFIGURATION)
        for number in range(1, last + 1):
            member = replica_id(number)
            assert history.may_be_voter(member) == any(known.has_voter(member) for known in (base, *possible))


_numbers = st.sets(st.integers(1, 5), min_size=1)


@given(st.lists(st.tuples(_numbers, st.sets(st.integers(1, 5))), min_size=1, max_size=6))
def test_a_change_ends_in_the_requested_configuration(changes: list[tuple[set[int], set[int]]]) -> None:
    """Each sequence of completed changes ends with the last members, and the group accepts writes."""
    cluster = Cluster([1, 2, 3], [4, 5])
    leader = cluster.elect(1)
    for voters, candidates in changes:
        learners = candidates - voters
        outcome = cluster.change(leader.me.node_id, sorted(voters), sorted(learners))
        assert isinstance(outcome, Accepted), outcome
        cluster.settle()
        for _ in range(60):
            found = cluster.leader()
            if found and not found.core.configuration.is_joint and found.core.has_own_term_commit:
                break
            cluster.tick()
        assert found is not None
        leader = found
        wanted = (tuple(map(replica_id, sorted(voters))), tuple(map(replica_id, sorted(learners))))
        assert (leader.core.configuration.voters, leader.core.configuration.learners) == wanted
        assert leader.me in leader.core.configuration.voters
        accepted = cluster.propose(leader.me.node_id, "x")
        assert isinstance(accepted, Accepted)
        cluster.settle()
        assert leader.core.committed_index >= accepted.last_index
        assert all(cluster[number].core.committed_index >= accepted.last_index for number in voters | learners)


def test_changes_are_refused_with_a_reason() -> None:
    cluster = Cluster([1, 2, 3])
    assert _reason_of(cluster.change(1, [1, 2])) is RefusalReason.NOT_LEADER
    cluster.elect(1)
    assert _reason_of(cluster.change(1, [])) is RefusalReason.INVALID_CHANGE
    assert _reason_of(cluster.change(1, [1, 2], replaces=7)) is RefusalReason.STALE_CHANGE
    assert isinstance(cluster.change(1, [1, 2, 3], [4]), Accepted)
    assert _reason_of(cluster.change(1, [1, 2, 3], [5])) is RefusalReason.CHANGE_PENDING
    cluster.settle()
    assert isinstance(cluster.change(1, [1, 2], [4]), Accepted)
    cluster.settle()
    assert cluster.core(1).role is Role.LEADER
    assert not cluster.core(1).configuration.is_joint


def _reason_of(outcome: Accepted | RefusedProposal) -> RefusalReason | None:
    return outcome.reason if isinstance(outcome, RefusedProposal) else None
