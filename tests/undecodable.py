"""Catalogue of batches with valid length, CRC and counts, which brokers store, and undecodable records.

Each is what a hostile or broken producer can send: lengths, counts, deltas and varints that lie, and compressed records
that are garbage or open to more than a reader accepts.
"""

import gzip
import struct
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, TypeVar

import cramjam

from raftlog.errors import UndecodableBatch
from raftlog.records.header import HEADER_SIZE, LENGTH_END, BatchHeader, batch_crc, header_bytes

T = TypeVar("T")
INT64_MAX = (1 << 63) - 1
BOMB_BYTES = 300 << 20
TIMESTAMP_MS = 1_700_000_000_000


class Undecodable(NamedTuple):
    """Batch at base offset 0, its span of offsets, and its count of decodable records."""

    name: str
    batch: bytes
    span: int = 2
    sound_records: int = 1


def read_until_error(records: Iterable[T]) -> tuple[list[T], UndecodableBatch]:
    """Return the records before the error, and the error."""
    found: list[T] = []
    try:
        for each in records:
            found.append(each)
    except UndecodableBatch as error:
        return found, error
    raise AssertionError(f"all {len(found)} records could be decoded")


def varint(value: int) -> bytes:
    """Return a zigzag varint of up to 64 bits."""
    left = (value << 1) ^ (value >> 63) if value < 0 else value << 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(0x80 | left & 0x7F)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def record(
    delta: int,
    value: bytes = b"value",
    *,
    key: bytes = b"key",
    value_length: int | None = None,
    key_length: int | None = None,
    headers: bytes = b"",
    header_count: int = 0,
    length_error: int = 0,
) -> bytes:
    """Return one record, whose lengths and counts may contradict its parts."""
    body = (
        b"\x00"
        + varint(0)
        + varint(delta)
        + varint(len(key) if key_length is None else key_length)
        + key
        + varint(len(value) if value_length is None else value_length)
        + value
        + varint(header_count)
        + headers
    )
    return varint(len(body) + length_error) + body


def batch_of(records: bytes, span: int, *, codec: int = 0, timestamp_ms: int = TIMESTAMP_MS) -> bytes:
    """Return a batch with a correct header, length and CRC around any bytes."""
    length = HEADER_SIZE - LENGTH_END + len(records)
    header = BatchHeader(0, length, 0, 2, 0, codec, span - 1, timestamp_ms, timestamp_ms, -1, -1, -1, span)
    unsealed = header_bytes(header) + records
    return header_bytes(header._replace(crc=batch_crc(unsealed))) + records


def _bad_second(name: str, second: bytes) -> Undecodable:
    return Undecodable(name, batch_of(record(0) + second, 2))


def _garbage(name: str, records: bytes, codec: int) -> Undecodable:
    return Undecodable(name, batch_of(records, 2, codec=codec), sound_records=0)


_SOUND = record(0) + record(1)
_KEY = varint(1) + b"h"
_ONE = batch_of(record(0, b"", key=b"", value_length=INT64_MAX), 1)

SMALL: tuple[Undecodable, ...] = (
    Undecodable("the only value claims 2^63-1 bytes", _ONE, 1, 0),
    _bad_second("value of 2^63-1 bytes", record(1, value_length=INT64_MAX)),
    _bad_second("value that no process can hold", record(1, value_length=INT64_MAX - 100)),
    _bad_second("value longer than the batch", record(1, value_length=100)),
    _bad_second("value into the headers", record(1, value_length=6)),
    _bad_second("key of 2^63-1 bytes", record(1, key_length=INT64_MAX)),
    _bad_second("key longer than the batch", record(1, key_length=1_000)),
    _bad_second("key into the value", record(1, key_length=5)),
    _bad_second("headers without bytes", record(1, header_count=1)),
    _bad_second("2^62 headers", record(1, header_count=1 << 62, headers=(_KEY + varint(0)) * 3)),
    _bad_second("negative number of headers", record(1, header_count=-1)),
    _bad_second("header name of 2^63-1 bytes", record(1, header_count=1, headers=varint(INT64_MAX))),
    _bad_second("header name of negative length", record(1, header_count=1, headers=varint(-1) + varint(0))),
    _bad_second("header name that is no UTF-8", record(1, header_count=1, headers=varint(1) + b"\xff" + varint(0))),
    _bad_second("header value of 2^63-1 bytes", record(1, header_count=1, headers=_KEY + varint(INT64_MAX))),
    _bad_second("header value outside the batch", record(1, header_count=1, headers=_KEY, length_error=1)),
    _bad_second("record length too small", record(1, length_error=-1)),
    _bad_second("record length too large", record(1, length_error=1)),
    _bad_second("record length of 2^63-1", varint(INT64_MAX) + record(1)[1:]),
    _bad_second("varint of more than 64 bits", b"\xff" * 12),
    _bad_second("varint that runs past the end", record(1)[:-1] + b"\x80"),
    _bad_second("varints alone", b"\x80" * 7),
    _bad_second("offset delta twice", record(0)),
    _bad_second("offset delta behind the last one", record(2)),
    _bad_second("negative offset delta", record(-1)),
    _bad_second("offset delta of 2^62", record(1 << 62)),
    Undecodable("bytes behind the last record", batch_of(_SOUND + b"rest", 2)),
    Undecodable("more records than counted", batch_of(_SOUND + record(2), 2)),
    Undecodable("fewer records than counted", batch_of(_SOUND, 3), 3, 2),
    _garbage("gzip of garbage", b"garbage" * 9, 1),
    _garbage("gzip that ends too early", gzip.compress(_SOUND)[:-9], 1),
    _garbage("snappy of garbage", b"\xff" * 60, 2),
    _garbage("snappy frame that lies", b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, INT64_MAX >> 32) + b"x" * 40, 2),
    _garbage("snappy that claims 2^32-1 bytes", b"\xff\xff\xff\xff\x0f" + b"\x00" * 40, 2),
    _garbage("lz4 of garbage", b"garbage" * 9, 3),
    _garbage("lz4 that ends too early", bytes(cramjam.lz4.compress(_SOUND * 9))[:-9], 3),
    _garbage("zstd of garbage", b"garbage" * 9, 4),
    _garbage("zstd that ends too early", bytes(cramjam.zstd.compress(_SOUND * 9))[:-4], 4),
    Undecodable(
        "a billion records in a few bytes", batch_of(gzip.compress(_SOUND), 1_000_000_000, codec=1), 1_000_000_000, 2
    ),
    Undecodable(
        "gzip with a value of 2^63-1 bytes",
        batch_of(gzip.compress(record(0) + record(1, value_length=INT64_MAX)), 2, codec=1),
    ),
    Undecodable("zstd with a lying delta", batch_of(bytes(cramjam.zstd.compress(record(0) + record(7))), 2, codec=4)),
)
"""Batches that cost next to nothing to read."""


@cache
def make_bombs() -> tuple[Undecodable, ...]:
    """Return batches of less than 400 KB that decompress to more than 256 MiB; building them takes seconds."""
    zeros = bytes(BOMB_BYTES)
    return (
        _garbage("gzip bomb", gzip.compress(zeros, 9), 1),
        _garbage("zstd bomb", bytes(cramjam.zstd.compress(zeros)), 4),
    )
