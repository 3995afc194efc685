"""Check that records of compacted topics have keys, by which later records replace earlier ones (INVALID_RECORD).

Stored batches are decompressed only for this check, within bounds, in slices and one after another in a process, since
a few bytes may decompress to very many. Compaction decompresses them again each time the high watermark rises."""

import asyncio
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final

from raftlog.errors import InvalidBatch, MissingKey, Overloaded, UndecodableBatch
from raftlog.partitions.deadline import Deadline
from raftlog.records import BatchHeader, Record, open_in_steps, read_records
from raftlog.runtime.slices import run_in_slices
from raftlog.types import Buffer

OPENED_BYTES_MIN: Final = 16 * 1024 * 1024
"""Bytes to which a compressed batch may decompress, or four times `max.message.bytes` if that is more."""
_BATCHES_OPENED: Final = 4
"""Limit for all batches of a call together, as a number of batches of the largest size."""
_SLICE_BYTES: Final = 1024 * 1024
_RECORD_COST: Final = 100
"""Cost of a record besides its bytes, in bytes."""


async def check_stored_keys(
    name: str,
    batches: Sequence[tuple[BatchHeader, Buffer]],
    batch_bytes_max: int,
    turn: asyncio.Lock,
    deadline: Deadline,
) -> None:
    """Raise `MissingKey` for a record without a key.

    `turn` is the lock under which compressed batches are decompressed. Raises `InvalidBatch` for a batch that cannot be
    decoded or decompresses to too much, and `Overloaded` if the lock is not free by the deadline."""
    if not any(header.compression for header, _ in batches):
        await _check_keys(name, batches, batch_bytes_max)
        return
    try:
        async with asyncio.timeout_at(deadline):
            await turn.acquire()
    except TimeoutError:
        raise Overloaded(f"{name}: compressed batches of others are being opened; nothing was appended") from None
    try:
        await _check_keys(name, batches, batch_bytes_max)
    finally:
        turn.release()


async def _check_keys(name: str, batches: Iterable[tuple[BatchHeader, Buffer]], batch_bytes_max: int) -> None:
    """Raise `MissingKey` for a record without a key; yield to the loop between slices."""
    limit = max(OPENED_BYTES_MIN, 4 * batch_bytes_max)
    left, looked_at = _BATCHES_OPENED * limit, 0
    for number, (header, batch) in enumerate(batches):
        opened = await run_in_slices(_open_batch(number, batch, min(limit, left)))
        for record in _read_batch(number, opened):
            if record.key is None:
                raise missing_key_error(name)
            size = len(record.key) + len(record.value or b"")
            if header.compression:
                left = max(0, left - size)
            looked_at += size + _RECORD_COST
            if looked_at >= _SLICE_BYTES:
                looked_at = 0
                await asyncio.sleep(0)


def _open_batch(number: int, batch: Buffer, opened_bytes_max: int) -> Generator[None, None, Buffer]:
    """Decompress a batch of a request in steps, as `open_in_steps` does. Raises `InvalidBatch`."""
    try:
        return (yield from open_in_steps(batch, opened_bytes_max))
    except UndecodableBatch as error:
        raise _undecodable_error(number, error) from None


def _read_batch(number: int, batch: Buffer) -> Iterator[Record]:
    """Yield records like `read_records`. Raises `InvalidBatch` for an undecodable batch."""
    try:
        yield from read_records(batch)
    except UndecodableBatch as error:
        raise _undecodable_error(number, error) from None


def _undecodable_error(number: int, error: UndecodableBatch) -> InvalidBatch:
    """Return the error for a client's batch that cannot be decoded."""
    return InvalidBatch(f"batch {number}: its records cannot be decoded: {error.why}")


def missing_key_error(name: str) -> MissingKey:
    """Return the error for a record without a key in a compacted topic."""
    return MissingKey(
        f"{name}: a record has no key, and the topic is compacted (cleanup.policy); send every record with a key"
    )
