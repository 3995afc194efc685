"""A disk that renounced a Raft group never creates its first replica, but can be filled by a leader."""

import asyncio
from collections.abc import Coroutine
from uuid import UUID

import pytest

from raftlog.errors import Unavailable
from raftlog.raft import Role
from raftlog.runtime.process.abandonment import abandon_absent
from raftlog.runtime.process.creations import Creation
from raftlog.storage.roll import Roll, RollMember
from tests.runtime.drivers import World

OTHER = UUID(int=78)


def run_on(world: World, number: int, work: Coroutine[None, None, object]) -> "asyncio.Task[object]":
    driver = world.drivers[number]
    (task,) = world.run_at(number, lambda: driver.loop.create_task(work))
    assert isinstance(task, asyncio.Task)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def run_to_end(world: World, number: int, work: Coroutine[None, None, object]) -> object:
    task = run_on(world, number, work)
    world.run_until(task.done)
    return task.result()


def make_creation(world: World) -> Creation:
    """Return the creation of another Raft group on all nodes."""
    voters = tuple(RollMember(*replica) for replica in world.ids)
    return Roll(OTHER, 1, 0, 0, -1, 1000, 1, voters), None


@pytest.mark.parametrize("after_s", [0.0, 5.0])
def test_a_renounced_group_is_never_created_from_its_first_roll(after_s: float) -> None:
    """The rule also holds when only a checkpoint records it."""
    with World(3) as world:
        world.leader()
        run_to_end(world, 2, abandon_absent(world.drivers[2], OTHER))
        for _ in range(2):
            with pytest.raises(Unavailable, match="gave the group"):
                run_to_end(world, 2, world.drivers[2].create_groups([make_creation(world)]))
            world.fill(world.leader(), 3)
            world.run(after_s)
            world.crash(2, power=True)
            world.start(2)
        run_to_end(world, 2, abandon_absent(world.drivers[2], OTHER))
        run_to_end(world, 2, world.drivers[2].join_groups([(OTHER, None)]))
        assert world.drivers[2].groups[OTHER.bytes].core.configuration.index == 0


def test_a_group_cannot_be_renounced_during_its_creation() -> None:
    with World(1) as world:
        making = run_on(world, 1, world.drivers[1].create_groups([make_creation(world)]))
        with pytest.raises(Unavailable, match="being made"):
            run_to_end(world, 1, abandon_absent(world.drivers[1], OTHER))
        world.run_until(making.done)
        assert making.result() is None
        world.run_at(1, lambda: world.drivers[1].remove_group(OTHER.bytes))
        with pytest.raises(Unavailable, match="being made or removed"):
            run_to_end(world, 1, abandon_absent(world.drivers[1], OTHER))


def test_no_other_replica_leads_after_a_recovery_on_one() -> None:
    """The other two had no space for their first replicas, and get it later."""
    with World(3) as world:
        run_to_end(world, 1, world.drivers[1].create_groups([make_creation(world)]))
        for number in (2, 3):
            run_to_end(world, number, abandon_absent(world.drivers[number], OTHER))
        group = world.drivers[1].groups[OTHER.bytes]
        run_to_end(world, 1, world.drivers[1].catch_up.rebuild(group, 1))
        world.run_until(lambda: group.core.role is Role.LEADER)
        for number in (2, 3):
            with pytest.raises(Unavailable, match="filled by its leader"):
                run_to_end(world, number, world.drivers[number].create_groups([make_creation(world)]))
        world.run(5)
        assert group.core.role is Role.LEADER
        assert all(OTHER.bytes not in world.drivers[number].groups for number in (2, 3))
