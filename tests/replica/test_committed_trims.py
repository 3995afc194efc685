"""Rolls, control entries and trims as log entries: all replicas apply them equally, also after restarts."""

import errno

import pytest

from raftlog.errors import EntriesTrimmed, FormatError, InvalidArgument, NotLeader, RaftlogError, Unavailable
from raftlog.records import ControlKind
from raftlog.runtime.config import GroupLimits
from raftlog.runtime.log.control_entries import TrimEntry, decode_trim, encode_trim
from raftlog.runtime.replica.partition_replica import Committed, CommittedEntry, PartitionReplica
from raftlog.storage.recovery import read_roll
from raftlog.types import Index, Offset
from tests.layouts import read_layout
from tests.replica.worlds import ask, base_offsets, other_numbers, wait_for_result
from tests.runtime.drivers import SMALL, World, is_of_journal


def read_entries(group: PartitionReplica) -> list[CommittedEntry]:
    found: list[CommittedEntry] = []
    while more := group.committed_entries(Index(len(found) + 1), 1000):
        found.extend(more)
    return found


def test_control_entries_are_committed_together_and_can_be_read() -> None:
    with World() as world:
        leader = world.leader()
        world.commit(leader, b"before")
        payloads = [b"one", b"two"]
        done = wait_for_result(
            world, leader, lambda group: group.propose_control([(ControlKind.SNAPSHOT, each) for each in payloads])
        )
        assert (done.base_offset, done.next_offset) == (1, 1)
        world.commit(leader, b"after")
        world.converge()
        for number in (1, 2, 3):
            found = read_entries(world.group(number))
            assert [each.index for each in found] == list(range(1, world.group(number).applied_index + 1))
            assert found[0].kind is ControlKind.ROLL
            snapshots = [each for each in found if each.kind is ControlKind.SNAPSHOT]
            assert [each.payload for each in snapshots] == payloads
            assert [each.index for each in snapshots] == list(range(done.first_index, done.last_index + 1))
            assert [each.kind for each in found[-1:]] == [None]
        assert len(world.group(1).committed_entries(Index(2), 1)) == 1


def test_a_roll_on_demand_starts_a_segment_with_the_settings() -> None:
    with World() as world:
        leader = world.leader()
        world.commit(leader, b"one")
        group = world.group(leader)
        group.rolls.settings = (("retention.ms", "1000"),)
        done = wait_for_result(world, leader, lambda group: group.roll_now())
        assert isinstance(ask(world, leader, lambda group: group.roll_now()).exception(), Unavailable)
        world.commit(leader, b"two")
        world.converge()
        for number in (1, 2, 3):
            roll = read_roll(world.group(number).log.segments.active)
            assert roll is not None
            assert (roll.base_index, roll.settings) == (done.first_index, group.rolls.settings)
        follower = other_numbers(leader)[0]
        assert isinstance(ask(world, follower, lambda group: group.roll_now()).exception(), NotLeader)


def test_a_segment_with_a_record_is_rolled_by_age() -> None:
    with World() as world:
        leader = world.leader()
        world.group(leader).rolls.limits = GroupLimits(segment_ms=5_000)
        world.commit(leader, b"its first roll is from 1970")
        world.commit(leader, b"so this comes behind another")
        assert base_offsets(world, leader) == [0, 1]
        world.run(6)
        world.run_at(leader, lambda: world.group(leader).roll_if_due())
        world.run(1)
        assert base_offsets(world, leader) == [0, 1, 2]
        world.run(6)
        world.run_at(leader, lambda: world.group(leader).roll_if_due())
        world.run(1)
        assert base_offsets(world, leader) == [0, 1, 2]
        world.converge()
        assert world.files(1) == world.files(2) == world.files(3)


