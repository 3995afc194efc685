"""Defects found by hostile use of the driver: restarts, changing groups, faulty peers, unreadable pages.

Simulated time, network and disks (`drivers`); the drivers, logs and journals are the real ones."""

import errno
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from raftlog.errors import CorruptBatch, InvalidArgument, LogClosed, Unavailable
from raftlog.raft import Entry, EntryKind, RaftSettings, Role
from raftlog.raft.messages import AppendRequest
from raftlog.records import ControlKind, NewRecord, build_batch, build_control_batch, stamp
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transport import Envelope
from raftlog.storage.disk import File, SyncDone
from raftlog.storage.roll import encode_roll
from raftlog.types import Index, NodeId, Offset, Term
from tests.runtime.drivers import GROUP, SMALL, World

OTHER = uuid.UUID(int=99)


def other_numbers(number: int) -> list[int]:
    return [other for other in (1, 2, 3) if other != number]


def isolate(world: World, number: int) -> None:
    for other in other_numbers(number):
        world.network.cut(world.nodes[number - 1], world.nodes[other - 1])
        world.network.cut(world.nodes[other - 1], world.nodes[number - 1])


def test_a_vote_survives_restarts_and_checkpoints() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        world.converge()
        voter = next(n for n in other_numbers(leader) if world.group(n).core.status().vote is not None)
        given = world.group(voter).core.status().vote
        isolate(world, voter)
        for _ in range(3):
            world.crash(voter, power=True)
            world.start(voter)
            driver = world.drivers[voter]
            world.run_at(voter, lambda driver=driver: driver.persister.checkpoints.maybe_begin(1e9))
            world.run(0.01)
            assert world.group(voter).core.status().vote == given


def test_a_removed_replica_returns_with_its_term_and_vote() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        world.converge()
        number = other_numbers(leader)[0]
        before = world.group(number).core.status()
        driver = world.drivers[number]
        world.run_at(number, lambda: driver.remove_group(GROUP.bytes))
        world.run_until(lambda: not driver.persister.is_leaving(GROUP.bytes))
        isolate(world, number)
        world.run_at(number, lambda: driver.join_group(GROUP))
        for _ in range(2):
            after = world.group(number).core.status()
            assert (after.term, after.vote, after.last.index) == (before.term, before.vote, 0)
            world.run(3)  # a checkpoint
            world.crash(number, power=True)
            world.start(number)


def test_a_group_under_removal_cannot_be_recreated_yet() -> None:
    with World() as world:
        leader = world.leader()
        number = other_numbers(leader)[0]
        driver = world.drivers[number]
        refused: list[Exception] = []

        def leave_and_join() -> None:
            driver.remove_group(GROUP.bytes)
            with pytest.raises(Unavailable) as caught:
                driver.join_group(GROUP)
            refused.append(caught.value)

        world.run_at(number, leave_and_join)
        assert refused


def test_a_crash_after_a_durable_removal_leaves_no_files() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        number = other_numbers(leader)[0]
        group, driver = world.group(number), world.drivers[number]
        world.run_at(number, lambda: driver.remove_group(GROUP.bytes))
        while not group.is_removed:
            world.run(0.0002)
        world.crash(number, power=True)
        world.start(number)
        assert not world.disks[number - 1].exists(group.path)
        world.run_at(number, lambda: world.drivers[number].join_group(GROUP))
        world.run_until(lambda: world.group(number).core.last_id == world.group(world.leader()).core.last_id)


