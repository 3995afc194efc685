"""Compaction in running drivers: marks, checkpoints, lagging followers, restarts, and reads."""

import asyncio
import uuid
from dataclasses import replace

import pytest

from raftlog.errors import EntriesTrimmed
from raftlog.raft import ConfigurationChange, RaftSettings, Role
from raftlog.records import (
    ControlKind,
    build_control_batch,
    read_control,
    read_header,
    stamp,
)
from raftlog.runtime.log.control_entries import is_control
from raftlog.runtime.transfer.bulk import PieceRequest, PieceResult
from raftlog.storage.compaction import find_clean_end
from raftlog.storage.gap import build_gap_batch, read_gap
from raftlog.storage.roll import decode_roll, encode_roll
from raftlog.types import Index, Offset, Term
from tests.runtime.compacted_world import (
    CONFIG,
    KEYS,
    Found,
    commit_mark,
    is_compacted,
    newest_by_key,
    read_committed,
    require_equal_replicas,
    write,
    write_and_compact,
)
from tests.runtime.drivers import GROUP, World, is_of_journal


def test_every_replica_compacts_below_the_mark() -> None:
    with World(config=CONFIG) as world:
        _, to, expected = write_and_compact(world)
        world.converge()
        for number in (1, 2, 3):
            found = read_committed(world, number)
            assert newest_by_key(world, number) == expected
            assert len([record for record in found if record[0] < to]) <= KEYS
            assert [record[0] for record in found if record[0] >= to] == list(range(to, 200))
            done = world.drivers[number].compactor.done[world.group(number).key]
            assert (done.compacted_to, done.bytes_after < done.bytes_before / 4) == (to, True)
            with pytest.raises(EntriesTrimmed):
                world.group(number).committed_entries(Index(1), 1000)
        assert not world.failures


def test_writes_continue_and_a_second_mark_includes_the_first() -> None:
    with World(config=CONFIG) as world:
        leader, first, _ = write_and_compact(world)
        expected = write(world, leader, 200, tag=b"later ")
        second = commit_mark(world, leader)
        assert second > first
        expected |= write(world, leader, 20, tag=b"meanwhile ")
        for number in (1, 2, 3):
            world.run_until(lambda number=number: is_compacted(world, number, second))  # type: ignore[misc]
        world.converge()
        for number in (1, 2, 3):
            assert newest_by_key(world, number) == expected
            assert len(read_committed(world, number)) <= KEYS + 220 + 200 - second
            rolls = [segment.compacted_to for segment in world.group(number).log.segments.segments]
            assert max(rolls) == second


def test_rolls_have_the_mark_and_a_restart_reads_it() -> None:
    """The process may also stop before it compacted any file."""
    with World(config=replace(CONFIG, checkpoint_interval_ms=20_000)) as world:
        leader = world.leader()
        write(world, leader, 100)
        to = commit_mark(world, leader)
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
            assert newest_by_key(world, number) == expected


@pytest.mark.parametrize("power", [False, True])
def test_a_restart_during_and_after_a_compaction_keeps_all_records(power: bool) -> None:
    with World(config=replace(CONFIG, compaction_bytes_per_s=8192)) as world:
        leader = world.leader()
        expected = write(world, leader, 300)
        to = commit_mark(world, leader)
        world.run_until(lambda: find_clean_end(world.group(leader).log.segments) > 0 or _is_partly_done(world, leader))
        for number in (1, 2, 3):
            world.crash(number, power=power)
        for number in (1, 2, 3):
            world.start(number)
        leader = world.leader()
        world.converge()
        for number in (1, 2, 3):
            assert newest_by_key(world, number) == expected
        expected |= write(world, leader, 40)
        later = commit_mark(world, leader)
        assert later >= to
        for number in (1, 2, 3):
            world.run_until(lambda number=number: is_compacted(world, number, later), 100)  # type: ignore[misc]
        for number in (1, 2, 3):
            world.crash(number, power=power)
            world.start(number)
        world.leader()
        world.converge()
        for number in (1, 2, 3):
            assert newest_by_key(world, number) == expected
            assert is_compacted(world, number, later)
        assert not world.failures


def _is_partly_done(world: World, number: int) -> bool:
    return any(segment.is_compacted for segment in world.group(number).log.segments.segments)


