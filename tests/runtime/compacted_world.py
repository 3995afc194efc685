"""Drivers of three processes with a Raft group that is written by keys and compacted, and its records."""

from dataclasses import replace

from raftlog.records import (
    ControlKind,
    NewRecord,
    build_batch,
    read_header,
    read_records,
)
from raftlog.runtime.log.control_entries import CompactionMark, encode_compacted_to
from raftlog.storage.compaction import find_clean_end
from raftlog.types import Offset
from tests.runtime.drivers import SMALL, World

KEYS = 5
CONFIG = replace(SMALL, segment_bytes=4096, compaction_bytes_per_s=1 << 20, compaction_wait_ms=3000)
Found = dict[bytes, bytes]


def write(world: World, number: int, count: int, keys: int = KEYS, tag: bytes = b"") -> Found:
    """Write `count` records with keys in turn; return the newest record of each key."""
    newest_by_key: Found = {}
    for position in range(count):
        key, value = b"key %d" % (position % keys), b"%s%d " % (tag, position) + b"x" * 100
        batch = build_batch([NewRecord(value, key, 1000 + position)])
        [future] = world.run_at(number, lambda batch=batch: world.group(number).propose([batch]))  # type: ignore[misc]
        world.run_until(future.done)  # type: ignore[attr-defined]
        newest_by_key[key] = value
    return newest_by_key


def commit_mark(world: World, number: int, tombstones_to: int = 0) -> Offset:
    """Commit a mark at the newest roll."""
    offset = Offset(world.group(number).log.segments.active.base_offset)
    payload = encode_compacted_to(CompactionMark(offset, Offset(tombstones_to)))
    [future] = world.run_at(number, lambda: world.group(number).propose_control([(ControlKind.COMPACTED_TO, payload)]))
    world.run_until(future.done)  # type: ignore[attr-defined]
    return offset


def is_compacted(world: World, number: int, to: int) -> bool:
    log = world.group(number).log
    return find_clean_end(log.segments) >= to and world.drivers[number].compactor.current is None


def read_committed(world: World, number: int, offset: int = 0) -> list[tuple[int, bytes, bytes]]:
    """Read the committed records from `offset` on; no fetch below the high watermark may be empty."""
    group, found = world.group(number), []
    offset = max(offset, group.log_start_offset)
    while offset < group.high_watermark:
        batches = group.read(offset, 1000)
        assert batches, f"nothing at {offset} of {group.high_watermark}"
        for batch in batches:
            found += [(each.offset, each.key or b"", each.value or b"") for each in read_records(batch)]
        offset = read_header(batches[-1]).next_offset
    return found


def newest_by_key(world: World, number: int) -> Found:
    return {key: value for _, key, value in read_committed(world, number)}


def write_and_compact(world: World, count: int = 200) -> tuple[int, Offset, Found]:
    """Write records and wait until all replicas compacted them; return leader, mark, and newest records."""
    leader = world.leader()
    expected = write(world, leader, count)
    to = commit_mark(world, leader)
    for number in list(world.drivers):
        world.run_until(lambda number=number: is_compacted(world, number, to))  # type: ignore[misc]
    return leader, to, expected


def require_equal_replicas(world: World, expected: Found) -> None:
    world.converge()
    for number in (1, 2, 3):
        assert newest_by_key(world, number) == expected
        assert read_committed(world, number) == read_committed(world, 1)
        assert world.group(number).log.boundary == world.group(1).log.boundary
    assert not world.failures
