"""A batch with fewer of its records: each that stays keeps its bytes, offset and timestamp."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import InvalidBatch
from raftlog.records import Compression, NewRecord, build_batch, crc_matches, read_header, read_records, stamp
from raftlog.records.compression import compress_in_steps, decompress_in_steps
from raftlog.records.header import HEADER_SIZE, batch_crc
from raftlog.records.read import open_in_steps
from raftlog.records.retain import retain_in_steps
from raftlog.types import Buffer, Offset, Term
from tests.stepping import result_of, run_steps

RECORDS = st.lists(
    st.tuples(
        st.builds(
            NewRecord,
            st.none() | st.sampled_from([b"", b"v" * 40, b"v" * 70, b"v" * 9000]),
            st.none() | st.binary(max_size=5),
            st.integers(0, 1 << 40),
            st.sampled_from([[], [("name", b"value")]]),
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def retain_records(batch: Buffer, keeps: list[bool]) -> bytes:
    return result_of(retain_in_steps(read_header(batch), result_of(open_in_steps(batch)), keeps))


@settings(max_examples=30)
@given(records=RECORDS, codec=st.sampled_from(list(Compression)))
def test_remaining_records_are_unchanged(records: list[tuple[NewRecord, bool]], codec: Compression) -> None:
    keeps = [keeps for _, keeps in records]
    keeps[-1] = keeps[-1] or not any(keeps)
    batch = build_batch([record for record, _ in records], codec)
    stamp(batch, Offset(1000), Term(7))
    retained = retain_records(batch, keeps)
    before, after = read_header(batch), read_header(retained)
    assert crc_matches(retained, after)
    assert after.size == len(retained)
    assert after.record_count == sum(keeps)
    unchanged = {"batch_length": 0, "crc": 0, "record_count": 0}
    assert after._replace(**unchanged) == before._replace(**unchanged)
    kept = [record for record, is_kept in zip(read_records(batch), keeps, strict=True) if is_kept]
    fields = [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in kept]
    assert [
        (each.offset, each.timestamp, each.key, each.value, each.headers) for each in read_records(retained)
    ] == fields


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_large_batch_is_compressed_in_many_steps(codec: Compression) -> None:
    """A piece of 64 KiB in each: a whole batch of 20 MiB takes gzip seconds."""
    value = b"".join(b'{"user": %d}' % (number * 7919) for number in range(80_000))
    records = [NewRecord(value, b"old"), NewRecord(value, b"new")]
    packed, steps = run_steps(compress_in_steps(codec, memoryview(value)))
    assert steps >= len(value) // (64 * 1024)
    opened = bytearray()
    run_steps(decompress_in_steps(codec, packed, len(value), opened))
    assert opened == value
    batch = build_batch(records, codec)
    retained = retain_records(batch, [False, True])
    assert [(each.offset, each.key, each.value) for each in read_records(retained)] == [(1, b"new", value)]


def test_lz4_frames_have_independent_blocks() -> None:
    """Kafka's Java client opens no others (KIP-57); bit 5 of the frame's flags marks them."""
    packed = result_of(compress_in_steps(Compression.LZ4, bytes(300_000)))
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20


@pytest.mark.parametrize("length", [b"\xff\xff\x7f", b"\xff", b"\xff\xff\xff\xff\xff\xff"])
def test_a_record_that_ends_behind_its_batch_is_refused(length: bytes) -> None:
    batch = build_batch([NewRecord(b"x"), NewRecord(b"y")])
    broken = bytearray(batch[:HEADER_SIZE] + length)
    broken[8:12] = (len(broken) - 12).to_bytes(4)
    broken[17:21] = batch_crc(broken).to_bytes(4)
    with pytest.raises(InvalidBatch):
        retain_records(broken, [True, True])
