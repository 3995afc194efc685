"""Appends of restored batches: at their own offsets, at the end of the log alone, from any broker."""

from pathlib import Path

import pytest

from raftlog.errors import InvalidBatch, UnknownTopic, VersionConflict
from raftlog.records import NewRecord, build_batch, build_empty_batch, read_header, read_records, stamp
from raftlog.records.header import batch_crc, header_bytes
from raftlog.types import Offset, Term
from tests.brokers.conftest import Brokers, brokers_in
from tests.operations.conftest import soon, three, write

__all__ = ["three"]


def batch_at(offset: int, *values: bytes) -> bytearray:
    batch = build_batch([NewRecord(value, b"key", 1_000) for value in values])
    stamp(batch, Offset(offset), Term(7))
    return batch


def with_fields(batch: bytearray, **fields: int) -> bytes:
    """Return a batch with other header fields and the right CRC."""
    header = read_header(batch)._replace(**fields)
    body = header_bytes(header) + bytes(batch[61:])
    return header_bytes(header._replace(crc=batch_crc(body))) + body[61:]


async def read_all(brokers: Brokers, start: int) -> list[tuple[int, bytes | None]]:
    fetched = await brokers[1].fetch("t", 0, start, max_bytes=1 << 20, min_bytes=0, deadline=soon())
    return [(record.offset, record.value) for batch in fetched.batches for record in read_records(batch)]


async def test_batches_keep_their_offsets_through_any_broker(three: Brokers) -> None:
    await three[1].create_topic("t", deadline=soon())
    filler = build_empty_batch(0, 1_000, 0)
    body = bytes(filler) + bytes(batch_at(1_000, b"a", b"b"))
    assert (await three[1].operations.restoring.restore_batches("t", 0, body, deadline=soon())).next_offset == 1_002
    sparse = with_fields(batch_at(1_002, b"c"), last_offset_delta=9)
    done = await three[2].operations.restoring.restore_batches("t", 0, sparse, deadline=soon())
    assert (done.base_offset, done.next_offset, done.high_watermark) == (1_002, 1_012, 1_012)
    assert (await three[3].operations.restoring.restore_batches("t", 0, batch_at(1_012, b"d"), deadline=soon()))[
        1
    ] == 1_013
    await three[1].delete_records("t", 0, 1_000, deadline=soon())
    assert await three[2].offsets("t", 0, deadline=soon()) == (1_000, 1_013)
    assert await read_all(three, 1_000) == [(1_000, b"a"), (1_001, b"b"), (1_002, b"c"), (1_012, b"d")]
    await write(three[3], "t", b"e")
    assert (await read_all(three, 1_005))[-2:] == [(1_012, b"d"), (1_013, b"e")]


async def test_batches_elsewhere_than_at_the_end_are_refused_and_change_nothing(three: Brokers) -> None:
    await three[1].create_topic("t", deadline=soon())
    await write(three[1], "t", b"first")
    for number, offset in ((1, 0), (2, 2), (3, 7)):
        with pytest.raises(VersionConflict, match=f"ends at offset 1, and the batches begin at {offset}"):
            await three[number].operations.restoring.restore_batches("t", 0, batch_at(offset, b"x"), deadline=soon())
    assert await read_all(three, 0) == [(0, b"first")]
    with pytest.raises(UnknownTopic):
        await three[1].operations.restoring.restore_batches("none", 0, batch_at(0, b"x"), deadline=soon())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no batch"),
        (with_fields(batch_at(0, b"x"), producer_id=5, producer_epoch=0, base_sequence=0), "have no producer"),
        (with_fields(batch_at(0, b"x"), attributes=0x20), "attributes"),
        (with_fields(batch_at(0, b"x"), record_count=2), "recordCount is 2"),
        (with_fields(batch_at(0, b"x"), last_offset_delta=-1), "lastOffsetDelta -1"),
        (bytes(batch_at(0, b"x")) + bytes(batch_at(2, b"y")), "its offset is 2, and 1 follows"),
        (bytes(batch_at(0, b"x"))[:-1] + b"?", "CRC"),
    ],
)
async def test_impossible_batches_are_refused(tmp_path: Path, body: bytes, reason: str) -> None:
    async with brokers_in(tmp_path, 1) as brokers:
        await brokers.start()
        await brokers[1].create_topic("t", deadline=soon())
        with pytest.raises(InvalidBatch, match=reason):
            await brokers[1].operations.restoring.restore_batches("t", 0, body, deadline=soon())
        assert await brokers[1].offsets("t", 0, deadline=soon()) == (0, 0)
