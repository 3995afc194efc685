"""Decoder of records for clients, JSON interfaces and tools, with the compiled codec of aiokafka."""

from collections.abc import Generator, Iterator
from itertools import islice
from typing import Protocol

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from raftlog.errors import InvalidBatch, UndecodableBatch
from raftlog.records.compression import decompress_in_steps
from raftlog.records.header import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_END,
    header_bytes,
    read_header,
)
from raftlog.types import Buffer

OPENED_BYTES_MAX = 256 * 1024 * 1024
"""Default bound on the decompressed size of one batch's records."""
_TOO_LONG = "a key, value or header claims to be longer than the batch"
_NUL_ENDED = (bytes, bytearray)


class Record(Protocol):
    """Stored record. `timestamp` is in milliseconds; -1: none."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


def read_records(batch: Buffer, opened_bytes_max: int = OPENED_BYTES_MAX) -> Iterator[Record]:
    """Iterate over the records of exactly one batch, whose CRC the caller has checked.

    A compressed batch is decompressed at once, before the first record; `open_in_steps` decompresses with pauses. A
    batch of `build_empty_batch` is accepted, and has no records.

    Raises `UndecodableBatch` after the records that can be decoded, if the others are inconsistent or the batch
    decompresses to more than `opened_bytes_max` bytes. At least one record of such a batch is not returned."""
    header = read_header(batch)
    base_offset, count = header.base_offset, header.record_count
    if count == 0 and header.size == HEADER_SIZE == len(batch):
        return
    end = base_offset + 1 if header.is_control else header.next_offset
    last = base_offset - 1
    opened = _pad(batch) if not header.compression else _open_at_once(batch, opened_bytes_max)
    try:
        records = iter(DefaultRecordBatch(opened))
        if count < 1:
            raise ValueError(f"it has {count} records")
        for record in islice(records, count - 1):
            if not last < record.offset < end:
                raise ValueError(f"a record claims offset {record.offset}")
            yield record
            last = record.offset
        record = next(records)
        if not last < record.offset < end:
            raise ValueError(f"a record claims offset {record.offset}")
        next(records, None)  # raises when bytes are left
    except MemoryError:
        bytearray(len(opened))  # raises again when memory is short; no sound record needs more than this
        raise UndecodableBatch(base_offset, last + 1, header.next_offset, _TOO_LONG) from None
    except OverflowError:
        raise UndecodableBatch(base_offset, last + 1, header.next_offset, _TOO_LONG) from None
    except (CorruptRecordException, ValueError) as error:
        why = str(error.args[0]) if isinstance(error, CorruptRecordException) and error.args else str(error)
        raise UndecodableBatch(base_offset, last + 1, header.next_offset, why) from None
    yield record


def open_in_steps(batch: Buffer, opened_bytes_max: int = OPENED_BYTES_MAX) -> Generator[None, None, Buffer]:
    """Return the batch with its records uncompressed, for `read_records`.

    A batch that is not compressed is returned as it is. Yields None at points where other tasks may run. Raises
    `UndecodableBatch` if the batch cannot be decompressed, or has more than `opened_bytes_max` bytes of records."""
    header = read_header(batch)
    if not header.compression:
        return batch
    opened = bytearray(HEADER_SIZE)
    try:
        stored = memoryview(batch)[HEADER_SIZE:]
        yield from decompress_in_steps(header.compression, stored, opened_bytes_max, opened)
    except InvalidBatch as error:
        raise UndecodableBatch(header.base_offset, header.base_offset, header.next_offset, str(error)) from None
    attributes = header.attributes & ~COMPRESSION_MASK
    plain = header._replace(batch_length=len(opened) - LENGTH_END, attributes=attributes)
    opened[:HEADER_SIZE] = header_bytes(plain)
    return opened


def _open_at_once(batch: Buffer, opened_bytes_max: int) -> Buffer:
    """Return the batch with its records uncompressed, without pauses."""
    steps = open_in_steps(batch, opened_bytes_max)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Buffer = end.value
            return found


def _pad(batch: Buffer) -> Buffer:
    """Return the batch in an object whose memory has a NUL after the bytes.

    The codec reads a few bytes past the end of a batch with wrong lengths."""
    view = memoryview(batch)
    return batch if isinstance(view.obj, _NUL_ENDED) and view.contiguous else bytes(view)
