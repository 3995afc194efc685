"""A damaged replica goes on alone: gaps stand where its damage was, everything else stays, also over a power loss."""

import asyncio
from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from raftlog.errors import StorageFull, Unavailable
from raftlog.raft import EntryId, ReplicaId, Role
from raftlog.raft.messages import InstallOffer
from raftlog.runtime.transfer.rebuild import RebuildResult
from raftlog.storage.rows import ROW_SIZE
from raftlog.types import Index, NodeId, Term
from tests.runtime.drivers import GROUP, World

VALUES = 60


def damage_batch(world: World, index: int) -> None:
    segments = world.group(1).log.segments
    segment, row = segments.segment_of_index(index), segments.row_at(Index(index))
    world.disks[0].flip_bit(segment.files.log.path, row.end - 3, 1)


def damage_row_and_batch(world: World, index: int) -> None:
    segments = world.group(1).log.segments
    segment = segments.segment_of_index(index)
    damage_batch(world, index)
    world.disks[0].flip_bit(segment.files.index.path, (index - segment.base_index) * ROW_SIZE + 3, 2)


def prepared(world: World) -> None:
    """Fill some segments that the journal does not cover any more."""
    world.leader()
    world.fill(1, VALUES, 300)
    world.converge()
    world.crash(1)
    world.start(1)
    world.leader()
    world.run(3)
    assert len(world.group(1).log.segments.segments) > 2


def quarantine(world: World) -> None:
    """Report damage that no replica can repair."""
    group = world.group(1)
    segment = group.log.segments.segments[0]
    error = group.log.segments.corruption_error(segment, segment.row(1), "met")
    world.do(1, lambda: group.note_damage(error))
    world.run_until(lambda: world.group(1).damaged is not None)


def begin_rebuild(world: World) -> "asyncio.Task[RebuildResult]":
    group, driver = world.group(1), world.drivers[1]
    (task,) = world.do(1, lambda: driver.loop.create_task(driver.catch_up.rebuild(group, 7)))
    assert isinstance(task, asyncio.Task)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def offsets(world: World) -> list[int]:
    return [int(value.split(b" ")[0]) for value in world.values(1)]


@pytest.mark.parametrize("damage", [damage_batch, damage_row_and_batch])
@pytest.mark.parametrize("which", ["record", "roll", "last"])
def test_gaps_in_the_place_of_damage(damage: Callable[[World, int], None], which: str) -> None:
    with World(1) as world:
        prepared(world)
        segments = world.group(1).log.segments
        record = segments.row_at(Index(10))
        index = {"record": 10, "roll": segments.segments[1].base_index, "last": world.group(1).log.last_index}[which]
        damage(world, index)
        before = world.group(1).log.last_index
        quarantine(world)
        task = begin_rebuild(world)
        world.run_until(task.done)
        rebuilt = task.result()
        world.run_until(lambda: world.group(1).core.role is Role.LEADER)
        assert world.group(1).core.term > 8
        assert len(rebuilt.kept_in) == 1
        lost = [number for first, end in rebuilt.lost for number in range(first, end)]
        assert lost == ([record.offset] if which == "record" else [])
        assert world.group(1).damage is None
        assert world.group(1).log.last_index >= before + 1
        assert offsets(world) == [number for number in range(VALUES) if number not in lost]
        assert world.commit(1, b"60 goes on").base_offset == VALUES
        world.crash(1, power=True)
        world.start(1)
        world.leader()
        world.converge()
        assert offsets(world) == [number for number in range(VALUES + 1) if number not in lost]


@pytest.mark.parametrize("seed", range(12))
def test_a_power_loss_meanwhile(seed: int) -> None:
    """Afterwards it is the old log or the new one, and can be rebuilt again."""
    with World(1) as world:
        prepared(world)
        damage_batch(world, 10)
        quarantine(world)
        begin_rebuild(world)
        world.run(Random(seed).random() * 0.03)
        world.crash(1, power=True)
        world.start(1)
        world.run(1)
        if world.group(1).core.role is not Role.LEADER:
            quarantine(world)
            task = begin_rebuild(world)
            world.run_until(task.done)
        world.leader()
        world.converge()
        found = offsets(world)
        assert len(found) == VALUES - 1
        assert world.commit(1, b"60 goes on").base_offset == VALUES


def test_a_full_disk_leaves_everything_as_it_was() -> None:
    with World(1) as world:
        prepared(world)
        damage_batch(world, 10)
        quarantine(world)
        world.disks[0].capacity_bytes = sum(map(len, world.disks[0].snapshot().values())) + 4096
        task = begin_rebuild(world)
        world.run_until(task.done)
        assert isinstance(task.exception(), StorageFull)
        world.disks[0].capacity_bytes = None
        assert world.group(1).damage is not None
        again = begin_rebuild(world)
        world.run_until(again.done)
        assert again.result().lost


def test_an_order_that_is_repeated_waits_for_the_first_one() -> None:
    with World(1) as world:
        prepared(world)
        damage_batch(world, 10)
        quarantine(world)
        first, second = begin_rebuild(world), begin_rebuild(world)
        world.run_until(second.done)
        assert second.result() is first.result()
        assert not world.drivers[1].catch_up.is_rebuilding(world.group(1))


def test_an_order_that_is_repeated_while_the_logs_change_places() -> None:
    """The replica drops messages then, and must receive them again. There is no space for a second copy."""
    with World(1) as world:
        prepared(world)
        damage_batch(world, 10)
        quarantine(world)
        group, disk = world.group(1), world.disks[0]
        first = begin_rebuild(world)
        while not group.is_frozen:
            world.run(0.00002)
        disk.capacity_bytes = sum(map(len, disk.snapshot().values())) - 20_000
        world.do(1, first.cancel)  # the caller of the order disconnected
        second = begin_rebuild(world)
        world.run_until(second.done)
        assert len(second.result().lost) == 1
        world.run_until(lambda: world.group(1).core.role is Role.LEADER)
        assert not group.is_frozen
        disk.capacity_bytes = None
        world.converge()
        assert len(offsets(world)) == VALUES - 1


def test_a_leader_s_offer_does_not_end_a_rebuild() -> None:
    with World(1) as world:
        prepared(world)
        damage_batch(world, 10)
        quarantine(world)
        group, catch_up = world.group(1), world.drivers[1].catch_up
        task = begin_rebuild(world)
        end = EntryId(Index(group.log.last_index + 9), Term(99))
        offer = InstallOffer(ReplicaId(NodeId(2), UUID(int=2)), world.ids[0], Term(99), 1, end, end.index)
        world.do(1, lambda: catch_up.take_offer(group, offer))
        assert not catch_up.is_fetching
        world.run_until(task.done)
        assert len(task.result().lost) == 1


def test_a_replica_that_goes_ends_its_rebuild() -> None:
    with World(1) as world:
        prepared(world)
        task = begin_rebuild(world)
        world.do(1, lambda: world.drivers[1].remove_group(GROUP.bytes))
        world.run_until(task.done)
        assert isinstance(task.exception(), Unavailable)
