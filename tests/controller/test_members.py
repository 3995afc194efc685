"""Raft configuration of the controller while brokers join, drain and leave, and transfers of its leadership."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from raftlog.partitions.controller.machine import RemoveBroker
from raftlog.partitions.controller.members import next_change, transfer_target_of
from raftlog.raft import Configuration, ReplicaId
from raftlog.raft.configuration import change_error
from raftlog.types import Index, NodeId
from tests.placement.balancing.cluster import Controller, replica

CAUGHT_UP = 64


def group(
    voters: Sequence[int], learners: Sequence[int] = (), behind: Sequence[int] = (), away: Sequence[int] = ()
) -> Any:
    """Return a leader's replica of the controller; all members are active and caught up unless listed.

    The first voter is the leader."""
    members = [replica(node) for node in (*voters, *learners)]
    followers = [
        SimpleNamespace(
            member=each,
            is_active=each.node_id not in away,
            match_index=1 if each.node_id in behind else 1_000 + each.node_id,
        )
        for each in members
    ]
    core = SimpleNamespace(
        configuration=Configuration(Index(5), tuple(map(replica, voters)), tuple(map(replica, learners))),
        committed_index=1_000,
        is_quiesced=False,
        status=lambda: SimpleNamespace(me=members[0], followers=followers),
    )
    return SimpleNamespace(core=core)


def cluster(brokers: int, draining: Sequence[int] = (), seeds: int = 3) -> Controller:
    controller = Controller(brokers=brokers, seeds=seeds)
    for node in draining:
        controller.drain(node)
    return controller


def next_voters_and_learners(
    group_of_now: Any, controller: Controller, gone: Sequence[int] = ()
) -> tuple[list[int], list[int]] | None:
    change = next_change(group_of_now, controller.state, CAUGHT_UP, lambda node: node not in gone)
    if change is None:
        return None
    assert change_error(change) is None
    return sorted(each.node_id for each in change.voters), sorted(each.node_id for each in change.learners)


def test_a_correct_configuration_is_not_changed() -> None:
    assert next_voters_and_learners(group([1, 2, 3, 4]), cluster(4)) is None


def test_a_draining_broker_becomes_only_a_learner() -> None:
    assert next_voters_and_learners(group([1, 2, 3, 4]), cluster(4, [2])) == ([1, 3, 4], [2])
    assert next_voters_and_learners(group([1, 3, 4], [2]), cluster(4, [2])) is None
    assert next_voters_and_learners(group([1, 3, 4], [2]), cluster(4)) == ([1, 2, 3, 4], []), "it stays after all"


def test_another_broker_votes_in_place_of_a_draining_one() -> None:
    six = cluster(6, [2])
    assert next_voters_and_learners(group([1, 2, 3, 4, 5], [6]), six) == ([1, 3, 4, 5, 6], [2])


def test_a_draining_broker_votes_until_its_successor_has_caught_up() -> None:
    four = cluster(4, [2])
    assert next_voters_and_learners(group([1, 2, 3], [4], behind=[4]), four) is None, "4 does not hold enough yet"
    assert next_voters_and_learners(group([1, 2, 3], [4]), four) == ([1, 3, 4], [2])


def test_there_are_fewer_voters_when_fewer_brokers_stay() -> None:
    three = cluster(3, [3])
    assert next_voters_and_learners(group([1, 2, 3]), three) == ([1, 2], [3])
    three.apply(RemoveBroker(NodeId(3), replica(3).disk_uuid))
    assert next_voters_and_learners(group([1, 2], [3]), three) == ([1, 2], [])


def test_a_draining_voter_stays_while_the_live_voters_need_it() -> None:
    three = cluster(3, [3])
    assert next_voters_and_learners(group([1, 2, 3], away=[2]), three) is None, "1 alone could commit nothing"
    assert next_voters_and_learners(group([1, 2, 3]), three, gone=[2]) is None, "the group has not missed it yet"
    four = cluster(4, [3])
    assert next_voters_and_learners(group([1, 2, 3], [4], away=[2]), four) == ([1, 2, 4], [3])
    assert next_voters_and_learners(group([1, 2, 3], [4], away=[2, 4]), four) is None


def test_stopped_brokers_lose_their_vote_first() -> None:
    assert next_voters_and_learners(group([1, 2, 3], away=[3]), cluster(3, [2, 3])) == ([1, 2], [3])


def test_the_last_broker_votes_although_it_drains() -> None:
    assert next_voters_and_learners(group([1]), cluster(1, [1], seeds=1)) is None


def transfer_target(group_of_now: Any, controller: Controller, me: int) -> ReplicaId | None:
    change = next_change(group_of_now, controller.state, CAUGHT_UP, lambda node: True)
    assert change is not None
    return transfer_target_of(group_of_now, change, replica(me))


def test_a_leader_transfers_to_a_staying_voter_before_it_stops_voting() -> None:
    controller = cluster(4, [2])
    assert transfer_target(group([1, 2, 3, 4]), controller, 2) == replica(4), "who holds most"
    assert transfer_target(group([1, 2, 3, 4], behind=[4]), controller, 2) == replica(3)
    assert transfer_target(group([1, 2, 3, 4]), controller, 1) is None, "it stays"
