"""`Coordinators` alone: replicas with a coordinator, and errors for replicas without one."""

import asyncio
from typing import Any

import pytest

from raftlog.errors import NotLeader
from raftlog.partitions.coordinator.coordinators import Coordinators
from raftlog.partitions.groups.coordinator import GroupCoordinator
from tests.groups.test_coordinator import Replica, World, run_pending_tasks
from tests.groups.test_writer import make_entry


class CoordinatorObserver:
    """Observer that records which coordinators began and ended."""

    def __init__(self) -> None:
        self.began: list[GroupCoordinator] = []
        self.ended: list[GroupCoordinator] = []

    def coordinator_began(self, coordinator: GroupCoordinator) -> None:
        self.began.append(coordinator)

    def coordinator_ended(self, coordinator: GroupCoordinator) -> None:
        self.ended.append(coordinator)


class Node:
    """Stand-in for a node with the methods that coordinators use."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.watched: list[object] = []

    def watch(self, group_id: object, stepped: object) -> None:
        self.watched.append(group_id)

    def run_essential_task(self, work: Any, name: str) -> "asyncio.Task[None]":
        return self.loop.create_task(work, name=name)


class Partition:
    """Stand-in for a partition with a replica on this broker."""

    name = group_id = "t/0"

    def __init__(self) -> None:
        self.replica = Replica()


class CoordinatorsHarness:
    """Coordinators with one partition, which this broker leads."""

    def __init__(self) -> None:
        node: Any = Node()
        around = World().around
        self.node = node
        self.coordinators = Coordinators(node, lambda replica, failed: GroupCoordinator(replica, around, failed))
        self.follower = CoordinatorObserver()
        self.coordinators.follow(self.follower)
        partition: Any = Partition()
        self.partition = partition


@pytest.fixture
async def bench() -> CoordinatorsHarness:
    return CoordinatorsHarness()


async def test_a_coordinator_serves_once_it_is_loaded_and_ends_with_its_replica(bench: CoordinatorsHarness) -> None:
    for _ in range(2):
        bench.coordinators.watch([bench.partition])
    assert bench.node.watched == ["t/0"]
    first = bench.coordinators.find(bench.partition)
    assert list(bench.coordinators) == [], "it loads"
    await run_pending_tasks()
    assert list(bench.coordinators) == bench.follower.began == [first]
    bench.partition.replica = Replica()
    second = bench.coordinators.find(bench.partition)
    assert second is not first
    assert first.is_over
    assert bench.follower.ended == [first]
    bench.coordinators._replace(bench.partition, first)
    assert bench.coordinators.find(bench.partition) is second, "an earlier one cannot end it"
    await run_pending_tasks()
    assert bench.follower.began == [first, second]


async def test_a_coordinator_follows_another_one_in_the_same_term_after_its_last_append(
    bench: CoordinatorsHarness,
) -> None:
    """The successor decides only with all that its predecessor appended, and nothing is appended behind its back."""
    replica = bench.partition.replica
    first = bench.coordinators.find(bench.partition)
    await run_pending_tasks()
    in_flight = first.writer.write([make_entry(5)])
    await run_pending_tasks()
    unsent = first.writer.write([make_entry(6, 1)])
    replica.core.last_id.index = 1
    bench.coordinators._replace(bench.partition, first)
    with pytest.raises(NotLeader):
        await unsent
    with pytest.raises(NotLeader):
        first.writer.write([make_entry(7, 1)])
    second = bench.coordinators.find(bench.partition)
    assert second is not first
    await run_pending_tasks()
    assert not second.is_loaded
    assert len(replica.waiting) == 1
    replica.commit()
    replica.applied_index = 1
    replica.waits.wake_all()
    await in_flight
    await run_pending_tasks()
    assert second.is_loaded
    assert {key.partition: record.offset for key, record in second.folded.latest_offsets("g").items()} == {0: 5}
    assert not replica.waiting


async def test_a_coordinator_that_never_served_is_not_reported_as_ended(bench: CoordinatorsHarness) -> None:
    coordinator = bench.coordinators.find(bench.partition)
    bench.partition.replica.is_leader = False
    with pytest.raises(NotLeader):
        bench.coordinators.find(bench.partition)
    await run_pending_tasks()
    assert coordinator.is_over
    assert bench.follower.began == bench.follower.ended == []


async def test_closed_coordinators_create_no_new_ones(bench: CoordinatorsHarness) -> None:
    bench.coordinators.find(bench.partition)
    [task] = bench.coordinators._tasks.values()
    bench.coordinators.close()
    await run_pending_tasks()
    assert task.done()
    with pytest.raises(NotLeader):
        bench.coordinators.find(bench.partition)
