"""A disk that renounced a group never makes its first replica of it, over crashes and checkpoints; it can be filled."""

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
    (task,) = world.do(number, lambda: driver.loop.create_task(work))
    assert isinstance(task, asyncio.Task)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def finish(world: World, number: int, work: Coroutine[None, None, object]) -> object:
    task = run_on(world, number, work)
    world.run_until(task.done)
    return task.result()


def creation(world: World) -> Creation:
    """Return the creation of another group of all nodes, which none of them has made yet."""
    voters = tuple(RollMember(*replica) for replica in world.ids)
    return Roll(OTHER, 1, 0, 0, -1, 1000, 1, voters), None


@pytest.mark.parametrize("after_s", [0.0, 5.0])
def test_it_is_never_made_from_its_first_roll(after_s: float) -> None:
    """The rule holds also if only a checkpoint records it."""
    with World(3) as world:
        world.leader()
        finish(world, 2, abandon_absent(world.drivers[2], OTHER))
        for _ in range(2):
            with pytest.raises(Unavailable, match="gave the group"):
                finish(world, 2, world.drivers[2].create_groups([creation(world)]))
            world.fill(world.leader(), 3)
            world.run(after_s)
            world.crash(2, power=True)
            world.start(2)
        finish(world, 2, abandon_absent(world.drivers[2], OTHER))
        finish(world, 2, world.drivers[2].join_groups([(OTHER, None)]))
        assert world.drivers[2].groups[OTHER.bytes].core.configuration.index == 0


def test_not_while_it_is_being_made() -> None:
    with World(1) as world:
        making = run_on(world, 1, world.drivers[1].create_groups([creation(world)]))
        with pytest.raises(Unavailable, match="being made"):
            finish(world, 1, abandon_absent(world.drivers[1], OTHER))
        world.run_until(making.done)
        assert making.result() is None
        world.do(1, lambda: world.drivers[1].remove_group(OTHER.bytes))
        with pytest.raises(Unavailable, match="being made or removed"):
            finish(world, 1, abandon_absent(world.drivers[1], OTHER))


def test_no_other_replica_leads_after_a_recovery_on_one() -> None:
    """The other two had no room for their first replicas, and get it later."""
    with World(3) as world:
        finish(world, 1, world.drivers[1].create_groups([creation(world)]))
        for number in (2, 3):
            finish(world, number, abandon_absent(world.drivers[number], OTHER))
        group = world.drivers[1].groups[OTHER.bytes]
        finish(world, 1, world.drivers[1].catch_up.rebuild(group, 1))
        world.run_until(lambda: group.core.role is Role.LEADER)
        for number in (2, 3):
            with pytest.raises(Unavailable, match="filled by its leader"):
                finish(world, number, world.drivers[number].create_groups([creation(world)]))
        world.run(5)
        assert group.core.role is Role.LEADER
        assert all(OTHER.bytes not in world.drivers[number].groups for number in (2, 3))