def test_a_trim_entry_is_as_documented() -> None:
    packed = encode_trim(TrimEntry(Offset(1 << 40), Index(77)))
    assert read_layout("trim").decode(packed) == {"version": 1, "log_start_offset": 1 << 40, "snapshot_index": 77}
    assert read_layout("trim").size == len(packed)
    assert decode_trim(packed) == (1 << 40, 77)
    for damaged in (b"", packed[:-1], packed + b"x", b"\x02" + packed[1:]):
        with pytest.raises(FormatError, match="trim entry"):
            decode_trim(damaged)


def trim(world: World, leader: int, offset: int) -> Committed:
    done: Committed = wait_for_result(world, leader, lambda group: group.propose_trim(offset))
    return done


def test_a_trim_moves_every_log_start_and_deletes_the_same_files() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        offset = world.group(leader).high_watermark - 5
        trim(world, leader, offset)
        world.converge()
        world.run(1)
        groups = [world.group(number) for number in (1, 2, 3)]
        assert [group.log_start_offset for group in groups] == [offset] * 3
        assert world.files(1) == world.files(2) == world.files(3)
        assert base_offsets(world, 1)[1:] == [] or base_offsets(world, 1)[1] > offset
        with pytest.raises(EntriesTrimmed):
            read_entries(groups[0])
        trim(world, leader, 3)
        world.run(1)
        assert [group.log_start_offset for group in groups] == [offset] * 3


def test_a_trim_above_the_high_watermark_is_refused() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        assert isinstance(ask(world, leader, lambda group: group.propose_trim(4)).exception(), InvalidArgument)
        trim(world, leader, 3)
        world.converge()
        world.run(1)
        assert {world.group(number).log_start_offset for number in (1, 2, 3)} == {2}  # where no roll is, none may come
        wait_for_result(world, leader, lambda group: group.roll_now())
        trim(world, leader, 3)
        world.run(1)
        assert {world.group(number).log_start_offset for number in (1, 2, 3)} == {3}
        assert base_offsets(world, leader) == [3]


def test_trims_in_quick_succession_are_all_applied() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        offsets = [20, 35, 50]
        proposed = [ask(world, leader, lambda group, at=at: group.propose_trim(at)) for at in offsets]  # type: ignore[misc]
        world.run_until(lambda: all(future.done() for future in proposed))
        world.run(1)
        assert {world.group(number).log_start_offset for number in (1, 2, 3)} == {50}
        for number in (1, 2, 3):
            world.crash(number, power=True)
        for number in (1, 2, 3):
            world.start(number)
        world.leader()
        world.converge()
        assert {world.group(number).log_start_offset for number in (1, 2, 3)} == {50}
        assert world.files(1) == world.files(2) == world.files(3)


@pytest.mark.parametrize("steps", range(12))
def test_a_trim_survives_a_loss_of_power_at_any_moment(steps: int) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 40)
        offset = world.group(leader).high_watermark - 3
        proposed = ask(world, leader, lambda group: group.propose_trim(offset))
        world.run(steps * 0.0002)
        was_committed = proposed.done()
        for number in (1, 2, 3):
            world.crash(number, power=True)
        for number in (1, 2, 3):
            world.start(number)
        world.commit(world.leader(), b"afterwards")
        world.converge()
        world.run(1)
        starts = {world.group(number).log_start_offset for number in (1, 2, 3)}
        assert starts in (({offset},) if was_committed else ({0}, {offset}))
        assert world.files(1) == world.files(2) == world.files(3)
        assert not world.failures


@pytest.mark.parametrize("seed", range(6))
def test_segments_stay_until_the_trim_is_durable(seed: int) -> None:
    """Entries below a checkpoint are in the files alone: they are deleted once the journal has the new log start."""
    with World(1) as world:
        disk = world.disks[0]
        disk.random.seed(seed)
        world.leader()
        world.fill(1, 60)
        world.run(SMALL.checkpoint_interval_ms / 1000 + 1)
        group, files, values = world.group(1), world.files(1), world.values(1)
        assert len(files) > 2
        disk.hold(is_of_journal)
        world.run_at(1, lambda: group.trim(group.high_watermark - 1))
        world.run(5 * SMALL.tick_ms / 1000)
        assert world.files(1) == files
        world.crash(1, power=True)
        disk.release()
        world.start(1)
        assert not world.failures
        assert world.group(1).damage is None
        world.leader()
        world.converge()
        assert world.values(1) in (values, values[-1:])