def test_no_file_is_changed_before_a_checkpoint_covers_later_entries() -> None:
    with World(config=replace(CONFIG, checkpoint_interval_ms=60_000)) as world:
        leader = world.leader()
        write(world, leader, 100)
        to = commit_mark(world, leader)
        world.run(5.0)
        completed = world.drivers[leader].persister.checkpoints.completed
        assert not is_compacted(world, leader, to)
        world.run_until(lambda: is_compacted(world, leader, to), 120)
        assert world.drivers[leader].persister.checkpoints.completed > completed


@pytest.mark.parametrize("power", [False, True])
def test_no_file_is_changed_before_recovery_begins_at_that_checkpoint(power: bool) -> None:
    """The segments' sync has returned, and the journal's has not.

    Recovery would begin with an entry in a file that was rewritten."""
    with World(1, config=CONFIG) as world:
        expected = write(world, world.leader(), 100)
        commit_mark(world, 1)
        checkpoints, disk = world.drivers[1].persister.checkpoints, world.disks[0]
        begun, completed = checkpoints.begun, checkpoints.completed
        disk.hold(is_of_journal)
        world.run(3.0)
        assert (checkpoints.begun, checkpoints.completed) == (begun + 1, completed)
        assert not _is_partly_done(world, 1)
        world.crash(1, power=power)
        disk.release()
        world.start(1)
        assert world.group(1).damage is None
        world.leader()
        assert newest_by_key(world, 1) == expected


def test_a_leader_delays_compaction_for_a_lagging_follower() -> None:
    fetching = RaftSettings(fetch_bytes_min=8192)
    with World(config=replace(CONFIG, transfer_window_bytes=1, raft=fetching)) as world:
        leader = world.leader()
        follower = next(number for number in (1, 2, 3) if number != leader)
        world.crash(follower)
        expected = write(world, leader, 150)
        world.start(follower)
        to = commit_mark(world, leader)
        world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)), 60)
        world.converge()
        assert newest_by_key(world, follower) == expected
        assert world.group(follower).log.boundary.index > 1


# members


def replace_voter(world: World) -> tuple[int, list[int]]:
    """Replace a follower by another voter, and compact that entry; return the follower and the voters."""
    leader = world.leader()
    old = next(number for number in (1, 2, 3) if number != leader)
    voters = sorted({1, 2, 3, 4} - {old})
    write(world, leader, 60)
    world.run_at(4, lambda: world.drivers[4].join_group(GROUP))
    group = world.group(leader)
    wanted = tuple(world.ids[number - 1] for number in voters)
    change = ConfigurationChange(wanted, (), group.core.configuration.index)
    world.run_at(leader, lambda: group.change_members(change))
    world.run_until(lambda: group.core.configuration.all_members() == wanted)
    write(world, leader, 100)
    to = commit_mark(world, leader)
    for number in voters:
        world.run_until(lambda number=number: is_compacted(world, number, to))  # type: ignore[misc]
        world.run_until(lambda number=number: _compacted_above_members(world, number), 60)  # type: ignore[misc]
    write(world, leader, 1)
    world.run(5.0)  # a checkpoint says that no entry names the voters any more
    return old, voters


def _compacted_above_members(world: World, number: int) -> bool:
    group = world.group(number)
    return group.log.boundary.index > group.core.configuration.index


def test_the_voters_after_a_restart_are_those_of_the_newest_roll() -> None:
    """The configuration entry was compacted; the first roll still has the first voters."""
    with World(4, config=CONFIG, voters=3) as world:
        old, voters = replace_voter(world)
        for number in voters:
            before = world.group(number).core.configuration
            world.crash(number)
            world.start(number)
            assert world.group(number).core.configuration == before
        for number in (1, 2, 3, 4):
            world.crash(number)
        world.start(old)
        world.start(voters[0])
        world.run(5.0)
        assert world.group(voters[0]).core.role is not Role.LEADER, "elected by a voter that was replaced"


# a follower that is behind the mark


def compact_without_follower(world: World, count: int = 200) -> tuple[int, int, Offset, Found]:
    """Compact while a follower is down; return leader, follower, mark, and expected records."""
    leader = world.leader()
    follower = next(number for number in (1, 2, 3) if number != leader)
    write(world, leader, 20, tag=b"old ")
    world.converge()
    world.crash(follower)
    expected = write(world, leader, count)
    to = commit_mark(world, leader)
    for number in list(world.drivers):
        world.run_until(lambda number=number: is_compacted(world, number, to))  # type: ignore[misc]
    return leader, follower, to, expected | write(world, leader, 10, tag=b"later ")


