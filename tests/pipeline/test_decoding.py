"""Stored batches decoded into columns, compared with the appended records."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import InvalidBatch
from raftlog.pipeline import decoding
from raftlog.pipeline.decoding import decode_rows
from raftlog.pipeline.rows import ARROW_SCHEMA
from raftlog.records import (
    BatchHeader,
    Compression,
    ControlKind,
    NewRecord,
    build_batch,
    build_columns,
    build_control_batch,
    read_header,
    stamp,
)
from raftlog.records.header import TIMESTAMP_TYPE_BIT, header_bytes
from raftlog.types import Offset, Term
from tests.undecodable import SMALL, Undecodable, read_until_error

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Stored = tuple[BatchHeader, bytes]


def make_stored_batch(records: Sequence[NewRecord], offset: int, compression: Compression = Compression.NONE) -> Stored:
    batch = build_batch(list(records), compression, now_ms=0)
    stamp(batch, Offset(offset), Term(1))
    return read_header(batch), bytes(batch)


def chain_batches(
    groups: Sequence[Sequence[NewRecord]], compression: Compression = Compression.NONE
) -> Iterator[Stored]:
    offset = 0
    for records in groups:
        yield make_stored_batch(records, offset, compression)
        offset += len(records)


def make_expected_row(offset: int, record: NewRecord) -> dict[str, object]:
    assert record.timestamp is not None
    return {
        "topic": "t",
        "partition": 3,
        "offset": offset,
        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": 0,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


data = st.none() | st.binary(max_size=20)
new_records = st.builds(
    NewRecord,
    value=data,
    key=data,
    timestamp=st.integers(0, 4_102_444_800_000),
    headers=st.lists(st.tuples(st.text(max_size=5), data), max_size=2),
)


@settings(max_examples=20)
@given(
    groups=st.lists(st.lists(new_records, min_size=1, max_size=9), max_size=6),
    compression=st.sampled_from([Compression.NONE, Compression.GZIP]),
    bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    rows_max=st.integers(1, 12),
    bytes_max=st.integers(100, 400),
)
def test_rows_are_the_records_between_the_bounds(groups, compression, bounds, rows_max, bytes_max) -> None:
    start, end = bounds
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decoding, "ROWS_MAX", rows_max)
        patched.setattr(decoding, "BYTES_MAX", bytes_max)
        found = list(decode_rows("t", 3, chain_batches(groups, compression), start, end))
    for batch in found:
        assert batch.schema.equals(ARROW_SCHEMA)
        batch.validate(full=True)
        size = sum(len(row["key"] or b"") + len(row["value"] or b"") for row in batch.to_pylist())
        assert 0 < batch.num_rows <= rows_max
        assert size <= bytes_max or batch.num_rows == 1
    everything = [make_expected_row(offset, record) for offset, record in enumerate(chain(*groups))]
    assert [row for batch in found for row in batch.to_pylist()] == everything[start : max(start, end)]


def test_small_batches_are_joined() -> None:
    found = list(decode_rows("t", 0, chain_batches([[NewRecord(b"v", timestamp=0)]] * 500), 0, 500))
    assert [batch.num_rows for batch in found] == [500]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_a_large_batch_is_divided(compression: Compression) -> None:
    half = decoding.BYTES_MAX // 2
    records = [NewRecord(bytes(half), timestamp=0)] * 3 + [NewRecord(bytes(3 * half), timestamp=0)]
    found = list(decode_rows("t", 0, [make_stored_batch(records, 0, compression)], 0, 4))
    assert [batch.num_rows for batch in found] == [2, 1, 1]
    assert [len(value) for batch in found for value in batch.column("value").to_pylist()] == [half] * 3 + [3 * half]


def test_many_records_of_one_batch_are_divided() -> None:
    count = decoding.ROWS_MAX + 1
    batch = build_columns([b""] * count, [None] * count, [0] * count, [[]] * count)
    found = list(decode_rows("t", 0, [(read_header(batch), bytes(batch))], 0, count))
    assert max(batch.num_rows for batch in found) <= decoding.ROWS_MAX
    assert len(found) == 2
    assert [offset for batch in found for offset in batch.column("offset").to_pylist()] == list(range(count))


def test_control_batches_and_gaps_yield_no_rows() -> None:
    gap = build_control_batch(ControlKind.GAP, b"", 0, next_offset=Offset(2), offsets_spanned=5)
    header = read_header(gap)
    batches = [
        make_stored_batch([NewRecord(b"a", timestamp=0)] * 2, 0),
        (header, bytes(gap)),
        make_stored_batch([NewRecord(b"b", timestamp=0)], 7),
    ]
    assert header.next_offset == 7
    [found] = decode_rows("t", 0, batches, 0, 8)
    assert found.column("offset").to_pylist() == [0, 1, 7]


def test_a_missing_or_out_of_range_timestamp_is_null() -> None:
    highest = decoding.TIMESTAMP_MS_MAX
    batch = build_columns([b""] * 4, [None] * 4, [5, -1, highest, highest + 1], [[]] * 4)
    [found] = decode_rows("t", 0, [(read_header(batch), bytes(batch))], 0, 4)
    microseconds = found.column("timestamp").cast("int64").to_pylist()
    assert microseconds == [5_000, None, highest * 1000, None]


def test_the_log_append_time_is_that_of_the_batch() -> None:
    header, batch = make_stored_batch([NewRecord(b"a", timestamp=3), NewRecord(b"b", timestamp=9)], 0)
    appended = header._replace(attributes=header.attributes | TIMESTAMP_TYPE_BIT)
    batches = [
        (header, batch),
        (appended._replace(base_offset=2), header_bytes(appended._replace(base_offset=2)) + batch[61:]),
    ]
    [found] = decode_rows("t", 0, batches, 0, 4)
    assert found.column("timestampType").to_pylist() == [0, 0, 1, 1]
    assert found.column("timestamp").cast("int64").to_pylist() == [3000, 9000, 9000, 9000]


def test_inconsistent_record_lengths_are_an_error() -> None:
    header, batch = make_stored_batch([NewRecord(b"abc", timestamp=0)], 0)
    broken = bytearray(batch)
    broken[61] += 2  # the record's length
    with pytest.raises(InvalidBatch, match=r"t/0: .* offset 0"):
        list(decode_rows("t", 0, [(header, bytes(broken))], 0, 1))


@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
def test_an_undecodable_batch_is_an_error_unless_it_is_skipped(sent: Undecodable) -> None:
    batch = bytearray(sent.batch)
    stamp(batch, Offset(3), Term(1))
    behind = 3 + sent.span
    batches = [
        make_stored_batch([NewRecord(b"a", timestamp=0)] * 3, 0),
        (read_header(batch), bytes(batch)),
        make_stored_batch([NewRecord(b"b", timestamp=0)], behind),
    ]
    found, error = read_until_error(decode_rows("t", 4, batches, 0, behind + 1))
    before = [offset for rows in found for offset in rows.column("offset").to_pylist()]
    assert before == list(range(error.offset))
    assert (error.place, error.base_offset, error.next_offset) == (("t", 4), 3, behind)
    with pytest.warns(UserWarning, match="records were left out: t/4: the records from offset") as told:
        found = list(decode_rows("t", 4, batches, 0, behind + 1, skips_undecodable=True))
    assert len(told) == 1
    assert [offset for rows in found for offset in rows.column("offset").to_pylist()] == [*before, behind]
    assert list(decode_rows("t", 4, batches, 0, error.offset)), "what lies behind the bounds is no error"
    found, _ = read_until_error(decode_rows("t", 4, batches, behind - 1, behind + 1))
    assert found == []
