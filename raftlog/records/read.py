"""Decoding records, for clients, JSON faces and tools. The decoding itself is aiokafka's compiled codec."""

from collections.abc import Iterator
from typing import Protocol

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from raftlog.errors import InvalidBatch
from raftlog.records.compression import decompress
from raftlog.records.header import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_END,
    BatchHeader,
    header_bytes,
    read_header,
)
from raftlog.types import Buffer

OPENED_BYTES_MAX = 256 * 1024 * 1024
"""Records of one batch that open to more than this are refused."""


class Record(Protocol):
    """A stored record. `timestamp` is in milliseconds, -1 when it has none."""

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

    Raises `InvalidBatch` when the contents do not hold together or open to more than `opened_bytes_max` bytes.
    """
    header = read_header(batch)
    if header.compression:
        batch = _opened(batch, header, opened_bytes_max)
    try:
        yield from DefaultRecordBatch(batch)
    except (CorruptRecordException, ValueError, UnicodeDecodeError) as error:
        raise InvalidBatch(
            f"the records of the batch at offset {header.base_offset} cannot be read: {error}"
        ) from error


def _opened(batch: Buffer, header: BatchHeader, opened_bytes_max: int) -> bytes:
    records = decompress(header.compression, memoryview(batch)[HEADER_SIZE:], opened_bytes_max)
    length = HEADER_SIZE + len(records) - LENGTH_END
    plain = header._replace(batch_length=length, attributes=header.attributes & ~COMPRESSION_MASK)
    return header_bytes(plain) + records
