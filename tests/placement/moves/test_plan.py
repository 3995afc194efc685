"""Moves between any two assignments, step by step: every step is legal, and the last one reaches the target."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.partitions.placement.moves.plan import matches_assignment, next_change
from raftlog.raft import Configuration, ReplicaId
from raftlog.raft.configuration import change_error
from raftlog.raft.quorum import has_quorum
from raftlog.types import Index, NodeId


def replica(node: int, disk: int = 0) -> ReplicaId:
    return ReplicaId(NodeId(node), UUID(int=100 * node + disk))


ONE, TWO, THREE, FOUR = (replica(number) for number in (1, 2, 3, 4))
NEW_THREE = replica(3, 1)
ALL = (ONE, TWO, THREE, FOUR, NEW_THREE)
OLD = Configuration(Index(5), (ONE, TWO, THREE))


def take_step(configuration: Configuration, **how: object) -> Configuration:
    """Return the configuration after the next step, its joint phase included."""
    change = next_change(configuration, **how)  # type: ignore[arg-type]
    assert change is not None
    assert change.replaces_index == configuration.index
    assert change_error(change) is None
    after = configuration.begin_change(change, Index(configuration.index + 1))
    return after.leave_joint(Index(after.index + 1)) if after.is_joint else after


def test_a_replacing_disk_learns_and_then_replaces_the_old_voter() -> None:
    wanted = (NEW_THREE, ONE, TWO)
    there = (ONE, TWO, NEW_THREE)
    learning = take_step(OLD, wanted=wanted, own_id=ONE, reachable=there, near=())
    assert (learning.voters, learning.learners) == ((ONE, TWO, THREE), (NEW_THREE,))
    assert next_change(learning, wanted, own_id=ONE, reachable=there, near=()) is None, "it does not hold enough yet"
    done = take_step(learning, wanted=wanted, own_id=ONE, reachable=there, near=(NEW_THREE,))
    assert matches_assignment(done, wanted)
    assert next_change(done, wanted, own_id=ONE, reachable=there, near=(NEW_THREE,)) is None


def test_no_replica_is_removed_before_its_successor_is_added() -> None:
    wanted = (ONE, TWO, FOUR)
    assert next_change(OLD, wanted, own_id=ONE, reachable=(ONE, TWO, THREE), near=()) is None, "4 cannot be reached"
    assert next_change(OLD, wanted, own_id=ONE, reachable=ALL, near=(), may_begin=False) is None
    assert next_change(OLD, wanted, own_id=ONE, reachable=ALL, near=()) is not None


def test_absent_replicas_are_removed_first_and_the_leader_last() -> None:
    steps, configuration = [], Configuration(Index(5), (ONE, TWO, THREE))
    while not matches_assignment(configuration, (FOUR,)):
        near = configuration.learners
        configuration = take_step(configuration, wanted=(FOUR,), own_id=ONE, reachable=(ONE, TWO, FOUR), near=near)
        steps.append(configuration.voters)
    assert steps == [(ONE, TWO, THREE), (ONE, TWO, FOUR), (ONE, FOUR), (FOUR,)]


def test_a_leaving_leader_is_not_replaced_before_another_can_take_over() -> None:
    alone = Configuration(Index(5), (ONE,), (FOUR,))
    both = take_step(alone, wanted=(FOUR,), own_id=ONE, reachable=ALL, near=(FOUR,))
    assert both.voters == (ONE, FOUR)
    assert take_step(both, wanted=(FOUR,), own_id=FOUR, reachable=ALL, near=()).voters == (FOUR,)


def test_no_step_is_planned_in_a_joint_configuration() -> None:
    joint = Configuration(Index(5), (ONE, TWO), (), (ONE, TWO, THREE))
    assert next_change(joint, (ONE, TWO), own_id=ONE, reachable=ALL, near=ALL) is None


def test_a_learner_that_is_no_longer_wanted_is_removed() -> None:
    learning = Configuration(Index(5), (ONE, TWO, THREE), (FOUR,))
    assert take_step(learning, wanted=(ONE, TWO, THREE), own_id=ONE, reachable=ALL, near=ALL).learners == ()


def test_a_stopped_learner_delays_no_other() -> None:
    learning = Configuration(Index(5), (ONE, TWO), (FOUR,))
    after = take_step(
        learning, wanted=(ONE, TWO, FOUR, NEW_THREE), own_id=ONE, reachable=(ONE, TWO, NEW_THREE), near=()
    )
    assert after.learners == (NEW_THREE, FOUR)


def test_no_replica_needed_for_a_reachable_quorum_is_removed() -> None:
    there = (ONE, THREE)
    for wanted in ((ONE, TWO), (TWO,)):
        assert next_change(OLD, wanted, own_id=ONE, reachable=there, near=()) is None, "2 is away"
    assert take_step(OLD, wanted=(ONE, THREE), own_id=ONE, reachable=there, near=()).voters == (ONE, THREE)
    four = Configuration(Index(5), (ONE, TWO, THREE, FOUR))
    assert next_change(four, (ONE, TWO), own_id=ONE, reachable=(ONE, FOUR), near=()) is not None, "3 is away as well"


one_per_node = st.lists(st.sampled_from(ALL), min_size=1, max_size=4, unique_by=lambda each: each.node_id)


def random_replicas(random: Random) -> tuple[ReplicaId, ...]:
    return tuple(random.sample(ALL, random.randrange(len(ALL) + 1)))


@given(one_per_node, one_per_node, st.integers(0, 1 << 32))
def test_every_sequence_of_steps_is_legal_and_ends(begin: list[ReplicaId], wanted: list[ReplicaId], seed: int) -> None:
    """Any voter leads, and any replicas are stopped or slow for a while; in the end all are up."""
    random = Random(seed)
    configuration = Configuration(Index(1), tuple(sorted(begin)))
    least = min(len(begin), len(wanted))
    for step in range(60):
        is_stable = step > 20
        reachable = ALL if is_stable else random_replicas(random)
        near = configuration.all_members() if is_stable else random_replicas(random)
        me = random.choice(configuration.voters)
        change = next_change(configuration, wanted, own_id=me, reachable=reachable, near=near)
        if change is None:
            continue
        assert change_error(change) is None
        before, configuration = configuration, configuration.begin_change(change, Index(configuration.index + 1))
        if configuration.is_joint:
            configuration = configuration.leave_joint(Index(configuration.index + 1))
        assert len(configuration.voters) >= least
        gone, new = set(before.voters) - set(configuration.voters), set(configuration.voters) - set(before.voters)
        assert len(gone) <= 1
        assert len(new) <= 1
        assert not gone & set(wanted)
        if gone and {each.node_id for each in gone} != {each.node_id for each in new}:
            assert has_quorum(configuration, {*reachable, *new})
        assert new <= set(before.learners) & set(near)
    assert matches_assignment(configuration, wanted)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_reached_assignment_is_left_alone(count: int) -> None:
    configuration = Configuration(Index(3), (ONE, TWO, THREE)[:count])
    assert next_change(configuration, configuration.voters, own_id=ONE, reachable=ALL, near=ALL) is None
