"""Committed data read from files of processes that stopped, were killed, or lost their power.

Disks and network are simulated, drivers and journals are the real ones. The reference is the slow reader, which folds
the journal and walks every file (`runtime.log.offline`), and the entries committed while the processes ran."""

from random import Random

import pytest

from raftlog.errors import CorruptBatch
from raftlog.pipeline.segments.extent import CarriedBudget, LogExtent, find_extent
from raftlog.pipeline.segments.plan import splits_of
from raftlog.pipeline.segments.reader import OnDamage, checked_batches
from raftlog.pipeline.segments.replicas import DataDirectory, FoundReplica
from raftlog.records import ControlKind, build_control_batch, read_header, read_records
from raftlog.runtime.log.offline import OfflineReplica, list_offline_replicas
from raftlog.storage.disk import Disk
from raftlog.storage.roll import Roll, encode_roll
from raftlog.types import Offset
from tests.runtime.drivers import GROUP, World

Kept = tuple[int, bytes | None]


def offline_replica(world: World, number: int) -> OfflineReplica:
    [replica] = list_offline_replicas(world.disks[number - 1], "/data", world.ids[number - 1].disk_uuid)
    return replica


def find_replica(world: World, number: int) -> FoundReplica:
    replica, owner = offline_replica(world, number), DataDirectory("/data", world.ids[number - 1].disk_uuid)
    return FoundReplica("t", 0, replica.path, replica.group_id, owner, replica.folded, replica.fold)


def committed_records(disk: Disk, replica: OfflineReplica) -> list[Kept]:
    """Return the committed data records of a replica that is not running."""
    last, kept = replica.find_committed_index(disk), []
    for entry in replica.entries(disk):
        if entry.reason is not None:
            kept.clear()  # of a file that begins below the log start; otherwise something is missing below
        elif entry.index <= last and not read_header(entry.batch).is_control:
            kept += [(record.offset, record.value) for record in read_records(entry.batch)]
    return [each for each in kept if each[0] >= replica.log_start_offset]


def read_committed(world: World, number: int) -> dict[int, bytes | None]:
    """Return the records that a running replica serves to consumers."""
    group = world.group(number)
    offset: int = group.log_start_offset
    values = {}
    while offset < group.high_watermark:
        for batch in group.read(offset, 1 << 20):
            values |= {record.offset: record.value for record in read_records(batch)}
            offset = read_header(batch).next_offset
    return values


def trim(world: World, leader: int, offset: int) -> None:
    [future] = world.run_at(leader, lambda: world.group(leader).propose_trim(offset))
    world.run_until(future.done)  # type: ignore[attr-defined]


def read_extent(
    disk: Disk,
    extent: LogExtent,
    split_bytes: int = 6000,
    start: int | None = None,
    on_damage: OnDamage | None = None,
) -> list[Kept]:
    """Read the extent in splits; check that the splits cover it without gap or overlap."""
    start, skips = extent.start if start is None else start, on_damage is not None
    splits = splits_of(extent, start, extent.end, split_bytes=split_bytes, skips_damage=skips, disk=disk)
    assert [split.start for split in splits[1:]] == [split.end for split in splits[:-1]]
    assert not splits or (splits[0].start, splits[-1].end) == (start, extent.end)
    kept = []
    for split in splits:
        for header, batch in checked_batches(split, on_damage, disk):
            if not header.is_control:
                kept += [
                    (record.offset, record.value)
                    for record in read_records(batch)
                    if split.start <= record.offset < split.end
                ]
    return kept


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("seed", range(3))
def test_a_replica_is_read_up_to_the_commit_index_of_its_journal(seed: int, power: bool) -> None:
    """Appends of any size, rolls, trims, checkpoints, and an end at any moment."""
    random = Random(seed)
    with World() as world:
        for _ in range(3):
            leader = world.leader()
            for _ in range(random.randrange(5, 25)):
                size = random.choice((10, 300, 300, 5000))
                world.commit(leader, *(bytes([random.randrange(256)]) * size for _ in range(random.randrange(1, 4))))
                if random.random() < 0.05:
                    world.run(2.5)
            if random.random() < 0.7:
                group = world.group(leader)
                offset = random.randrange(group.log_start_offset, group.high_watermark + 1)
                trim(world, leader, offset)
                world.run(random.random())
            committed = read_committed(world, leader)
            number = random.randrange(1, 4)
            world.crash(number, power=power)
            disk, replica = world.disks[number - 1], find_replica(world, number)
            extent = find_extent(disk, replica)
            assert extent.problems == ()
            kept = read_extent(disk, extent)
            assert kept == committed_records(disk, offline_replica(world, number))
            assert all(committed.get(offset, value) == value for offset, value in kept)
            assert kept == read_extent(disk, find_extent(disk, replica, CarriedBudget(0)))
            if extent.start < extent.end:
                middle = random.randrange(extent.start, extent.end)
                assert read_extent(disk, extent, 1, middle) == [each for each in kept if each[0] >= middle]
            world.start(number)
            world.leader()


