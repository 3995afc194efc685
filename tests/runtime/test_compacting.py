"""Compaction in running drivers: marks, checkpoints, followers that are behind, restarts; what is read."""

import asyncio
import uuid
from dataclasses import replace

import pytest

from raftlog.errors import CorruptBatch, EntriesTrimmed
from raftlog.raft import RaftSettings
from raftlog.records import (
    ControlKind,
    NewRecord,
    build_batch,
    build_control_batch,
    read_control,
    read_header,
    read_records,
    stamp,
)
from raftlog.runtime.bulk import PieceAsked, PieceFound
from raftlog.runtime.control_entries import CompactedTo, encode_compacted_to, is_control
from raftlog.storage.compaction import clean_to
from raftlog.storage.gap import gap_batch, gap_in
from raftlog.storage.roll import decode_roll, encode_roll
from raftlog.storage.verify import verify_log
from raftlog.types import Index, Offset, Term
from tests.runtime.drivers import SMALL, World

KEYS = 5
CONFIG = replace(SMALL, segment_bytes=4096, compaction_bytes_per_s=1 << 20, compaction_wait_ms=3000)
Found = dict[bytes, bytes]


def write(world: World, number: int, count: int, keys: int = KEYS, tag: bytes = b"") -> Found:
    """So many records with keys in turn; what is the newest of each key afterwards."""
    newest: Found = {}
    for position in range(count):
        key, value = b"key %d" % (position % keys), b"%s%d " % (tag, position) + b"x" * 100
        batch = build_batch([NewRecord(value, key, 1000 + position)])
        [future] = world.do(number, lambda batch=batch: world.group(number).propose([batch]))  # type: ignore[misc]
        world.run_until(future.done)  # type: ignore[attr-defined]
        newest[key] = value
    return newest


def mark(world: World, number: int, tombstones_to: int = 0) -> Offset:
    """Commit a mark at the newest roll."""
    offset = Offset(world.group(number).log.segments.active.base_offset)
    payload = encode_compacted_to(CompactedTo(offset, Offset(tombstones_to)))
    [future] = world.do(number, lambda: world.group(number).propose_control([(ControlKind.COMPACTED_TO, payload)]))
    world.run_until(future.done)  # type: ignore[attr-defined]
    return offset


def is_compacted(world: World, number: int, to: int) -> bool:
    log = world.group(number).log
    return clean_to(log.segments) >= to and world.drivers[number].compacting.current is None


def read(world: World, number: int, offset: int = 0) -> list[tuple[int, bytes, bytes]]:
    """Every committed record from `offset` on, by fetches, none of which is empty below the high watermark."""
    group, found = world.group(number), []
    offset = max(offset, group.log_start_offset)
    while offset < group.high_watermark:
        batches = group.read(offset, 1000)
        assert batches, f"nothing at {offset} of {group.high_watermark}"
        for batch in batches:
            found += [(each.offset, each.key or b"", each.value or b"") for each in read_records(batch)]
        offset = read_header(batches[-1]).next_offset
    return found


def newest(world: World, number: int) -> Found:
    return {key: value for _, key, value in read(world, number)}


def compacted(world: World, count: int = 200) -> tuple[int, Offset, Found]:
    leader = world.leader()
    expected = write(world, leader, count)
    to = mark(world, leader)
    for number in list(world.drivers):
        world.run_until(lambda number=number: is_compacted(world, number, to))  # type: ignore[misc]
    return leader, to, expected


def test_every_replica_compacts_below_the_mark_by_itself() -> None:
    with World(config=CONFIG) as world:
        _, to, expected = compacted(world)
        world.converge()
        for number in (1, 2, 3):
            found = read(world, number)
            assert newest(world, number) == expected
            assert len([record for record in found if record[0] < to]) <= KEYS
            assert [record[0] for record in found if record[0] >= to] == list(range(to, 200))
            done = world.drivers[number].compacting.done[world.group(number).key]
            assert (done.compacted_to, done.bytes_after < done.bytes_before / 4) == (to, True)
            with pytest.raises(EntriesTrimmed):
                world.group(number).committed_entries(Index(1), 1000)
        assert not world.failures


def test_writes_go_on_meanwhile_and_a_second_mark_takes_in_the_first() -> None:
    with World(config=CONFIG) as world:
        leader, first, _ = compacted(world)
        expected = write(world, leader, 200, tag=b"later ")
        second = mark(world, leader)
        assert second > first
        expected |= write(world, leader, 20, tag=b"meanwhile ")
        for number in (1, 2, 3):
            world.run_until(lambda number=number: is_compacted(world, number, second))  # type: ignore[misc]
        world.converge()
        for number in (1, 2, 3):
            assert newest(world, number) == expected
            assert len(read(world, number)) <= KEYS + 220 + 200 - second
            rolls = [segment.compacted_to for segment in world.group(number).log.segments.segments]
            assert max(rolls) == second


