"""Compacted partitions read from their files: the newest record of each key, and gaps only below the mark."""

from collections.abc import Sequence
from random import Random

import pytest

from raftlog.errors import CorruptBatch
from raftlog.pipeline.errors import SegmentGone
from raftlog.pipeline.segments.extent import LogExtent, find_extent
from raftlog.pipeline.segments.pieces import SegmentSplit, find_indexed_piece
from raftlog.pipeline.segments.plan import splits_of
from raftlog.pipeline.segments.reader import checked_batches
from raftlog.pipeline.segments.replicas import FoundReplica
from raftlog.records import Compression, read_header, read_records
from raftlog.runtime.log.offline import list_offline_replicas
from raftlog.storage.compaction import CompactionBounds
from raftlog.storage.disk import Disk
from raftlog.storage.gap import REASON_COMPACTED, Gap, build_gap_batch
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.verify import open_with_index
from tests.runtime.compacted_world import CONFIG, commit_mark, is_compacted, read_committed, write
from tests.runtime.drivers import World
from tests.storage.compacting import GROUP, PATH, Kept, KeyedLog


def compacted_log(seed: int, segment_bytes: int) -> KeyedLog:
    """Build a log with some files compacted, some not yet, with large gaps and tombstones."""
    random, keyed = Random(seed), KeyedLog()
    for number in range(12):
        for _ in range(random.randrange(1, 6)):
            pairs = [
                (random.choice((None, b"a", b"b", b"%d" % random.randrange(40))), random.choice((None, b"v" * 30)))
                for _ in range(random.randrange(1, 9))
            ]
            keyed.append(pairs, random.choice((Compression.NONE, Compression.ZSTD)))
        keyed.control()
        keyed.roll()
        if number in (4, 8):
            keyed.compact(CompactionBounds(segment_bytes, 1000))
    keyed.append([(b"0", b"above")])
    keyed.settle()
    return keyed


def extent_of_log(keyed: KeyedLog) -> LogExtent:
    return find_extent(keyed.disk, FoundReplica("t", 0, PATH, GROUP))


def read_records_of(disk: Disk, splits: Sequence[SegmentSplit]) -> list[Kept]:
    """Return the data records of the splits, each once."""
    return [
        (each.offset, each.key, each.value, each.timestamp)
        for split in splits
        for header, batch in checked_batches(split, disk=disk)
        if not header.is_control
        for each in read_records(batch)
        if split.start <= each.offset < split.end
    ]


@pytest.mark.parametrize("segment_bytes", [100, 900, 1 << 20])
@pytest.mark.parametrize("has_index", [True, False])
def test_compacted_segments_are_read(segment_bytes: int, has_index: bool) -> None:
    for seed in range(3):
        keyed, random = compacted_log(seed, segment_bytes), Random(seed)
        if not has_index:
            for name in keyed.disk.list_directory(PATH):
                if name.endswith("index"):
                    keyed.disk.unlink(f"{PATH}/{name}")
        there = extent_of_log(keyed)
        expected = keyed.expected_records()
        assert (there.problems, there.start, there.end) == ((), 0, len(keyed.records))
        assert there.last_index == keyed.log.last_index
        for split_bytes in (1, 700, 1 << 20):
            splits = splits_of(there, 0, there.end, split_bytes=split_bytes, disk=keyed.disk)
            assert read_records_of(keyed.disk, splits) == expected
        for _ in range(5):
            start, end = sorted(random.randrange(there.end + 1) for _ in range(2))
            splits = splits_of(there, start, end, split_bytes=300, disk=keyed.disk)
            assert read_records_of(keyed.disk, splits) == [each for each in expected if start <= each[0] < end]


def test_index_rows_after_the_last_wanted_entry_are_not_read() -> None:
    keyed = compacted_log(3, 900)
    for segment in keyed.log.segments:
        for stop in range(segment.base_index, segment.next_index):
            opened = open_with_index(keyed.disk, PATH, segment.base_offset)
            piece = find_indexed_piece(opened, stop)
            assert piece is not None
            assert piece.last.index == stop + 1 or segment.is_compacted
            assert piece.row + piece.rows == segment.number_of(stop) + 1
            opened.close()