def test_a_follower_behind_the_mark_copies_the_compacted_files() -> None:
    with World(config=CONFIG) as world:
        leader, follower, to, expected = compact_without_follower(world)
        world.start(follower)
        require_equal_replicas(world, expected)
        assert world.files(follower) == world.files(leader)
        assert world.group(follower).log.mark.compacted_to == to
        assert world.group(follower).log_start_offset == 0
        world.crash(follower, power=True)
        world.start(follower)
        write(world, leader, 30)
        require_equal_replicas(world, newest_by_key(world, leader))


def test_segments_compacted_during_their_copy_are_copied_again() -> None:
    config = replace(CONFIG, transfer_chunk_bytes=256, compaction_wait_ms=1, checkpoint_interval_ms=50)
    with World(config=config) as world:
        leader, follower, _, _ = compact_without_follower(world)
        write(world, leader, 60, keys=40, tag=b"more ")
        segments = world.group(leader).log.segments
        world.start(follower)
        asked: list[object] = []
        serve = world.drivers[leader].serve

        async def serve_slowly(node: object, request: object) -> object:
            asked.append(request)
            await asyncio.sleep(0.05)
            return await serve(node, request)  # type: ignore[arg-type]

        world.drivers[leader].serve = serve_slowly  # type: ignore[method-assign, assignment]
        world.run_until(lambda: sum(isinstance(each, PieceRequest) for each in asked) > 2)
        generation = segments.generation
        to = commit_mark(world, leader)
        world.run_until(lambda: segments.generation > generation)
        world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)), 100)
        require_equal_replicas(world, newest_by_key(world, leader))
        assert len({each.version for each in asked if isinstance(each, PieceRequest)}) > 1


@pytest.mark.parametrize("what", ["flip", "other group", "wide gap", "too early", "no roll"])
def test_only_consistent_files_are_accepted(what: str) -> None:
    with World(config=CONFIG) as world:
        leader, follower, _, expected = compact_without_follower(world)
        serve = world.drivers[leader].serve
        is_lying = True

        async def serve_spoiled(node: object, request: object) -> object:
            found = await serve(node, request)  # type: ignore[arg-type]
            if not is_lying or not isinstance(found, PieceResult) or not found.batches:
                return found
            return PieceResult(tuple(spoil(what, found.batches)))

        world.drivers[leader].serve = serve_spoiled  # type: ignore[method-assign, assignment]
        world.start(follower)
        world.run(3.0)
        assert world.group(follower).log.last_index < world.group(leader).log.boundary.index
        is_lying = False
        world.run_until(lambda: world.group(follower).log.boundary == world.group(leader).log.boundary, 60)
        require_equal_replicas(world, expected)


def spoil(what: str, batches: tuple[bytes, ...]) -> list[bytes]:
    """Return the batches with one change."""
    changed = list(batches)
    gaps = [at for at, batch in enumerate(changed) if read_gap(batch, read_header(batch))]
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
        gap = read_gap(changed[gaps[0]], read_header(changed[gaps[0]]))
        assert gap is not None
        changed[gaps[0]] = build_gap_batch(gap._replace(last_index=gap.last_index + 1))
    elif what == "too early":
        del changed[-1]
    elif what == "no roll":
        del changed[0]
    return changed


def test_a_mark_during_a_waiting_one_has_its_own_checkpoint() -> None:
    """Otherwise recovery would begin with an entry in a file that was rewritten."""
    with World(config=replace(CONFIG, checkpoint_interval_ms=8_000)) as world:
        leader = world.leader()
        write(world, leader, 100)
        supplying, key = world.drivers[leader].supplier, world.group(leader).key
        first = commit_mark(world, leader)
        checkpoints = world.drivers[leader].persister.checkpoints
        completed = checkpoints.completed

        def is_held() -> bool:
            supplying._copied_at[key] = world.drivers[leader].loop.time()
            return checkpoints.completed > completed

        world.run_until(is_held)
        assert find_clean_end(world.group(leader).log.segments) < first
        expected = write(world, leader, 100, tag=b"later ")
        second = commit_mark(world, leader)
        supplying._copied_at.clear()
        world.run_until(lambda: is_compacted(world, leader, first))
        assert find_clean_end(world.group(leader).log.segments) < second
        world.crash(leader)
        world.start(leader)
        assert world.group(leader).damage is None
        require_equal_replicas_after(world, expected, second)


def require_equal_replicas_after(world: World, expected: Found, to: Offset) -> None:
    world.leader()
    expected |= write(world, world.leader(), 60, tag=b"last ")
    world.run_until(lambda: all(is_compacted(world, number, to) for number in (1, 2, 3)), 60)
    require_equal_replicas(world, expected)
