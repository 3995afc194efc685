"""Brokers and partitions for tests of plans, results of plans, and a controller state with them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from raftlog.partitions.controller.machine import (
    Addresses,
    Bootstrap,
    CommandRequest,
    ControllerState,
    CreateTopic,
    GroupName,
    RegisterBroker,
    RegisteredBroker,
    SetAssignment,
    UpdateBroker,
)
from raftlog.partitions.placement.balancing.layout import BrokerPlace, PlacedPartition
from raftlog.partitions.placement.balancing.plan import Change, Failure, PlanScope, plan
from raftlog.raft import ReplicaId
from raftlog.types import Index, NodeId

CONTINUOUS = PlanScope()
PLANS_MAX = 400
TOPIC = UUID(int=7)


def replica(node: int) -> ReplicaId:
    return ReplicaId(NodeId(node), UUID(int=1_000 + node))


def make_place(node: int, host: str | None = None, **how: bool) -> BrokerPlace:
    return BrokerPlace(replica(node), host or f"host-{node}", **how)


def make_topic(number: int, rows: Iterable[Sequence[int]], **how: object) -> list[PlacedPartition]:
    """Return a topic with these replicas, which are also those of its creation."""
    created = [tuple(map(replica, row)) for row in rows]
    topic_id = UUID(int=number)
    return [
        PlacedPartition(GroupName(topic_id, at), replicas, 1, created_on=replicas, **how)  # type: ignore[arg-type]
        for at, replicas in enumerate(created)
    ]


def apply_changes(placed: Sequence[PlacedPartition], changes: Iterable[Change]) -> list[PlacedPartition]:
    """Return the partitions after the changes."""
    new = {change.group: change.replicas for change in changes}
    return [each._replace(replicas=new.get(each.group, each.replicas)) for each in placed]


def plan_to_end(
    places: Sequence[BrokerPlace],
    placed: Sequence[PlacedPartition],
    scope: PlanScope = CONTINUOUS,
    limit: int = 16,
    seed: int = 0,
) -> tuple[list[PlacedPartition], list[Failure], int]:
    """Plan and apply until no change is planned; return partitions, failures, and the count of moved replicas."""
    random, now, moved = Random(seed), list(placed), 0
    for _ in range(PLANS_MAX):
        changes, failures = plan(places, now, scope, random, limit)
        if not changes:
            return now, failures, moved
        before = {each.group: set(each.replicas) for each in now}
        moved += sum(set(change.replicas) != before[change.group] for change in changes)
        now = apply_changes(now, changes)
    raise AssertionError(f"something is planned still after {PLANS_MAX} plans")


def nodes_of(placed: Iterable[PlacedPartition]) -> list[list[int]]:
    return [[each.node_id for each in one.replicas] for one in placed]


def count_replicas(placed: Iterable[PlacedPartition], nodes: Iterable[int]) -> dict[int, int]:
    """Return the number of replicas of each broker."""
    found = Counter(node for row in nodes_of(placed) for node in row)
    return {node: found[node] for node in nodes}


def count_leaders(placed: Iterable[PlacedPartition], nodes: Iterable[int]) -> dict[int, int]:
    """Return the number of preferred leaders of each broker."""
    found = Counter(row[0] for row in nodes_of(placed))
    return {node: found[node] for node in nodes}


def spread(numbers: dict[int, int]) -> int:
    return max(numbers.values()) - min(numbers.values())


@dataclass
class Controller:
    """Controller state with some brokers, and with a topic of two partitions on the first three of four."""

    brokers: int = 4
    seeds: int = 1
    state: ControllerState = field(default_factory=ControllerState)

    def __post_init__(self) -> None:
        self.apply(Bootstrap(UUID(int=1), tuple(map(replica, range(1, self.seeds + 1))), 1, 0))
        for node in range(1, self.brokers + 1):
            disk = replica(node).disk_uuid
            self.apply(RegisterBroker(NodeId(node), disk, 1, f"host-{node}", Addresses("", "", ""), 1, 3))
        if self.brokers > 3:
            row = (replica(1), replica(2), replica(3))
            self.apply(CreateTopic("t", TOPIC, (row, row), (), 0))

    def apply(self, command: object) -> int:
        index = Index(self.state.applied_index + 1)
        request = CommandRequest(UUID(int=int(index)), self.state.applied_index, command)  # type: ignore[arg-type]
        return self.state.apply(request, index).result()

    def assign(self, name: GroupName, *nodes: int) -> int:
        version = self.state.assignment(name).version
        return self.apply(SetAssignment(TOPIC, name.partition, tuple(map(replica, nodes)), version))

    def drain(self, node: int) -> RegisteredBroker:
        self.apply(UpdateBroker(NodeId(node), replica(node).disk_uuid, True))
        return self.state.brokers[node]
