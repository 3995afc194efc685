"""What is read of processes that were stopped, killed, or lost their power: what their journals say is committed.

Disks and network are simulated, drivers and journals are the real ones. The truth is the slow reader, which folds the
journal and walks every file (`runtime.offline`), and what was committed while the processes ran.
"""

from random import Random

import pytest

from raftlog.pipeline.segments import batches_of, splits_of
from raftlog.pipeline.segments.extent import CarriedRoom, LogExtent, extent_of
from raftlog.pipeline.segments.replicas import FoundReplica, Owner
from raftlog.records import read_header, read_records
from raftlog.runtime.offline import OfflineReplica, replicas_of
from raftlog.storage.disk import Disk
from tests.runtime.drivers import World

Kept = tuple[int, bytes | None]


def offline(world: World, number: int) -> OfflineReplica:
    [replica] = replicas_of(world.disks[number - 1], "/data", world.ids[number - 1].disk_uuid)
    return replica


def found(world: World, number: int) -> FoundReplica:
    replica, owner = offline(world, number), Owner("/data", world.ids[number - 1].disk_uuid)
    return FoundReplica("t", 0, replica.path, replica.group_id, owner, replica.folded, replica.fold)


def truth(disk: Disk, replica: OfflineReplica) -> list[Kept]:
    last, kept = replica.committed(disk), []
    for entry in replica.entries(disk):
        if entry.why is not None:
            kept.clear()  # of a file that begins below the log start; otherwise something is missing below
        elif entry.index <= last and not read_header(entry.batch).is_control:
            kept += [(record.offset, record.value) for record in read_records(entry.batch)]
    return [each for each in kept if each[0] >= replica.log_start_offset]


def consumed(world: World, number: int) -> dict[int, bytes | None]:
    """What consumers are given by a replica that runs."""
    group = world.group(number)
    offset: int = group.log_start_offset
    values = {}
    while offset < group.high_watermark:
        for batch in group.read(offset, 1 << 20):
            values |= {record.offset: record.value for record in read_records(batch)}
            offset = read_header(batch).next_offset
    return values


def trim(world: World, leader: int, offset: int) -> None:
    [future] = world.do(leader, lambda: world.group(leader).propose_trim(offset))
    world.run_until(future.done)  # type: ignore[attr-defined]


def records(disk: Disk, extent: LogExtent, split_bytes: int = 6000, start: int | None = None) -> list[Kept]:
    start = extent.start if start is None else start
    splits = splits_of(extent, start, extent.end, split_bytes=split_bytes, disk=disk)
    assert [split.start for split in splits[1:]] == [split.end for split in splits[:-1]]
    assert not splits or (splits[0].start, splits[-1].end) == (start, extent.end)
    kept = []
    for split in splits:
        for header, batch in batches_of(split, disk=disk):
            if not header.is_control:
                kept += [
                    (record.offset, record.value)
                    for record in read_records(batch)
                    if split.start <= record.offset < split.end
                ]
    return kept


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("seed", range(6))
def test_a_replica_is_read_up_to_what_its_journal_has_as_committed(seed: int, power: bool) -> None:
    """Small and large appends, rolls, trims, checkpoints, and an end at any moment."""
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
            committed = consumed(world, leader)
            number = random.randrange(1, 4)
            world.crash(number, power=power)
            disk, replica = world.disks[number - 1], found(world, number)
            extent = extent_of(disk, replica)
            assert extent.problems == ()
            kept = records(disk, extent)
            assert kept == truth(disk, offline(world, number))
            assert all(committed.get(offset, value) == value for offset, value in kept)
            assert kept == records(disk, extent_of(disk, replica, CarriedRoom(0)))
            if extent.start < extent.end:
                middle = random.randrange(extent.start, extent.end)
                assert records(disk, extent, 1, middle) == [each for each in kept if each[0] >= middle]
            world.start(number)
            world.leader()