def test_rolls_say_the_mark_and_a_restart_takes_it_up() -> None:
    """Also when the process ends before anything was compacted."""
    with World(config=replace(CONFIG, checkpoint_interval_ms=20_000)) as world:
        leader = world.leader()
        write(world, leader, 100)
        to = mark(world, leader)
        expected = write(world, leader, 60)
        assert world.group(leader).log.segments.active.compacted_to == to
        for number in (1, 2, 3):
            assert not _is_partly_done(world, number)
            world.crash(number, power=True)
        for number in (1, 2, 3):
            world.start(number)
        world.leader()
        world.converge()
        for number in (1, 2, 3):
            world.run_until(lambda number=number: is_compacted(world, number, to), 50)  # type: ignore[misc]
            assert newest(world, number) == expected


@pytest.mark.parametrize("power", [False, True])
def test_a_restart_in_the_middle_and_after_it(power: bool) -> None:
    with World(config=replace(CONFIG, compaction_bytes_per_s=8192)) as world:
        leader = world.leader()
        expected = write(world, leader, 300)
        to = mark(world, leader)
        world.run_until(lambda: clean_to(world.group(leader).log.segments) > 0 or _is_partly_done(world, leader))
        for number in (1, 2, 3):
            world.crash(number, power=power)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.leader()
        world.converge()
        for number in (1, 2, 3):
            assert newest(world, number) == expected
        expected |= write(world, leader, 40)
        later = mark(world, leader)
        assert later >= to
        for number in (1, 2, 3):
            world.run_until(lambda number=number: is_compacted(world, number, later), 100)  # type: ignore[misc]
        for number in (1, 2, 3):
            world.crash(number, power=power)
            world.start(number)
        world.leader()
        world.converge()
        for number in (1, 2, 3):
            assert newest(world, number) == expected
            assert is_compacted(world, number, later)
        assert not world.failures


def _is_partly_done(world: World, number: int) -> bool:
    return any(segment.is_compacted for segment in world.group(number).log.segments.segments)


def test_no_file_is_touched_before_a_checkpoint_knows_what_stands_behind_it() -> None:
    with World(config=replace(CONFIG, checkpoint_interval_ms=60_000)) as world:
        leader = world.leader()
        write(world, leader, 100)
        to = mark(world, leader)
        world.run(5.0)
        completed = world.drivers[leader].persister.checkpoints.completed
        assert not is_compacted(world, leader, to)
        world.run_until(lambda: is_compacted(world, leader, to), 120)
        assert world.drivers[leader].persister.checkpoints.completed > completed


def test_a_leader_waits_a_while_for_a_follower_that_lacks_what_is_compacted() -> None:
    fetching = RaftSettings(fetch_bytes_min=8192)
    with World(config=replace(CONFIG, transfer_window_bytes=1, raft=fetching)) as world:
        leader = world.leader()
        follower = next(number for number in (1, 2, 3) if number != leader)
        world.crash(follower)
        expected = write(world, leader, 150)
        world.start(follower)
        to = mark(world, leader)
        world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)), 60)
        world.converge()
        assert newest(world, follower) == expected
        assert world.group(follower).log.boundary.index > 1


# a follower that is behind the mark


def behind(world: World, count: int = 200) -> tuple[int, int, Offset, Found]:
    """A leader that compacted, and a follower that was down all the while."""
    leader = world.leader()
    follower = next(number for number in (1, 2, 3) if number != leader)
    write(world, leader, 20, tag=b"old ")
    world.converge()
    world.crash(follower)
    expected = write(world, leader, count)
    to = mark(world, leader)
    for number in list(world.drivers):
        world.run_until(lambda number=number: is_compacted(world, number, to))  # type: ignore[misc]
    return leader, follower, to, expected | write(world, leader, 10, tag=b"later ")


def require_same(world: World, expected: Found) -> None:
    world.converge()
    for number in (1, 2, 3):
        assert newest(world, number) == expected
        assert read(world, number) == read(world, 1)
        assert world.group(number).log.boundary == world.group(1).log.boundary
    assert not world.failures


def test_a_follower_behind_the_mark_copies_the_compacted_files() -> None:
    with World(config=CONFIG) as world:
        leader, follower, to, expected = behind(world)
        world.start(follower)
        require_same(world, expected)
        assert world.files(follower) == world.files(leader)
        assert world.group(follower).log.mark.compacted_to == to
        assert world.group(follower).log_start_offset == 0
        world.crash(follower, power=True)
        world.start(follower)
        write(world, leader, 30)
        require_same(world, newest(world, leader))


