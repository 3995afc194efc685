"""`Coordinators` alone: replicas with a coordinator, and answers of the replicas without one."""

import asyncio
from typing import Any

import pytest

from raftlog.errors import NotLeader
from raftlog.partitions.coordinator.coordinators import Coordinators
from raftlog.partitions.groups.coordinator import GroupCoordinator
from tests.groups.test_coordinator import Replica, World, turns


class Follower:
    """Remembers which coordinators began and ended."""

    def __init__(self) -> None:
        self.began: list[GroupCoordinator] = []
        self.ended: list[GroupCoordinator] = []

    def coordinator_began(self, coordinator: GroupCoordinator) -> None:
        self.began.append(coordinator)

    def coordinator_ended(self, coordinator: GroupCoordinator) -> None:
        self.ended.append(coordinator)


class Node:
    """Stand-in for a node, as far as coordinators use it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.watched: list[object] = []

    def watch(self, group_id: object, stepped: object) -> None:
        self.watched.append(group_id)

    def keep_up(self, work: Any, name: str) -> "asyncio.Task[None]":
        return self.loop.create_task(work, name=name)


class Partition:
    """A partition with a replica here."""

    name = group_id = "t/0"

    def __init__(self) -> None:
        self.replica = Replica()


class Bench:
    """One partition, which is led here."""

    def __init__(self) -> None:
        node: Any = Node()
        around = World().around
        self.node = node
        self.coordinators = Coordinators(node, lambda replica, failed: GroupCoordinator(replica, around, failed))
        self.follower = Follower()
        self.coordinators.follow(self.follower)
        partition: Any = Partition()
        self.partition = partition


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_a_coordinator_serves_once_it_is_loaded_and_ends_with_its_replica(bench: Bench) -> None:
    for _ in range(2):
        bench.coordinators.watch([bench.partition])
    assert bench.node.watched == ["t/0"]
    first = bench.coordinators.of(bench.partition)
    assert list(bench.coordinators) == [], "it loads"
    await turns()
    assert list(bench.coordinators) == bench.follower.began == [first]
    bench.partition.replica = Replica()
    second = bench.coordinators.of(bench.partition)
    assert second is not first
    assert first.is_over
    assert bench.follower.ended == [first]
    bench.coordinators._renew(bench.partition, first)
    assert bench.coordinators.of(bench.partition) is second, "an earlier one cannot end it"
    await turns()
    assert bench.follower.began == [first, second]


async def test_a_coordinator_that_never_served_is_not_reported_as_ended(bench: Bench) -> None:
    coordinator = bench.coordinators.of(bench.partition)
    bench.partition.replica.is_leader = False
    with pytest.raises(NotLeader):
        bench.coordinators.of(bench.partition)
    await turns()
    assert coordinator.is_over
    assert bench.follower.began == bench.follower.ended == []


async def test_after_the_end_there_are_no_new_coordinators(bench: Bench) -> None:
    bench.coordinators.of(bench.partition)
    [task] = bench.coordinators._tasks.values()
    bench.coordinators.close()
    await turns()
    assert task.done()
    with pytest.raises(NotLeader):
        bench.coordinators.of(bench.partition)
