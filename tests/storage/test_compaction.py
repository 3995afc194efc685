"""Compaction of a replica's files compared with a list of all appended records."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import CorruptBatch
from raftlog.records import (
    Compression,
    ControlKind,
    NewRecord,
    build_batch,
    open_in_steps,
    read_control,
    read_header,
    read_records,
    stamp,
)
from raftlog.storage import compaction
from raftlog.storage.compaction import CompactionBounds, find_clean_end
from raftlog.storage.gap import read_gap
from raftlog.storage.index_repair import repair_index
from raftlog.storage.roll import decode_roll
from raftlog.storage.scrub import Scrub
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Offset, Term
from tests.storage.compacting import BOUNDS, KeyedLog, read_all
from tests.undecodable import SMALL, Undecodable

PAIRS = st.tuples(st.sampled_from([b"a", b"b", b"c", b"dd", None]), st.sampled_from([b"1", b"22" * 40, None]))
STEPS = st.one_of(
    st.lists(PAIRS, min_size=1, max_size=6),
    st.sampled_from(["roll", "roll", "compact", "control", "term"]),
)
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


def apply_steps(keyed: KeyedLog, steps: list[object], bounds: CompactionBounds) -> None:
    """Apply steps to the log; check it after each compaction."""
    for number, step in enumerate(steps):
        log = keyed.log
        if step == "roll" and log.next_offset > log.active.base_offset:
            keyed.roll()
        elif step == "compact":
            keyed.compact(bounds)
            check(keyed)
        elif step == "control":
            keyed.control()
        elif step == "term":
            keyed.term += 1
        elif isinstance(step, list):
            keyed.append(step, CODECS[number % len(CODECS)])
    keyed.settle()
    check(keyed)


def check(keyed: KeyedLog) -> None:
    """Check reads from each offset and lookups by each timestamp."""
    log, expected = keyed.log, keyed.expected_records()
    assert read_all(log) == expected
    for offset in range(len(keyed.records)):
        first = read_all_once(log, offset)
        following = next((record for record in expected if record[0] >= offset), None)
        assert first == (following and following[0])
    for timestamp in range(9_999, 10_000 + len(keyed.records)):
        at = next(((each[0], each[3]) for each in expected if each[3] >= timestamp), None)
        assert log.offset_for_timestamp(timestamp) == at
    check_chain(log)


@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
def test_an_undecodable_batch_is_kept_byte_for_byte_and_replaces_no_key(sent: Undecodable) -> None:
    keyed = KeyedLog()
    log = keyed.log
    keyed.append([(b"key", b"sound"), (b"other", b"1")])  # `key` is what the undecodable records are keyed by
    stored = bytearray(sent.batch)
    stamp(stored, log.next_offset, Term(1))
    log.append_stamped(bytes(stored), read_header(stored))
    behind = int(log.next_offset)
    for value in (b"2", b"3"):
        batch = build_batch([NewRecord(value, b"other", 10_000)])
        stamp(batch, log.next_offset, Term(1))
        log.append_stamped(bytes(batch), read_header(batch))
    keyed.roll()
    for _ in range(2):
        keyed.compact()
    [kept] = [
        bytes(each)
        for each in log.read(0, 1 << 20)
        if read_header(each).base_offset == 2 and not read_header(each).is_control
    ]
    assert kept == stored
    first, *rest = [each for each in log.read(0, 1 << 20) if not read_header(each).is_control and bytes(each) != kept]
    assert [(record.offset, record.value) for record in read_records(first)] == [(0, b"sound")]
    assert [record.offset for batch in rest for record in read_records(batch)] == [behind + 1]


def read_all_once(log: SegmentedLog, offset: int) -> int | None:
    """Return the first offset of a fetch at `offset`; check that it is empty only at the end."""
    found = read_all(log, offset, 1)
    return found[0][0] if found else None


def check_chain(log: SegmentedLog) -> None:
    """Check that index, offset and position continue over batches and files, and that each row finds itself."""
    index = offset = None
    for segment in log.segments:
        assert (index or segment.base_index, offset or segment.base_offset) == (segment.base_index, segment.base_offset)
        index = segment.base_index
        for number, row, batch, why in log.walk(segment):
            header = read_header(batch)
            gap = read_gap(batch, header)
            assert (row.index, row.offset, why) == (index, offset or segment.base_offset, None)
            index, offset = gap.last_index + 1 if gap else index + 1, header.next_offset
            assert {segment.number_of(each) for each in range(row.index, index)} == {number}
            assert gap is None or (gap.end_offset <= segment.compacted_to and segment.is_compacted)
        assert (segment.next_index, segment.next_offset) == (index, offset)
        kind, payload = read_control(bytes(next(log.walk(segment))[2]))
        assert kind is ControlKind.ROLL
        assert decode_roll(payload).compacted_to == segment.compacted_to
        assert repair_index(segment) == 0
    for segment, newer in pairwise(log.segments):
        assert segment.is_compacted or not newer.is_compacted, "from the oldest on"


@settings(max_examples=20)
@given(
    steps=st.lists(STEPS, max_size=40),
    segment_bytes=st.sampled_from([200, 1500, 100_000]),
    keys_max=st.sampled_from([1, 2, 1000]),
)
def test_the_newest_record_of_each_key_stays_and_is_found_from_every_offset(
    steps: list[object], segment_bytes: int, keys_max: int
) -> None:
    apply_steps(KeyedLog(), steps, CompactionBounds(segment_bytes, 1000, keys_max))


def many_segments(count: int = 6, keys: int = 3) -> KeyedLog:
    keyed = KeyedLog()
    for number in range(count):
        keyed.append([(b"%d" % (each % keys), b"v%d" % number * 30) for each in range(8)])
        keyed.append([(b"only %d" % number, b"x")])
        keyed.control()
        keyed.roll()
    return keyed


def test_small_neighbouring_files_are_merged_in_one_run() -> None:
    keyed = many_segments()
    done = keyed.compact(CompactionBounds(100_000, 1000))
    assert [segment.base_offset for segment in keyed.log.segments] == [0, keyed.mark]
    assert done.bytes_after < done.bytes_before / 2
    assert find_clean_end(keyed.log) == keyed.mark
    names = keyed.disk.list_directory("/data/t/0")
    assert len(names) == 6, f"three files of each segment, nothing else: {names}"
    assert list(keyed.compaction().run()) == []
    check(keyed)


def test_files_do_not_grow_beyond_the_bound() -> None:
    keyed = many_segments(20)
    bound = 2 * max(segment.end_position for segment in keyed.log.segments)
    keyed.compact(CompactionBounds(bound, 1000))
    assert 2 < len(keyed.log.segments) < 21
    assert all(segment.end_position <= bound for segment in keyed.log.segments)
    check(keyed)


def test_a_tombstone_stays_until_its_retention_ends() -> None:
    keyed = KeyedLog()
    keyed.append([(b"a", b"1"), (b"a", None), (b"b", b"1"), (b"b", b"2")])
    keyed.roll()
    keyed.compact()
    assert [record[:3] for record in read_all(keyed.log)] == [(1, b"a", None), (3, b"b", b"2")]
    keyed.append([(b"c", b"1")])
    keyed.roll()
    keyed.compact()
    assert [record[0] for record in read_all(keyed.log)] == [3, 4]


def test_the_last_record_below_the_mark_stays_also_as_a_tombstone() -> None:
    keyed = KeyedLog()
    keyed.append([(b"a", b"1"), (b"a", None)])
    keyed.roll()
    keyed.compact()
    keyed.tombstones_to = keyed.mark
    keyed.mark = Offset(0)
    for step in compaction.Compaction(keyed.log, Offset(2), Offset(2), BOUNDS).run():
        keyed.disk.sync(step.files, step.directories)
    assert [record[0] for record in read_all(keyed.log)] == [1]


@pytest.mark.parametrize(("tombstones_to", "stays"), [(2, True), (3, False)])
def test_tombstones_below_the_given_offset_are_removed(tombstones_to: int, stays: bool) -> None:
    keyed = KeyedLog()
    keyed.append([(b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1")])
    keyed.roll()
    keyed.compact()
    keyed.append([(b"d", b"1")])
    keyed.roll()
    keyed.settle()
    for step in compaction.Compaction(keyed.log, Offset(5), Offset(tombstones_to), BOUNDS).run():
        keyed.disk.sync(step.files, step.directories)
    assert [record[0] for record in read_all(keyed.log)] == [1, *([2] if stays else []), 3, 4]


def test_records_below_the_log_start_are_removed() -> None:
    keyed = many_segments(3)
    keyed.log.log_start_offset = Offset(9)
    keyed.compact()
    assert min(record[0] for record in read_all(keyed.log, 9)) >= 9
    first = keyed.log.segments[0]
    gaps = [gap for _, _, batch, _ in keyed.log.walk(first) if (gap := read_gap(batch, read_header(batch)))]
    assert gaps[0].end_offset >= 9


def test_a_key_written_once_at_the_log_start_stays() -> None:
    """In the second run its batch is below the offset for tombstones, so each record is checked."""
    keyed = KeyedLog()
    keyed.append([(b"once", b"1"), (b"b", b"1"), (b"b", None)])
    for _ in range(2):
        keyed.append([(b"c", b"1")])
        keyed.roll()
        keyed.compact()
    assert [record[:3] for record in read_all(keyed.log)] == [(0, b"once", b"1"), (4, b"c", b"1")]
    check(keyed)


def test_a_key_written_once_at_a_moved_log_start_stays() -> None:
    keyed = KeyedLog()
    keyed.append([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    keyed.append([(b"d", b"1")])
    keyed.roll()
    keyed.log.log_start_offset = Offset(1)
    keyed.compact()
    assert [record[0] for record in read_all(keyed.log, 1)] == [1, 2, 3]


def test_damage_stops_a_compaction_without_changes() -> None:
    keyed = many_segments()
    keyed.settle()
    victim = keyed.log.segments[2]
    keyed.disk.flip_bit(victim.files.log.path, victim.row(1).position + 80, 1)
    before = {name: data for name, data in keyed.disk.snapshot().items() if "damaged" not in name}
    with pytest.raises(CorruptBatch):
        keyed.compact()
    assert keyed.disk.snapshot() == before


def test_a_compaction_stopped_at_any_step_leaves_an_intact_log() -> None:
    total = len(list(many_segments().compaction(CompactionBounds(600, 1000)).run()))
    assert total > 8
    for stop in range(total):
        keyed = many_segments()
        run = keyed.compaction(CompactionBounds(600, 1000)).run()
        for _ in range(stop):
            step = next(run)
            keyed.disk.sync(step.files, step.directories)
        run.close()
        check_chain(keyed.log)
        newest = {record[1]: record for record in read_all(keyed.log)}
        assert newest == {record[1]: record for record in keyed.records}
        assert not [name for name in keyed.disk.list_directory("/data/t/0") if "compacted" in name]
        keyed.compact()
        check(keyed)


def test_a_compaction_stopped_between_two_parts_leaves_no_gap_after_the_first() -> None:
    """Control entries count too: a gap above the compaction mark of a file is damage."""
    keyed = KeyedLog()
    for number in range(4):
        keyed.append([(b"a", b"%d" % number)])
        keyed.append([(b"%d" % number, b"x")])
        keyed.control()
    keyed.roll()
    compaction = keyed.compaction(BOUNDS._replace(keys_max=2))
    run = compaction.run()
    while not keyed.log.segments[0].is_compacted:
        step = next(run)
        keyed.disk.sync(step.files, step.directories)
    run.close()  # type: ignore[attr-defined]
    assert 0 < find_clean_end(keyed.log) < keyed.mark
    check_chain(keyed.log)
    keyed.compact()
    check(keyed)


def test_damaged_rows_are_repaired_from_gaps_and_rebuilt_batches() -> None:
    keyed = many_segments()
    keyed.compact(CompactionBounds(100_000, 1000))
    segment = keyed.log.segments[0]
    sound = segment.row_bytes(0, segment.rows)
    for number in range(segment.rows):
        keyed.disk.flip_bit(segment.files.index.path, number * 44 + 7, 2)
        check_reads(keyed)
        repair_index(segment)
        assert segment.row_bytes(0, segment.rows) == sound, f"row {number}"


def check_reads(keyed: KeyedLog) -> None:
    assert read_all(keyed.log) == keyed.expected_records()


def test_the_scrub_reads_compacted_files_to_the_end() -> None:
    keyed = many_segments()
    keyed.compact(CompactionBounds(900, 1000))
    scrub = Scrub(keyed.log)
    while not (progress := scrub.run_slice(500)).has_finished:
        assert progress.damage is None


def test_a_tombstone_outlives_the_run_that_removes_its_record() -> None:
    """With any mark: a consumer that has just read the record would never receive the tombstone."""
    keyed = KeyedLog()
    keyed.append([(b"a", b"1"), (b"a", None), (b"b", b"1")])
    keyed.roll()
    keyed.settle()
    for expected in ([1, 2, 3], [2, 3]):
        mark = Offset(keyed.log.active.base_offset)
        for step in compaction.Compaction(keyed.log, mark, mark, BOUNDS).run():
            keyed.disk.sync(step.files, step.directories)
        if len(keyed.records) == 3:
            keyed.append([(b"c", b"1")])
            keyed.roll()
            keyed.settle()
        assert [record[0] for record in read_all(keyed.log)] == expected


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_large_batch_is_decompressed_in_steps(codec: Compression) -> None:
    """A small batch is decompressed in one step."""
    large, small = (bytes(build_batch([bytes(size)], compression=codec)) for size in (40 << 20, 10_000))
    assert len(list(compaction._run_in_steps(open_in_steps(large)))) > 30
    assert not list(compaction._run_in_steps(open_in_steps(small)))