def test_what_is_compacted_while_it_is_copied_is_copied_anew() -> None:
    config = replace(CONFIG, transfer_chunk_bytes=256, compaction_wait_ms=1, checkpoint_interval_ms=50)
    with World(config=config) as world:
        leader, follower, _, _ = behind(world)
        write(world, leader, 60, keys=40, tag=b"more ")
        segments = world.group(leader).log.segments
        world.start(follower)
        asked: list[object] = []
        serve = world.drivers[leader].serve

        async def noting(node: object, request: object) -> object:
            asked.append(request)
            await asyncio.sleep(0.05)
            return await serve(node, request)  # type: ignore[arg-type]

        world.drivers[leader].serve = noting  # type: ignore[method-assign, assignment]
        world.run_until(lambda: sum(isinstance(each, PieceAsked) for each in asked) > 2)
        generation = segments.generation
        to = mark(world, leader)
        world.run_until(lambda: segments.generation > generation)
        world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)), 100)
        require_same(world, newest(world, leader))
        assert len({each.version for each in asked if isinstance(each, PieceAsked)}) > 1


@pytest.mark.parametrize("what", ["flip", "other group", "wide gap", "too early", "no roll"])
def test_only_files_that_hold_together_are_taken(what: str) -> None:
    with World(config=CONFIG) as world:
        leader, follower, _, expected = behind(world)
        serve = world.drivers[leader].serve
        is_lying = True

        async def lying(node: object, request: object) -> object:
            found = await serve(node, request)  # type: ignore[arg-type]
            if not is_lying or not isinstance(found, PieceFound) or not found.batches:
                return found
            return PieceFound(tuple(spoilt(what, found.batches)))

        world.drivers[leader].serve = lying  # type: ignore[method-assign, assignment]
        world.start(follower)
        world.run(3.0)
        assert world.group(follower).log.last_index < world.group(leader).log.boundary.index
        is_lying = False
        world.run_until(lambda: world.group(follower).log.boundary == world.group(leader).log.boundary, 60)
        require_same(world, expected)


def spoilt(what: str, batches: tuple[bytes, ...]) -> list[bytes]:
    changed = list(batches)
    gaps = [at for at, batch in enumerate(changed) if gap_in(batch, read_header(batch))]
    if what == "flip":
        changed[-1] = changed[-1][:-1] + bytes([changed[-1][-1] ^ 1])
    elif what == "other group":
        header = read_header(changed[0])
        if is_control(changed[0]) and read_control(changed[0])[0] is ControlKind.ROLL:
            roll = decode_roll(read_control(changed[0])[1])._replace(group_id=uuid.UUID(int=1))
            offset = Offset(header.base_offset)
            other = build_control_batch(ControlKind.ROLL, encode_roll(roll), roll.created_ms, next_offset=offset)
            stamp(other, offset, Term(header.leader_epoch))
            changed[0] = bytes(other)
    elif what == "wide gap" and gaps:
        gap = gap_in(changed[gaps[0]], read_header(changed[gaps[0]]))
        assert gap is not None
        changed[gaps[0]] = gap_batch(gap._replace(last_index=gap.last_index + 1))
    elif what == "too early":
        del changed[-1]
    elif what == "no roll":
        del changed[0]
    return changed


# damage in what is compacted


def damage(world: World, number: int, at: str) -> None:
    segment = world.group(number).log.segments.segments[0]
    row = segment.row({"roll": 0, "inside": 1, "last": segment.rows - 1}[at])
    world.disks[number - 1].flip_bit(segment.files.log.path, row.position + 70, 1)


@pytest.mark.parametrize("at", ["roll", "inside", "last"])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_what_is_damaged_there_is_copied_anew_and_what_was_acknowledged_stays(at: str, who: str) -> None:
    with World(config=CONFIG) as world:
        leader, _, expected = compacted(world)
        victim = leader if who == "leader" else next(number for number in (1, 2, 3) if number != leader)
        damage(world, victim, at)
        group = world.group(victim)
        error = group.log.segments.corrupt(
            group.log.segments.segments[0], group.log.segments.segments[0].row(0), "found"
        )
        world.do(victim, lambda: group.note_damage(error))
        expected |= write(world, world.leader(), 20, tag=b"meanwhile ")
        world.run_until(lambda: world.drivers[victim].entries_repaired > 0, 60)
        world.run_until(lambda: group.damage is None, 60)
        require_same(world, expected | newest(world, world.leader()))
        world.crash(victim, power=True)
        world.start(victim)
        require_same(world, newest(world, world.leader()))


