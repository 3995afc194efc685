"""What compacted topics ask of records: a key each, for without one nobody could say which record is the newest of its
kind (Kafka's INVALID_RECORD). Stored batches are opened for that, and only for that: within bounds, and with others in
between, for a few bytes may open to very many. Whoever compacts opens them again, as often as a mark rises.
"""

import asyncio
from collections.abc import Generator, Iterable, Iterator
from typing import Final

from raftlog.errors import InvalidArgument, InvalidBatch, UndecodableBatch
from raftlog.records import BatchHeader, Record, open_in_steps, read_records
from raftlog.runtime.slices import in_slices
from raftlog.types import Buffer

OPENED_BYTES_MIN: Final = 16 * 1024 * 1024
"""A compressed batch may open to so much, or to four times `max.message.bytes` where that is more."""
_BATCHES_OPENED: Final = 4
"""All batches of a call together open to no more than so many of the largest."""
_SLICE_BYTES: Final = 1024 * 1024
_RECORD_COST: Final = 100
"""What a record costs beside its bytes."""


async def check_stored_keys(name: str, batches: Iterable[tuple[BatchHeader, Buffer]], batch_bytes_max: int) -> None:
    """Raises `InvalidArgument` for a record without a key, and `InvalidBatch` for what cannot be decoded, or opens to
    too much."""
    limit = max(OPENED_BYTES_MIN, 4 * batch_bytes_max)
    left, looked_at = _BATCHES_OPENED * limit, 0
    for number, (header, batch) in enumerate(batches):
        opened = await in_slices(_opened(number, batch, min(limit, left)))
        for record in _records(number, opened):
            if record.key is None:
                raise no_key(name)
            size = len(record.key) + len(record.value or b"")
            if header.compression:
                left = max(0, left - size)
            looked_at += size + _RECORD_COST
            if looked_at >= _SLICE_BYTES:
                looked_at = 0
                await asyncio.sleep(0)


def _opened(number: int, batch: Buffer, opened_bytes_max: int) -> Generator[None, None, Buffer]:
    """As `open_in_steps`, but that a batch which is offered has no offsets to go on at."""
    try:
        return (yield from open_in_steps(batch, opened_bytes_max))
    except UndecodableBatch as error:
        raise _undecodable(number, error) from None


def _records(number: int, batch: Buffer) -> Iterator[Record]:
    """As `read_records`, in the same way."""
    try:
        yield from read_records(batch)
    except UndecodableBatch as error:
        raise _undecodable(number, error) from None


def _undecodable(number: int, error: UndecodableBatch) -> InvalidBatch:
    return InvalidBatch(f"batch {number}: its records cannot be decoded: {error.why}")


def no_key(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name}: a record has no key, and the topic is compacted (cleanup.policy): send every record with a key"
    )
