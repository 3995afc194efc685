"""Violations in Raft configurations: changes without a request, and leaders deposed by replicas without a vote."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from jepsen.simulation.brokers.membership_check import GRACE_NS, MembershipCheck
from jepsen.simulation.properties import GroupProperties, Replica
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import GroupName, SetAssignment, UpdateBroker
from raftlog.raft import Configuration, Entry, EntryKind, ReplicaId
from raftlog.types import Index, Term
from tests.controller.machine.fleet import create, disk_uuid, make_cluster, topic_id

NAME = GroupName(topic_id(1), 0)
KEY = NAME.group_id.bytes
CONTROLLER = UUID(int=99)
LEADER = Replica(ReplicaId(1, disk_uuid(1)), 1)


def replicas(*nodes: int) -> tuple[ReplicaId, ...]:
    return tuple(ReplicaId(node, disk_uuid(node)) for node in nodes)


def entry(index: int, voters: tuple[int, ...], learners: tuple[int, ...] = (), outgoing: tuple[int, ...] = ()) -> Entry:
    members = Configuration(Index(index), replicas(*voters), replicas(*learners), replicas(*outgoing))
    return Entry(Index(index), Term(2), EntryKind.CONFIGURATION, 0, b"", members)


class World:
    """Topic on brokers 1, 2, 3 of four, with a leader on broker 1 that knows the requests."""

    def __init__(self) -> None:
        self.scribe = make_cluster(4)
        self.scribe.apply(create("orders", 1, (1, 2, 3)))
        self.orders = MembershipCheck()
        self.orders.on_open(LEADER, cast(ControllerHost, SimpleNamespace(state=self.scribe.state, group_id=CONTROLLER)))
        self.orders.on_state(LEADER)

    def assign(self, *nodes: int) -> None:
        version = self.scribe.state.assignment(NAME).version
        self.scribe.apply(SetAssignment(NAME.topic_id, 0, replicas(*nodes), version))
        self.orders.on_state(LEADER)

    def change(self, before: Entry, after: Entry, key: bytes = KEY) -> None:
        assert before.configuration is not None
        self.orders.on_change(key, "orders/0", LEADER, before.configuration, after, 0)


def test_requested_members_are_no_violation() -> None:
    world = World()
    world.assign(1, 2, 4)
    world.change(entry(1, (1, 2, 3)), entry(2, (1, 2, 3), (4,)))
    world.change(entry(2, (1, 2, 3), (4,)), entry(3, (1, 2, 4), (), (1, 2, 3)))
    world.change(entry(3, (1, 2, 4), (), (1, 2, 3)), entry(4, (1, 2, 4)))


def test_recent_requests_still_count() -> None:
    world = World()
    world.assign(1, 2, 4)
    world.assign(1, 2, 3)
    world.change(entry(1, (1, 2, 3)), entry(2, (1, 2, 3), (4,)))


def test_a_voter_removed_without_a_request_is_a_violation() -> None:
    with pytest.raises(PropertyBroken, match="unordered-members"):
        World().change(entry(1, (1, 2, 3)), entry(2, (1, 2), (), (1, 2, 3)))


def test_a_learner_without_a_request_is_a_violation() -> None:
    with pytest.raises(PropertyBroken, match="unordered-members"):
        World().change(entry(1, (1, 2, 3)), entry(2, (1, 2, 3), (4,)))


def test_the_controller_may_remove_only_draining_brokers() -> None:
    world = World()
    dropped = entry(2, (1, 2, 4), (3,), (1, 2, 3, 4))
    with pytest.raises(PropertyBroken, match="unordered-members"):
        world.change(entry(1, (1, 2, 3, 4)), dropped, CONTROLLER.bytes)
    world.scribe.apply(UpdateBroker(3, disk_uuid(3), True, None))
    world.change(entry(1, (1, 2, 3, 4)), dropped, CONTROLLER.bytes)


def depose(world: World, by: int, asked_ns: int) -> None:
    """Remove broker 3 at the committed index 4, and let a replica campaign in term 3."""
    world.assign(1, 2, 4)
    world.change(entry(2, (1, 2, 3), (4,)), entry(3, (1, 2, 4), (), (1, 2, 3)))
    world.change(entry(3, (1, 2, 4), (), (1, 2, 3)), entry(4, (1, 2, 4)))
    group: Any = GroupProperties("orders/0")
    group.committed[Index(4)] = Term(2)
    world.orders.on_leader(LEADER, KEY, Term(2))
    world.orders.on_vote_request(KEY, Term(3), replicas(by)[0], asked_ns)
    world.orders.record_follower(LEADER, group, KEY, Term(3))


def test_a_leader_deposed_by_a_removed_replica_is_a_violation() -> None:
    with pytest.raises(PropertyBroken, match="removed-disturbs"):
        depose(World(), 3, GRACE_NS + 1)


def test_a_present_or_recent_voter_may_depose_a_leader() -> None:
    depose(World(), 4, GRACE_NS + 1)
    depose(World(), 3, GRACE_NS)