def crash_node(world: World, *, power: bool = False) -> int:
    """Crash a node with several files and the newest entries after its last checkpoint; return its number."""
    leader = world.leader()
    world.fill(leader, 40, size=400)
    world.run(3)
    world.fill(leader, 15, size=300)
    world.commit(leader, b"x" * 5000)
    world.fill(leader, 3)
    world.run(0.2)
    world.crash(leader, power=power)
    return leader


def read_or_damage(world: World, number: int) -> list[Kept] | CorruptBatch:
    """Return the records of a replica, or the first damage."""
    disk = world.disks[number - 1]
    extent = find_extent(disk, find_replica(world, number))
    try:
        if extent.problems:
            raise extent.problems[0]
        return read_extent(disk, extent)
    except CorruptBatch as error:
        return error


def test_no_flipped_bit_changes_records_silently() -> None:
    random = Random(6)
    with World() as world:
        number = crash_node(world)
        disk, path = world.disks[number - 1], find_replica(world, number).path
        expected = committed_records(disk, offline_replica(world, number))
        names = [f"{path}/{name}" for name in disk.list_directory(path) if name.endswith((".log", ".index"))]
        seen = {"damage": 0, "same": 0}
        for _ in range(60):
            name = random.choice(names)
            size = len(disk.snapshot()[name])
            if not size:
                continue
            position, bit = random.randrange(size), random.randrange(8)
            disk.flip_bit(name, position, bit)
            kept = read_or_damage(world, number)
            assert isinstance(kept, CorruptBatch) or kept == expected, f"{name} at {position}, bit {bit}"
            seen["damage" if isinstance(kept, CorruptBatch) else "same"] += 1
            disk.flip_bit(name, position, bit)
        assert min(seen.values()) > 5


def test_missing_committed_entries_are_detected() -> None:
    """Entries that are still in the journal are read from it instead."""
    with World() as world:
        number = crash_node(world)
        disk, path = world.disks[number - 1], find_replica(world, number).path
        expected = committed_records(disk, offline_replica(world, number))
        names = [f"{path}/{name}" for name in disk.list_directory(path) if name.endswith(".log")]
        assert len(names) > 3
        outcomes = []
        for name in names:
            for size in (0, 1000, None):
                file = disk.open(name)
                whole = file.read(0, file.size())
                if size is None:
                    disk.unlink(name)
                else:
                    file.truncate(size)
                kept = read_or_damage(world, number)
                outcomes.append(isinstance(kept, CorruptBatch))
                assert isinstance(kept, CorruptBatch) or kept == expected, f"{name} cut to {size}"
                extent = find_extent(disk, find_replica(world, number))
                left_out = list(extent.problems)
                left = read_extent(disk, extent, on_damage=left_out.append)
                assert left == [each for each in expected if each in left]
                assert len(left) == len(expected) or left_out, f"{name} cut to {size}"
                if size is None:
                    file = disk.open(name, create=True)
                file.write(0, [whole])
        assert any(outcomes)
        assert not all(outcomes)
        assert read_or_damage(world, number) == expected


def test_a_last_file_cut_between_two_batches_is_detected() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 30, size=400)
        world.run(5)
        world.crash(leader)
        disk, extent = world.disks[leader - 1], find_extent(world.disks[leader - 1], find_replica(world, leader))
        last = extent.pieces[-1]
        assert not last.is_journaled
        *_, (_, batch) = checked_batches(splits_of(extent, extent.end - 1, extent.end, disk=disk)[0], disk=disk)
        file = disk.open(f"{extent.replica.path}/{last.base:020d}.log")
        file.truncate(last.last.position - len(batch))
        kept = read_or_damage(world, leader)
        assert isinstance(kept, CorruptBatch)
        assert kept.why == f"entry {extent.last_index} is missing, and {extent.last_index} is committed"


def test_a_file_left_behind_by_a_cut_is_ignored() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 30, size=400)
        offset = world.group(leader).high_watermark - 3
        trim(world, leader, offset)
        world.run(5)
        world.crash(leader)
        disk, path = world.disks[leader - 1], find_replica(world, leader).path
        expected = committed_records(disk, offline_replica(world, leader))
        assert (expected[0][0], f"{offset:020d}.log" in disk.list_directory(path)) == (offset, False)
        roll = encode_roll(Roll(GROUP, 1_000_000, 1, 0, -1, 1000))
        file = disk.open(f"{path}/{offset:020d}.log", create=True)
        file.write(0, [build_control_batch(ControlKind.ROLL, roll, 1000, next_offset=Offset(offset))])
        assert read_or_damage(world, leader) == expected
