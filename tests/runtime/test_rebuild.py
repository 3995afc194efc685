"""A damaged sole replica is rebuilt: gaps replace its damage, all other data stays, also over a power loss."""

import asyncio
from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from raftlog.errors import StorageFull, Unavailable
from raftlog.raft import ConfigurationChange, EntryId, ReplicaId, Role
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


def fill_segments(world: World) -> None:
    """Fill some segments that the journal no longer covers."""
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
    world.run_at(1, lambda: group.note_damage(error))
    world.run_until(lambda: world.group(1).damaged is not None)


def begin_rebuild(world: World) -> "asyncio.Task[RebuildResult]":
    group, driver = world.group(1), world.drivers[1]
    (task,) = world.run_at(1, lambda: driver.loop.create_task(driver.catch_up.rebuild(group, 7)))
    assert isinstance(task, asyncio.Task)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def numbers_of(world: World) -> list[int]:
    return [int(value.split(b" ")[0]) for value in world.values(1)]


@pytest.mark.parametrize("damage", [damage_batch, damage_row_and_batch])
@pytest.mark.parametrize("which", ["record", "roll", "last"])
def test_gaps_replace_damaged_batches(damage: Callable[[World, int], None], which: str) -> None:
    with World(1) as world:
        fill_segments(world)
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
        assert numbers_of(world) == [number for number in range(VALUES) if number not in lost]
        assert world.commit(1, b"60 goes on").base_offset == VALUES
        world.crash(1, power=True)
        world.start(1)
        world.leader()
        world.converge()
        assert numbers_of(world) == [number for number in range(VALUES + 1) if number not in lost]


@pytest.mark.parametrize("seed", range(12))
def test_a_power_loss_during_a_rebuild_keeps_the_old_or_new_log(seed: int) -> None:
    """Afterwards the log can be rebuilt again."""
    with World(1) as world:
        fill_segments(world)
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
        found = numbers_of(world)
        assert len(found) == VALUES - 1
        assert world.commit(1, b"60 goes on").base_offset == VALUES


def test_a_rebuild_on_a_full_disk_changes_nothing() -> None:
    with World(1) as world:
        fill_segments(world)
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


def test_a_repeated_request_waits_for_the_first_rebuild() -> None:
    with World(1) as world:
        fill_segments(world)
        damage_batch(world, 10)
        quarantine(world)
        first, second = begin_rebuild(world), begin_rebuild(world)
        world.run_until(second.done)
        assert second.result() is first.result()
        assert not world.drivers[1].catch_up.is_rebuilding(world.group(1))


def test_a_request_can_be_repeated_during_the_exchange_of_logs() -> None:
    """The replica drops messages during the exchange, and must receive them afterwards; a second copy has no space."""
    with World(1) as world:
        fill_segments(world)
        damage_batch(world, 10)
        quarantine(world)
        group, disk = world.group(1), world.disks[0]
        first = begin_rebuild(world)
        while not group.is_frozen:
            world.run(0.00002)
        disk.capacity_bytes = sum(map(len, disk.snapshot().values())) - 20_000
        world.run_at(1, first.cancel)  # the caller of the order disconnected
        second = begin_rebuild(world)
        world.run_until(second.done)
        assert len(second.result().lost) == 1
        world.run_until(lambda: world.group(1).core.role is Role.LEADER)
        assert not group.is_frozen
        disk.capacity_bytes = None
        world.converge()
        assert len(numbers_of(world)) == VALUES - 1


def test_an_offer_of_a_leader_does_not_end_a_rebuild() -> None:
    with World(1) as world:
        fill_segments(world)
        damage_batch(world, 10)
        quarantine(world)
        group, catch_up = world.group(1), world.drivers[1].catch_up
        task = begin_rebuild(world)
        end = EntryId(Index(group.log.last_index + 9), Term(99))
        offer = InstallOffer(ReplicaId(NodeId(2), UUID(int=2)), world.ids[0], Term(99), 1, end, end.index)
        world.run_at(1, lambda: catch_up.take_offer(group, offer))
        assert not catch_up.is_fetching
        world.run_until(task.done)
        assert len(task.result().lost) == 1


def test_removing_a_replica_ends_its_rebuild() -> None:
    with World(1) as world:
        fill_segments(world)
        task = begin_rebuild(world)
        world.run_at(1, lambda: world.drivers[1].remove_group(GROUP.bytes))
        world.run_until(task.done)
        assert isinstance(task.exception(), Unavailable)


def test_a_gap_in_place_of_a_configuration_does_not_prevent_the_next_start() -> None:
    """The rebuild's configuration names the one that it replaces, from a roll; its own entry is a gap."""
    with World(2, voters=1) as world:
        world.leader()
        world.fill(1, 1)
        replica = world.group(1)
        change = ConfigurationChange(replica.core.configuration.voters, (world.ids[1],), Index(1))
        world.run_at(1, lambda: replica.change_members(change))
        world.run_until(lambda: replica.core.committed_index >= replica.core.configuration.index > 1)
        index = replica.core.configuration.index
        world.crash(2)
        fill_segments(world)
        damage_batch(world, index)
        quarantine(world)
        task = begin_rebuild(world)
        while not task.done():
            world.run(0.0001)
        world.crash(1)
        world.start(1)
        world.leader()
        assert world.group(1).core.configuration.all_members() == (world.ids[0],)