def test_damage_below_where_the_others_have_compacted_already() -> None:
    """Nobody gives the entry any more, and nobody trimmed it away."""
    with World(config=CONFIG) as world:
        leader = world.leader()
        victim = next(number for number in (1, 2, 3) if number != leader)
        expected = write(world, leader, 200)
        world.converge()
        group, segment = world.group(victim), world.group(victim).log.segments.segments[1]
        world.disks[victim - 1].flip_bit(segment.files.log.path, segment.row(3).position + 70, 1)
        world.unreachable |= {1, 2, 3}
        world.do(victim, lambda: group.note_damage(group.log.segments.corrupt(segment, segment.row(3), "found")))
        to = mark(world, leader)
        for number in {1, 2, 3} - {victim}:
            world.run_until(lambda number=number: is_compacted(world, number, to), 60)  # type: ignore[misc]
        world.unreachable.clear()
        world.run_until(lambda: group.damage is None, 60)
        assert group.log_start_offset == 0
        require_same(world, expected)


def test_a_copy_begins_where_a_trim_that_was_not_heard_of_let_the_others_begin() -> None:
    with World(config=CONFIG) as world:
        leader = world.leader()
        write(world, leader, 300, keys=60)
        to = mark(world, leader)
        world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)))
        world.run(3)  # a checkpoint
        victim = next(number for number in (1, 2, 3) if number != leader)
        world.crash(victim)
        start = world.group(leader).log.segments.segments[1].base_offset
        [trimmed] = world.do(leader, lambda: world.group(leader).propose_trim(start))
        world.run_until(trimmed.done)  # type: ignore[attr-defined]
        world.run(1)
        for other in {1, 2, 3} - {victim}:
            world.network.cut(world.nodes[other - 1], world.nodes[victim - 1])
        world.start(victim)
        group, segment = world.group(victim), world.group(victim).log.segments.segments[1]
        row = segment.row(segment.rows - 1)
        world.disks[victim - 1].flip_bit(segment.files.log.path, row.position + 70, 1)
        world.do(victim, lambda: group.note_damage(group.log.segments.corrupt(segment, row, "found")))
        world.run_until(lambda: group.damage is None)
        assert group.log_start_offset == start
        world.network.heal()
        require_same(world, newest(world, world.leader()))
        world.crash(victim, power=True)
        world.start(victim)
        require_same(world, newest(world, world.leader()))


def test_a_replica_alone_keeps_what_is_sound_and_goes_on_with_gaps_by_order() -> None:
    with World(config=CONFIG, count=1) as world:
        world.leader()
        expected = write(world, 1, 200)
        to = mark(world, 1)
        world.run_until(lambda: is_compacted(world, 1, to))
        group, (offset, lost, _) = world.group(1), read(world, 1)[0]
        segment = group.log.segments.segment_of_offset(offset)
        assert segment.is_compacted
        row = segment.row(segment.find_row(offset))
        world.disks[0].flip_bit(segment.files.log.path, row.position + 70, 1)
        with pytest.raises(CorruptBatch):
            read(world, 1)
        world.run(3.0)
        assert group.damage is not None
        assert group.damaged is not None
        assert len(group.damaged) == 1
        world.crash(1, power=True)
        world.start(1)
        world.do(1, lambda: world.loop.create_task(world.drivers[1].catch_up.rebuild(world.group(1), 5)))
        world.run_until(lambda: world.group(1).damage is None and bool(world._leaders()), 30)
        write(world, 1, 1)
        assert {*expected} - {*newest(world, 1)} <= {lost}
        world.crash(1, power=True)
        world.start(1)
        world.leader()
        world.converge()
        assert {*expected} - {*newest(world, 1)} <= {lost}
        assert verify_log(world.disks[0], world.group(1).path).problems == []


def test_a_mark_that_comes_while_one_waits_has_a_checkpoint_of_its_own() -> None:
    """Otherwise recovery would begin with an entry in a file that was rewritten."""
    with World(config=replace(CONFIG, checkpoint_interval_ms=8_000)) as world:
        leader = world.leader()
        write(world, leader, 100)
        supplying, key = world.drivers[leader].supplying, world.group(leader).key
        first = mark(world, leader)
        checkpoints = world.drivers[leader].persister.checkpoints
        completed = checkpoints.completed

        def is_held() -> bool:
            supplying._copied_at[key] = world.drivers[leader].loop.time()
            return checkpoints.completed > completed

        world.run_until(is_held)
        assert clean_to(world.group(leader).log.segments) < first
        expected = write(world, leader, 100, tag=b"later ")
        second = mark(world, leader)
        supplying._copied_at.clear()
        world.run_until(lambda: is_compacted(world, leader, first))
        assert clean_to(world.group(leader).log.segments) < second
        world.crash(leader)
        world.start(leader)
        assert world.group(leader).damage is None
        require_same_after(world, expected, second)


def require_same_after(world: World, expected: Found, to: Offset) -> None:
    world.leader()
    expected |= write(world, world.leader(), 60, tag=b"last ")
    world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)), 60)
    require_same(world, expected)