@pytest.mark.parametrize("failing", ["make_directory", "rename"])
def test_a_removal_frees_a_disk_without_room_for_the_trash(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    with World(1) as world:
        world.fill(world.leader(), 5)
        driver, disk, path = world.drivers[1], world.disks[0], world.group(1).path
        before = getattr(disk, failing)
        refused: list[object] = []

        def refuse(*arguments: object) -> object:
            if any("trash" in str(argument) for argument in arguments):
                refused.append(arguments)
                raise OSError(errno.ENOSPC, "No space left on device")
            return before(*arguments)

        monkeypatch.setattr(disk, failing, refuse)
        world.run_at(1, lambda: driver.remove_group(GROUP.bytes))
        world.run_until(lambda: not driver.persister.is_leaving(GROUP.bytes) or bool(world.failures))
        assert not world.failures
        assert refused
        world.crash(1, power=True)
        assert not disk.exists(path)
        monkeypatch.undo()
        world.start(1)
        assert not world.drivers[1].groups
        assert not world.failures


def test_a_group_cannot_be_created_twice() -> None:
    with World(1) as world:
        world.leader()
        world.fill(1, 5)

        def make() -> None:
            with pytest.raises(InvalidArgument, match="already"):
                world.drivers[1].create_group(world.roll)

        world.run_at(1, make)
        assert len(world.values(1)) == 5


def test_a_trim_keeps_the_segment_before_an_uncommitted_roll() -> None:
    with World() as world:
        old = world.leader()
        world.fill(old, 13)
        group = world.group(old)
        while group.log.segments.active.end_position + 600 <= world.config.segment_bytes:
            world.fill(old, 1)
        world.converge()
        isolate(world, old)
        world.propose(old, b"y" * 600)
        world.run(0.01)
        assert group.log.segments.active.base_index > group.core.committed_index
        world.run_at(old, lambda: group.trim(group.high_watermark))
        world.run(0.01)
        assert group.log.boundary.index < group.core.committed_index
        world.run_until(lambda: any(world.group(n).core.role is Role.LEADER for n in other_numbers(old)))
        world.commit(next(n for n in other_numbers(old) if world.group(n).core.role is Role.LEADER), b"kept")
        world.network.heal()
        world.converge()
        world.crash(old, power=True)
        world.start(old)
        world.converge()
        assert not world.failures


def wrong_offset(world: World, group: PartitionReplica) -> tuple[EntryKind, bytearray]:
    batch = build_batch([NewRecord(b"x", None, 1)])
    stamp(batch, Offset(group.log.next_offset + 5), group.core.term)
    return EntryKind.DATA, batch


def unreadable_configuration(world: World, group: PartitionReplica) -> tuple[EntryKind, bytearray]:
    batch = build_control_batch(ControlKind.CONFIGURATION, b"garbage", 1, next_offset=group.log.next_offset)
    stamp(batch, group.log.next_offset, group.core.term)
    return EntryKind.DATA, batch


def strange_roll(world: World, group: PartitionReplica) -> tuple[EntryKind, bytearray]:
    payload = encode_roll(world.roll._replace(base_index=5))
    batch = build_control_batch(ControlKind.ROLL, payload, 1, next_offset=group.log.next_offset)
    stamp(batch, group.log.next_offset, group.core.term)
    return EntryKind.DATA, batch


@pytest.mark.parametrize("make", [wrong_offset, unreadable_configuration, strange_roll])
def test_entries_that_do_not_follow_are_refused(
    make: Callable[[World, PartitionReplica], tuple[EntryKind, bytearray]],
) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        world.converge()
        world.run(0.5)
        number = other_numbers(leader)[0]
        group, driver, me = world.group(number), world.drivers[number], world.ids[number - 1]
        last, refused = group.core.last_id, driver.messages_refused
        kind, batch = make(world, group)
        entry = Entry(Index(last.index + 1), Term(group.core.term), kind, len(batch), bytes(batch))
        sender = world.ids[leader - 1]
        request = AppendRequest(sender, me, group.core.term, 10**6, last, (entry,), last.index)
        world.run_at(number, lambda: driver.receive(NodeId(leader), [Envelope(GROUP.bytes, request)]))
        assert driver.messages_refused == refused + 1
        assert group.core.last_id == last
        world.commit(leader, b"goes on")
        world.converge()


def test_requests_to_a_deleted_group_fail() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        group = world.group(leader)
        isolate(world, leader)
        (waiting,) = world.run_at(leader, group.read_index)
        world.run_at(leader, lambda: world.drivers[leader].remove_group(GROUP.bytes))
        (late,) = world.run_at(leader, group.read_index)
        assert isinstance(waiting.exception(), LogClosed)  # type: ignore[attr-defined]
        assert isinstance(late.exception(), LogClosed)  # type: ignore[attr-defined]


def test_a_group_created_later_quiesces_too() -> None:
    with World(config=replace(SMALL, raft=RaftSettings(quiesce_after_ticks=20))) as world:
        world.leader()
        world.run(10)
        for number in (1, 2, 3):
            driver = world.drivers[number]
            world.run_at(number, lambda driver=driver: driver.create_group(world.roll._replace(group_id=OTHER)))
        world.run_until(lambda: all(world.drivers[n].groups[OTHER.bytes].core.is_quiesced for n in (1, 2, 3)), 60)


@pytest.mark.parametrize("count", [5, 60])
def test_a_lost_meta_file_is_rewritten(count: int) -> None:
    with World(1) as world:
        world.leader()
        world.fill(1, count, 300)
        world.run(3)
        values, path = world.values(1), world.group(1).path
        world.crash(1)
        world.disks[0].unlink(f"{path}/.raftlog/meta")
        world.start(1)
        world.leader()
        world.converge()
        assert world.values(1) == values


def test_an_unreadable_page_is_damage_and_is_repaired() -> None:
    with World() as world:
        leader = world.leader()
        behind = other_numbers(leader)[0]
        for number in (1, 2, 3):
            driver = world.drivers[number]
            world.run_at(number, lambda driver=driver: driver.create_group(world.roll._replace(group_id=OTHER)))
        world.crash(behind)
        world.fill(leader, 60)
        world.run(4)
        group = world.group(leader)
        world.disks[leader - 1].fail_read(group.log.segments.segments[1].files.log.path, 500)
        world.start(behind)
        world.run_until(lambda: world.leader() != leader)
        world.commit(world.leader(), b"goes on")
        world.run_until(lambda: world.group(behind).log.last_index == world.group(world.leader()).log.last_index)
        assert not world.failures
        other = world.drivers[leader].groups[OTHER.bytes]
        assert not other.is_dirty
        assert other.damage is None


def test_a_read_of_an_unreadable_page_moves_the_leadership() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        world.run(4)
        group = world.group(leader)
        segment = group.log.segments.segments[1]
        world.disks[leader - 1].fail_read(segment.files.log.path, 500)
        with pytest.raises(CorruptBatch, match="cannot be read"):
            group.read(segment.base_offset, 1 << 20)
        assert group.damage is not None
        world.run_until(lambda: world.leader() != leader)


def test_ids_without_room_in_the_journal_are_written_later() -> None:
    config = replace(
        SMALL,
        segment_bytes=1 << 24,
        large_append_bytes=65536,
        checkpoint_interval_ms=10**9,
        raft=RaftSettings(uncommitted_entries_max=10**6, uncommitted_bytes_max=1 << 28),
        journal=JournalConfig(
            file_bytes=1 << 18, write_bytes_max=1 << 16, reserve_bytes=1 << 16, pending_bytes_max=1 << 18
        ),
    )
    with World(1, config=config) as world:
        world.leader()
        disk, held = world.disks[0], []
        submit = disk.submit_sync

        def hold_segments(files: list[File], directories: list[str], done: SyncDone) -> None:
            if files and all("/journal/" not in file.path for file in files):
                held.append((files, directories, done))
            else:
                submit(files, directories, done)

        disk.submit_sync = hold_segments  # type: ignore[method-assign,assignment]
        futures = []
        for _ in range(40):
            batches = [build_batch([NewRecord(b"x", None, 1000)]) for _ in range(1000)]
            futures.extend(world.run_at(1, lambda batches=batches: world.group(1).propose(batches)))
            world.run(0.002)
        disk.submit_sync = submit  # type: ignore[method-assign]

        def release() -> None:
            for files, directories, done in held:
                disk.sync(files, directories)
                done(None)

        world.run_at(1, release)
        world.run_until(lambda: all(future.done() for future in futures))  # type: ignore[attr-defined]
        assert world.group(1).high_watermark == 40_000
        assert not world.failures


def test_a_roll_during_a_trim_keeps_the_segment_before_it() -> None:
    with World() as world:
        old = world.leader()
        world.fill(old, 40)
        group = world.group(old)
        while group.log.segments.active.end_position + 600 <= world.config.segment_bytes:
            world.fill(old, 1)
        world.converge()
        isolate(world, old)
        batch = build_batch([NewRecord(b"y" * 600, None, 1000)])

        def trim_and_roll() -> None:
            group.trim(group.high_watermark)
            group.propose([batch]).add_done_callback(lambda future: future.exception())

        world.run_at(old, trim_and_roll)
        world.run(0.05)
        assert group.log.segments.active.base_index > group.core.committed_index
        assert 0 < group.log.boundary.index < group.core.committed_index
        world.crash(old, power=True)
        world.start(old)
        assert world.group(old).log.boundary.index < world.group(old).core.committed_index
        world.network.heal()
        world.commit(world.leader(), b"kept")
        world.converge()


def test_a_checkpoint_does_not_use_a_damaged_row() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 10)
        world.converge()
        world.run(5)
        hurt = other_numbers(leader)[0]
        world.disks[hurt - 1].zero_page(world.group(hurt).log.segments.active.files.index.path, 0)
        driver = world.drivers[hurt]
        driver.persister.checkpoints.has_new_operations = True
        world.run_at(hurt, lambda: driver.persister.checkpoints.maybe_begin(1e9))
        world.run(1)
        assert not world.failures
        world.crash(hurt, power=True)
        world.start(hurt)
        world.commit(world.leader(), b"afterwards")
        world.converge()
        assert world.files(hurt) == world.files(leader)


def test_damage_that_all_others_have_trimmed_is_trimmed() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        world.converge()
        world.run(5)
        hurt = other_numbers(leader)[0]
        for number in (1, 2, 3):
            if number != hurt:
                group = world.group(number)
                world.run_at(number, lambda group=group: group.trim(group.high_watermark - 5))
        world.run(1)
        group = world.group(hurt)
        world.disks[hurt - 1].flip_bit(group.log.segments.segments[1].files.log.path, 700, 3)
        with pytest.raises(CorruptBatch):
            world.values(hurt)
        world.run_until(lambda: group.damage is None)
        assert group.log.boundary == world.group(leader).log.boundary
        world.converge()
        assert world.files(hurt) == world.files(leader)
