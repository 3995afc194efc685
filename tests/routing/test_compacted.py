"""Stored batches sent to a compacted topic: each record has a key, and the decompressed size is bounded."""

import asyncio

import pytest

from raftlog.errors import InvalidArgument, InvalidBatch, Overloaded
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.produce import compacted
from raftlog.partitions.produce.compacted import OPENED_BYTES_MIN, check_stored_keys
from raftlog.records import Compression, NewRecord, build_batch, read_header
from tests.loop_hold import LoopTurns
from tests.undecodable import SMALL, Undecodable

MAX_BYTES = 1 << 20


async def check_batches(*batches: bytearray) -> None:
    rows = [(read_header(each), each) for each in batches]
    await check_stored_keys("t/0", rows, MAX_BYTES, asyncio.Lock(), deadline_in(60_000))


def batch_of(size: int, codec: Compression, key: bytes | None = b"k") -> bytearray:
    return build_batch([NewRecord(b"small", b"first"), NewRecord(bytes(size), key)], codec)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
async def test_every_record_must_have_a_key(codec: Compression) -> None:
    await check_batches(batch_of(10, codec), batch_of(10, codec))
    with pytest.raises(InvalidArgument, match=r"cleanup\.policy"):
        await check_batches(batch_of(10, codec), batch_of(10, codec, key=None))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4, Compression.SNAPPY])
async def test_batches_that_decompress_too_far_are_refused(codec: Compression) -> None:
    batch = batch_of(OPENED_BYTES_MIN, codec)
    with pytest.raises(InvalidBatch):
        await check_batches(batch)


async def test_the_decompressed_size_of_a_call_is_bounded() -> None:
    batch = batch_of(OPENED_BYTES_MIN - 1000, Compression.ZSTD)
    await check_batches(batch, batch, batch)
    with pytest.raises(InvalidBatch):
        await check_batches(batch, batch, batch, batch, batch)


async def test_other_tasks_run_during_the_check() -> None:
    async with LoopTurns() as turns:
        await check_batches(build_batch([NewRecord(b"", b"k")] * 50_000))
    assert turns.count >= 4


@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
async def test_undecodable_batches_are_refused(sent: Undecodable) -> None:
    with pytest.raises(InvalidBatch, match="batch 1: its records cannot be decoded") as raised:
        await check_batches(batch_of(10, Compression.NONE), bytearray(sent.batch))
    assert type(raised.value) is InvalidBatch, "an offset to go on at is for readers"


async def test_compressed_batches_are_decompressed_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simultaneously 300 batches of 8 KB took 5 GiB, as each decompresses to more than 32 MiB."""
    turn, opened, most = asyncio.Lock(), 0, 0
    run_in_slices = compacted.run_in_slices

    async def counted(steps):
        nonlocal opened, most
        opened += 1
        most = max(most, opened)
        try:
            return await run_in_slices(steps)
        finally:
            opened -= 1

    monkeypatch.setattr(compacted, "run_in_slices", counted)
    batch = batch_of(4 << 20, Compression.GZIP)
    rows = [(read_header(batch), batch)]
    checks = [check_stored_keys("t/0", rows, MAX_BYTES, turn, deadline_in(60_000)) for _ in range(5)]
    await asyncio.gather(*checks)
    assert most == 1
    async with turn:
        with pytest.raises(Overloaded, match="nothing was appended"):
            await check_stored_keys("t/0", rows, MAX_BYTES, turn, deadline_in(1))
        plain = batch_of(10, Compression.NONE)
        await check_stored_keys("t/0", [(read_header(plain), plain)], MAX_BYTES, turn, deadline_in(1))