def test_damaged_index_rows_do_not_lead_beyond_the_last_wanted_entry() -> None:
    keyed, random = compacted_log(3, 1 << 20), Random(7)
    segment = keyed.log.segments[0]
    assert segment.is_compacted
    whole = segment.files.index.read(0, segment.rows * ROW_SIZE)
    for stop in range(segment.base_index, segment.next_index):
        rotten = bytearray(whole)
        for number in random.sample(range(segment.rows), segment.rows // 3):
            rotten[number * ROW_SIZE : (number + 1) * ROW_SIZE] = bytes(ROW_SIZE)
        segment.files.index.write(0, [rotten])
        opened = open_with_index(keyed.disk, PATH, 0)
        piece = find_indexed_piece(opened, stop)
        assert piece is None or opened.files.index.read((piece.rows - 1) * ROW_SIZE, 8) <= stop.to_bytes(8)
        opened.close()


def test_a_gap_above_the_mark_is_damage() -> None:
    keyed = KeyedLog()
    keyed.append([(b"a", b"1")])
    gap = build_gap_batch(Gap(3, 3, 1, 5, keyed.term, REASON_COMPACTED))
    keyed.log.append_stamped(gap, read_header(gap))
    keyed.settle()
    there = extent_of_log(keyed)
    with pytest.raises(CorruptBatch, match="it is a gap up to offset 5, and compaction ran only below -1"):
        read_records_of(keyed.disk, splits_of(there, 0, there.end, disk=keyed.disk))


def test_a_compaction_after_planning_is_no_damage() -> None:
    keyed = KeyedLog()
    for number in range(4):
        for _ in range(4):
            keyed.append([(b"%d" % each, b"v%d" % number * 9) for each in range(4)])
        keyed.roll()
    keyed.settle()
    there = extent_of_log(keyed)
    splits = splits_of(there, 0, there.end, split_bytes=500, disk=keyed.disk)
    keyed.compact(CompactionBounds(1 << 20, 1000))
    for split in splits[:-1]:
        with pytest.raises(SegmentGone, match=r"was (compacted|removed) since the reading was planned"):
            read_records_of(keyed.disk, [split])


def test_no_flipped_bit_changes_records_silently() -> None:
    keyed, random = compacted_log(2, 900), Random(5)
    expected = keyed.expected_records()
    names = [name for name in keyed.disk.list_directory(PATH) if name.endswith((".log", ".index"))]
    found = {"damage": 0, "same": 0}
    for _ in range(80):
        name = f"{PATH}/{random.choice(names)}"
        position, bit = random.randrange(len(keyed.disk.snapshot()[name])), random.randrange(8)
        keyed.disk.flip_bit(name, position, bit)
        there = extent_of_log(keyed)
        try:
            if there.problems:
                raise there.problems[0]
            kept = read_records_of(keyed.disk, splits_of(there, 0, there.end, split_bytes=700, disk=keyed.disk))
            assert kept == expected, f"{name} at {position}, bit {bit}"
            found["same"] += 1
        except CorruptBatch:
            assert name.endswith(".log"), f"{name} at {position}, bit {bit}"
            found["damage"] += 1
        keyed.disk.flip_bit(name, position, bit)
    assert min(found.values()) > 10


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
def test_a_compacted_replica_is_read_with_its_journal(power: bool) -> None:
    with World(config=CONFIG) as world:
        leader = world.leader()
        write(world, leader, 60)
        marked = commit_mark(world, leader)
        world.run_until(lambda: is_compacted(world, leader, marked))
        write(world, leader, 10, tag=b"later ")
        world.run(3)
        consumed = read_committed(world, leader)
        world.crash(leader, power=power)
        disk = world.disks[leader - 1]
        [replica] = list_offline_replicas(disk, "/data", world.ids[leader - 1].disk_uuid)
        there = find_extent(disk, FoundReplica("t", 0, replica.path, GROUP, None, replica.folded, replica.fold))
        assert there.problems == ()
        kept = read_records_of(disk, splits_of(there, there.start, there.end, split_bytes=900, disk=disk))
        assert [(offset, key, value) for offset, key, value, _ in kept] == [
            each for each in consumed if each[0] < there.end
        ]
        assert len(kept) < there.end