@pytest.mark.parametrize("size", [300, 700, 3000])
def test_a_closed_segment_exceeds_its_limit_only_by_one_large_append(size: int) -> None:
    with World() as world:
        leader, limit = world.leader(), SMALL.segment_bytes
        for number in range(12):
            world.fill(leader, 4, size)
            if number % 4 == 3:
                world.fill(leader, 1, limit)
        world.converge()
        *closed, _ = world.group(leader).log.segments.segments
        assert len(closed) >= 5
        alone = [segment for segment in closed if segment.next_offset == segment.base_offset + 1]
        assert all(segment.end_position <= limit for segment in closed if segment not in alone)
        assert any(segment.end_position > limit for segment in alone)


def test_a_trim_is_recovered_after_a_crash_lost_its_journal_entry() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        world.converge()
        offset = world.group(leader).high_watermark - 5
        proposed = ask(world, leader, lambda group: group.propose_trim(offset))
        follower = other_numbers(leader)[0]
        at = world.group(leader).core.last_id.index
        while world.group(follower).core.durable_index < at:
            world.run(0.0001)
        assert world.group(follower).applied_index < at
        world.crash(follower, power=True)
        world.run_until(proposed.done)
        world.start(follower)
        assert world.group(follower).applied_index < at <= world.group(follower).log.last_index
        world.converge()
        world.run(1)
        assert world.group(follower).log_start_offset == offset
        assert world.files(1) == world.files(2) == world.files(3)


def test_a_returning_replica_gets_the_log_from_its_new_start() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 10)
        away = other_numbers(leader)[0]
        world.crash(away)
        world.fill(leader, 60)
        offset = world.group(leader).high_watermark - 5
        trim(world, leader, offset)
        world.start(away)
        world.run_until(lambda: world.group(away).log_start_offset == offset)
        world.converge()
        world.run(1)
        assert world.files(1) == world.files(2) == world.files(3)
        world.crash(away, power=True)
        world.start(away)
        world.converge()
        assert world.group(away).log_start_offset == offset
        assert world.files(away) == world.files(leader)


def test_a_damaged_replica_trims_once_it_is_repaired() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        world.converge()
        hurt = other_numbers(leader)[0]
        group = world.group(hurt)
        world.unreachable.update({1, 2, 3})
        active = group.log.segments.active
        world.disks[hurt - 1].flip_bit(active.files.log.path, active.end_position - 10, 3)
        with pytest.raises(RaftlogError):
            world.values(hurt)
        offset = world.group(leader).high_watermark - 5
        trim(world, leader, offset)
        world.run(1)
        assert group.damage is not None
        assert len(base_offsets(world, hurt)) > len(base_offsets(world, leader))
        world.unreachable.clear()
        world.run_until(lambda: group.damage is None, 60)
        world.run(1)
        assert group.log_start_offset == offset
        assert world.files(1) == world.files(2) == world.files(3)


def test_a_trim_waits_for_a_first_entry_that_cannot_be_read() -> None:
    """The disk fails to read the roll of the new first segment: this is damage, and does not stop the replica."""
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        world.converge()
        replica = other_numbers(leader)[0]
        kept = world.group(replica).log.segments.segments[-1]
        read, failures = kept.files.log.read, [OSError(errno.EIO, "the disk does not answer")] * 2

        def fail(position: int, length: int) -> bytes:
            if position == 0 and failures:
                raise failures.pop()
            return read(position, length)

        kept.files.log.read = fail  # type: ignore[method-assign]
        trim(world, leader, Offset(world.group(leader).high_watermark - 1))
        world.run_until(lambda: not failures and world.files(1) == world.files(2) == world.files(3))
        assert len(world.files(replica)) == 1
        assert not world.failures
