"""Damage in compacted segments: copied from another replica, or discarded on request where there is none."""

import pytest

from raftlog.errors import CorruptBatch
from raftlog.storage.verify import verify_log
from tests.runtime.compacted_world import (
    CONFIG,
    commit_mark,
    is_compacted,
    newest_by_key,
    read_committed,
    require_equal_replicas,
    write,
    write_and_compact,
)
from tests.runtime.drivers import World


def damage(world: World, number: int, at: str) -> None:
    segment = world.group(number).log.segments.segments[0]
    row = segment.row({"roll": 0, "inside": 1, "last": segment.rows - 1}[at])
    world.disks[number - 1].flip_bit(segment.files.log.path, row.position + 70, 1)


@pytest.mark.parametrize("at", ["roll", "inside", "last"])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_damaged_copies_are_repeated_and_acknowledged_records_stay(at: str, who: str) -> None:
    with World(config=CONFIG) as world:
        leader, _, expected = write_and_compact(world)
        victim = leader if who == "leader" else next(number for number in (1, 2, 3) if number != leader)
        damage(world, victim, at)
        group = world.group(victim)
        error = group.log.segments.corruption_error(
            group.log.segments.segments[0], group.log.segments.segments[0].row(0), "found"
        )
        world.run_at(victim, lambda: group.note_damage(error))
        expected |= write(world, world.leader(), 20, tag=b"meanwhile ")
        world.run_until(lambda: world.drivers[victim].entries_repaired > 0, 60)
        world.run_until(lambda: group.damage is None, 60)
        require_equal_replicas(world, expected | newest_by_key(world, world.leader()))
        world.crash(victim, power=True)
        world.start(victim)
        require_equal_replicas(world, newest_by_key(world, world.leader()))


def test_damage_below_the_compaction_of_the_others_is_repaired() -> None:
    """No replica serves the damaged entry any more, and none trimmed it."""
    with World(config=CONFIG) as world:
        leader = world.leader()
        victim = next(number for number in (1, 2, 3) if number != leader)
        expected = write(world, leader, 200)
        world.converge()
        group, segment = world.group(victim), world.group(victim).log.segments.segments[1]
        world.disks[victim - 1].flip_bit(segment.files.log.path, segment.row(3).position + 70, 1)
        world.unreachable |= {1, 2, 3}
        world.run_at(
            victim, lambda: group.note_damage(group.log.segments.corruption_error(segment, segment.row(3), "found"))
        )
        to = commit_mark(world, leader)
        for number in {1, 2, 3} - {victim}:
            world.run_until(lambda number=number: is_compacted(world, number, to), 60)  # type: ignore[misc]
        world.unreachable.clear()
        world.run_until(lambda: group.damage is None, 60)
        assert group.log_start_offset == 0
        require_equal_replicas(world, expected)


def test_uncompacted_damage_is_repaired_entry_by_entry_and_then_compacted() -> None:
    """The repair copies no whole log: compaction detects the damage before it changes any file."""
    with World(config=CONFIG) as world:
        leader = world.leader()
        expected = write(world, leader, 200)
        world.converge()
        away, other = sorted({1, 2, 3} - {leader})
        world.crash(away)
        for number, at in ((leader, 1), (other, 2)):
            segment = world.group(number).log.segments.segments[at]
            world.disks[number - 1].flip_bit(segment.files.log.path, segment.row(3).position + 70, 1)
        to = commit_mark(world, leader)
        for number in (leader, other):
            world.run_until(lambda number=number: world.drivers[number].entries_repaired == 1, 60)  # type: ignore[misc]
        for number in (leader, other):
            world.run_until(lambda number=number: is_compacted(world, number, to), 60)  # type: ignore[misc]
        world.start(away)
        world.run_until(lambda: is_compacted(world, away, to), 60)
        world.converge()
        assert [newest_by_key(world, number) for number in (1, 2, 3)] == [expected] * 3
        assert not world.failures


def test_a_trim_of_damaged_files_ends_their_repair() -> None:
    with World(config=CONFIG) as world:
        leader, to, _ = write_and_compact(world)
        victim = next(number for number in (1, 2, 3) if number != leader)
        damage(world, victim, "inside")
        group, segment = world.group(victim), world.group(victim).log.segments.segments[0]
        world.unreachable |= {1, 2, 3}
        world.run_at(
            victim, lambda: group.note_damage(group.log.segments.corruption_error(segment, segment.row(1), "found"))
        )
        [trimmed] = world.run_at(leader, lambda: world.group(leader).propose_trim(to))
        world.run_until(lambda: trimmed.done() and group.log_start_offset == to)  # type: ignore[attr-defined]
        world.unreachable.clear()
        world.run_until(lambda: group.damage is None, 60)
        require_equal_replicas(world, newest_by_key(world, leader))


def test_a_copy_begins_at_the_log_start_after_a_missed_trim() -> None:
    with World(config=CONFIG) as world:
        leader = world.leader()
        write(world, leader, 300, keys=60)
        to = commit_mark(world, leader)
        world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)))
        world.run(3)  # a checkpoint
        victim = next(number for number in (1, 2, 3) if number != leader)
        world.crash(victim)
        start = world.group(leader).log.segments.segments[1].base_offset
        [trimmed] = world.run_at(leader, lambda: world.group(leader).propose_trim(start))
        world.run_until(trimmed.done)  # type: ignore[attr-defined]
        world.run(1)
        for other in {1, 2, 3} - {victim}:
            world.network.cut(world.nodes[other - 1], world.nodes[victim - 1])
        world.start(victim)
        group, segment = world.group(victim), world.group(victim).log.segments.segments[1]
        row = segment.row(segment.rows - 1)
        world.disks[victim - 1].flip_bit(segment.files.log.path, row.position + 70, 1)
        world.run_at(victim, lambda: group.note_damage(group.log.segments.corruption_error(segment, row, "found")))
        world.run_until(lambda: group.damage is None)
        assert group.log_start_offset == start
        world.network.heal()
        require_equal_replicas(world, newest_by_key(world, world.leader()))
        world.crash(victim, power=True)
        world.start(victim)
        require_equal_replicas(world, newest_by_key(world, world.leader()))


def test_a_sole_replica_continues_with_gaps_on_request() -> None:
    with World(config=CONFIG, count=1) as world:
        world.leader()
        expected = write(world, 1, 200)
        to = commit_mark(world, 1)
        world.run_until(lambda: is_compacted(world, 1, to))
        group, (offset, lost, _) = world.group(1), read_committed(world, 1)[0]
        segment = group.log.segments.segment_of_offset(offset)
        assert segment.is_compacted
        row = segment.row(segment.find_row(offset))
        world.disks[0].flip_bit(segment.files.log.path, row.position + 70, 1)
        with pytest.raises(CorruptBatch):
            read_committed(world, 1)
        world.run(3.0)
        assert group.damage is not None
        assert group.damaged is not None
        assert len(group.damaged) == 1
        world.crash(1, power=True)
        world.start(1)
        world.run_at(1, lambda: world.loop.create_task(world.drivers[1].catch_up.rebuild(world.group(1), 5)))
        world.run_until(lambda: world.group(1).damage is None and bool(world._leaders()), 30)
        write(world, 1, 1)
        assert {*expected} - {*newest_by_key(world, 1)} <= {lost}
        world.crash(1, power=True)
        world.start(1)
        world.leader()
        world.converge()
        assert {*expected} - {*newest_by_key(world, 1)} <= {lost}
        assert verify_log(world.disks[0], world.group(1).path).problems == []
