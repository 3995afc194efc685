"""Batches: header view, stamping, checks of batches from clients, control batches, codecs."""

import struct

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from raftlog.errors import InvalidArgument, InvalidBatch, RecordTooLarge
from raftlog.records import (
    BatchBuilder,
    Compression,
    ControlKind,
    NewRecord,
    build_batch,
    build_control_batch,
    crc_matches,
    read_control,
    read_header,
    read_records,
    split_batches,
    stamp,
    validate_client_batches,
)
from raftlog.records.header import batch_crc

MIB = 1 << 20
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
new_records = st.builds(
    NewRecord,
    value=st.none() | st.binary(max_size=200),
    key=st.none() | st.binary(max_size=20),
    timestamp=st.integers(0, 2**48),
    headers=headers,
)


@given(st.lists(new_records, min_size=1, max_size=30), st.sampled_from(Compression))
def test_decoded_records_equal_the_encoded_ones(records: list[NewRecord], codec: Compression) -> None:
    batch = build_batch(records, codec)
    [(header, view)] = validate_client_batches(batch, MIB)
    assert header.record_count == len(records) == header.last_offset_delta + 1
    assert header.compression == codec
    assert header.max_timestamp == max(record.timestamp for record in records)
    back = list(read_records(view))
    assert [(r.value, r.key, r.timestamp, [tuple(h) for h in r.headers]) for r in back] == [
        (r.value, r.key, r.timestamp, [tuple(h) for h in r.headers]) for r in records
    ]
    assert [record.offset for record in back] == list(range(len(records)))


def test_the_header_is_read_without_copying_and_stamping_keeps_the_crc() -> None:
    batch = build_batch([b"a", b"b"], now_ms=7)
    crc = read_header(batch).crc
    stamp(batch, 1234, 5)
    header = read_header(memoryview(batch))
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (1234, 5, 1236)
    assert header.crc == crc
    assert crc_matches(batch, header)
    assert [record.offset for record in read_records(batch)] == [1234, 1235]


def test_stamping_refuses_a_term_that_does_not_fit() -> None:
    with pytest.raises(AssertionError, match="term 2147483648"):
        stamp(build_batch([b"a"]), 0, 1 << 31)


def test_a_builder_reports_count_and_size() -> None:
    builder = BatchBuilder(Compression.NONE)
    builder.append(NewRecord(b"x" * 100), 42)
    assert builder.count == 1
    assert builder.size_bytes >= 161
    assert next(read_records(builder.build())).timestamp == 42


@pytest.mark.parametrize(
    "record", ["text", NewRecord("text"), NewRecord(b"", timestamp=1 << 70), NewRecord(b"", headers=[(b"k", "v")])]
)
def test_unstorable_values_are_refused_by_name(record: object) -> None:
    with pytest.raises(InvalidArgument, match=r"record 1 (cannot be stored|is str 'text'; encode it)"):
        build_batch([b"fine", record])


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least one record"):
        build_batch([])


def spoil_field(position: int, form: str, value: int) -> bytes:
    batch = build_batch([b"a", b"b"])
    struct.pack_into(form, batch, position, value)
    return bytes(batch)


def spoil_field_and_reseal(position: int, form: str, value: int) -> bytes:
    """Spoil a field under the CRC, and correct the CRC: a faulty client, not a transmission error."""
    batch = bytearray(spoil_field(position, form, value))
    struct.pack_into(">I", batch, 17, batch_crc(batch))
    return bytes(batch)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no batch"),
        (b"x" * 20, "too few"),
        (spoil_field(16, "b", 1), "magic 1"),
        (spoil_field(8, ">i", 1 << 30), "batchLength"),
        (spoil_field(8, ">i", -5), "batchLength"),
        (spoil_field(8, ">i", 3), "batchLength"),
        (spoil_field(70, "b", 99), "CRC"),
        (bytes(build_batch([b"abc"]))[:-1], "batchLength"),
        (bytes(build_batch([b"abc"])) + b"rest", "too few"),
        (spoil_field_and_reseal(57, ">i", 3), "recordCount is 3"),
        (spoil_field_and_reseal(23, ">i", 7), "lastOffsetDelta 7"),
        (spoil_field_and_reseal(57, ">i", 0), "recordCount is 0"),
        (spoil_field_and_reseal(21, ">h", 0x20), "control"),
        (spoil_field_and_reseal(21, ">h", 0x10), "transactional"),
        (spoil_field_and_reseal(21, ">h", 0x05), "codec 5"),
        (spoil_field_and_reseal(43, ">q", -2), "producer id -2"),
        (spoil_field_and_reseal(43, ">q", 7), "epoch -1, sequence -1"),
    ],
    ids=range(17),
)
def test_bad_batches_are_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(InvalidBatch, match=why):
        validate_client_batches(body, MIB)


