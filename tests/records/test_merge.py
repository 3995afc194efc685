"""Merge of batches with one record each: the records stay as they are, and nothing else is touched."""

import struct

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from raftlog.records import Compression, NewRecord, build_batch, build_columns, read_header, read_records
from raftlog.records.check import validate_client_batches
from raftlog.records.header import CRC_START
from raftlog.records.merge import MERGED_BYTES_MAX, merge_single_records

FIELDS = st.one_of(st.none(), st.binary(max_size=80), st.integers(0, 1_100).map(bytes))
TIMES = st.integers(0, (1 << 62)) | st.integers(1_700_000_000_000, 1_700_000_000_050)
PLAIN = st.builds(NewRecord, FIELDS, FIELDS, TIMES)
WITH_HEADERS = st.builds(NewRecord, FIELDS, FIELDS, TIMES, st.just([("h", b"1")]))
LISTS = st.lists(st.lists(PLAIN | WITH_HEADERS, min_size=1, max_size=2), min_size=1, max_size=12)
CODECS = st.sampled_from([Compression.NONE, Compression.NONE, Compression.NONE, Compression.GZIP])


def single(value: bytes | None, key: bytes | None = None, timestamp: int = 5) -> bytearray:
    return build_batch([NewRecord(value, key, timestamp)])


def recrc(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def contents(batches: list[bytearray]) -> list[tuple[object, ...]]:
    return [
        (record.key, record.value, record.timestamp, list(record.headers))
        for batch in batches
        for record in read_records(batch)
    ]


@given(LISTS, CODECS, st.sampled_from([200, 1_000, MERGED_BYTES_MAX]))
def test_records_are_the_same(lists: list[list[NewRecord]], codec: Compression, bytes_max: int) -> None:
    batches = [build_batch(records, codec) for records in lists]
    originals = [bytes(batch) for batch in batches]
    merged = merge_single_records(batches, bytes_max)
    assert contents(merged) == contents([bytearray(each) for each in originals])
    assert [bytes(batch) for batch in batches] == originals
    checked = validate_client_batches(b"".join(merged), 1 << 20)
    for header, batch in checked:
        records = list(read_records(batch))
        assert [record.offset for record in records] == list(range(header.record_count))
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert header.record_count == header.last_offset_delta + 1
        assert len(batch) <= bytes_max or bytes(batch) in originals


def test_neighbours_become_one_batch() -> None:
    merged = merge_single_records([single(b"v%d" % n, b"k", 300 - n) for n in range(150)], MERGED_BYTES_MAX)
    assert len(merged) == 1
    header = read_header(merged[0])
    assert (header.record_count, header.base_timestamp, header.max_timestamp, header.producer_id) == (150, 300, 300, -1)
    assert header.base_offset == header.leader_epoch == header.attributes == 0


def test_records_far_apart_in_time_stay_apart() -> None:
    times = (0, 60_000, 60_001, 1 << 62, (1 << 62) - 60_000, 0)
    merged = merge_single_records([single(b"v", None, time) for time in times], MERGED_BYTES_MAX)
    assert [read_header(batch).record_count for batch in merged] == [2, 1, 2, 1]


def test_others_stay_as_they_are_and_separate_what_is_merged() -> None:
    several = build_batch([NewRecord(b"a"), NewRecord(b"b")])
    sequenced = build_columns([b"a"], [None], [1], [[]], producer_id=7, producer_epoch=0, base_sequence=0)
    compressed = build_batch([NewRecord(b"a" * 99)], Compression.GZIP)
    large = single(bytes(1024))
    labelled = build_batch([NewRecord(b"a", headers=[("h", None)])])
    for other in (several, sequenced, compressed, large, labelled):
        batches = [single(b"1"), single(b"2"), other, single(b"3"), other, other]
        merged = merge_single_records(batches, MERGED_BYTES_MAX)
        assert [read_header(batch).record_count for batch in merged] == [
            2,
            read_header(other).record_count,
            1,
            *[read_header(other).record_count] * 2,
        ]
        assert merged[1] is merged[3] is merged[4] is other
        assert merged[2] is batches[3]


def test_append_time_and_control_batches_stay_as_they_are() -> None:
    for attributes in (0x08, 0x10, 0x20, 0x30):
        odd = single(b"a")
        struct.pack_into(">h", odd, CRC_START, attributes)
        batches = [recrc(odd), recrc(bytearray(odd))]
        assert merge_single_records(batches, MERGED_BYTES_MAX) == batches


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 255))
def test_a_malformed_record_stays_alone(value: bytes, at: int, byte: int) -> None:
    """The CRC of a client is right for any bytes, so a record that cannot be decoded must not join others."""
    batch = single(value, b"key")
    position = 61 + at % (len(batch) - 61)
    batch[position] = byte
    recrc(batch)
    good = [single(b"1"), single(b"2")]
    merged = merge_single_records([good[0], batch, good[1]], MERGED_BYTES_MAX)
    try:
        found = contents([bytearray(batch)])
    except Exception:  # noqa: BLE001 - each error of the decoder means the same here
        assert merged == [good[0], batch, good[1]]
    else:
        assert len(merged) == 3 or contents(merged) == [*contents(good[:1]), *found, *contents(good[1:])]


@given(st.binary(max_size=40))
def test_any_bytes_after_the_header_are_accepted_or_left_alone(rest: bytes) -> None:
    batch = bytearray(bytes(single(b""))[:61] + rest)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    recrc(batch)
    merged = merge_single_records([batch, batch], MERGED_BYTES_MAX)
    if len(merged) == 1:
        assert contents(merged) == 2 * contents([batch])
    else:
        assert merged == [batch, batch]