def test_epoch_and_sequence_without_a_producer_id_are_ignored() -> None:
    for body in (spoil_field_and_reseal(53, ">i", 0), spoil_field_and_reseal(51, ">h", 3)):
        [(header, _)] = validate_client_batches(body, MIB)
        assert header.producer_id == -1


def test_a_record_count_that_does_not_fit_the_bytes_is_refused() -> None:
    batch = bytearray(build_batch([b"a"]))
    struct.pack_into(">i", batch, 23, 999)
    struct.pack_into(">i", batch, 57, 1000)
    struct.pack_into(">I", batch, 17, batch_crc(batch))
    with pytest.raises(InvalidBatch, match="1000 records do not fit"):
        validate_client_batches(batch, MIB)


def test_an_oversize_batch_is_refused_by_its_size() -> None:
    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes is 1000"):
        validate_client_batches(build_batch([bytes(2000)]), 1000)


def test_concatenated_batches_are_split() -> None:
    bodies = [bytes(build_batch([bytes(size)])) for size in (1, 500, 3)]
    assert [bytes(batch) for _, batch in split_batches(b"".join(bodies))] == bodies


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_batches_that_decompress_beyond_the_bound_are_refused(codec: Compression) -> None:
    bomb = build_batch([bytes(4 * MIB)], codec)
    assert len(bomb) < MIB
    with pytest.raises(InvalidBatch, match=r"more than|cannot be decompressed"):
        list(read_records(bomb, opened_bytes_max=MIB))
    assert len(next(read_records(bomb, opened_bytes_max=8 * MIB)).value) == 4 * MIB


@pytest.mark.parametrize("codec", Compression)
def test_garbage_under_a_valid_crc_is_a_known_error(codec: Compression) -> None:
    batch = build_batch([b"some value that is long enough"] * 5, codec)
    for position in range(61, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 0xFF
        struct.pack_into(">I", broken, 17, batch_crc(broken))
        try:
            records = list(read_records(broken, opened_bytes_max=MIB))
        except InvalidBatch:
            continue
        assert len(records) <= 5


def test_control_batches_take_no_offset_and_kafkas_reader_skips_them() -> None:
    roll = build_control_batch(ControlKind.ROLL, b"payload", 9, next_offset=40)
    header = read_header(roll)
    assert header.is_control
    assert (header.base_offset, header.last_offset_delta, header.next_offset) == (40, -1, 40)
    assert crc_matches(roll, header)
    assert read_control(roll) == (ControlKind.ROLL, b"payload")
    data = build_batch([b"v"])
    stamp(data, 40, 0)
    walker = MemoryRecords(bytes(roll) + bytes(data))
    kinds = []
    while (batch := walker.next_batch()) is not None:
        assert batch.validate_crc()
        kinds.append((batch.is_control_batch, batch.base_offset))
    assert kinds == [(True, 40), (False, 40)]


def test_a_gap_spans_the_offsets_that_it_replaces() -> None:
    header = read_header(build_control_batch(ControlKind.GAP, b"", 0, next_offset=10, offsets_spanned=5))
    assert (header.base_offset, header.next_offset) == (10, 15)


def test_unknown_control_kinds_are_reported_by_number() -> None:
    with pytest.raises(InvalidBatch, match="not a control batch"):
        read_control(build_batch([b"v"]))
