"""The codecs of a batch's records section: what they are called, and how they are opened within a bound.

Brokers never open one; JSON faces and tools do, on bytes that a stranger wrote, so the result is bounded before it
is allocated. The formats are Kafka's: gzip, xerial-framed or raw snappy, LZ4 frames, zstd.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam

from raftlog.errors import InvalidArgument, InvalidBatch
from raftlog.types import Buffer

XERIAL_HEADER = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_LENGTH = struct.Struct(">i")
_NO_ROOM = "failed to write whole buffer"
"""How the codec says that the target is too small, rather than the payload broken."""


class Compression(IntEnum):
    """Codec numbers as they stand in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> "Compression":
        """`"lz4"` → `LZ4`; raises `InvalidArgument`."""
        try:
            return cls[name.upper()]
        except KeyError:
            names = ", ".join(codec.name.lower() for codec in cls)
            raise InvalidArgument(f"unknown compression {name!r}; it can be {names}") from None


def decompress(codec: int, payload: Buffer, limit_bytes: int) -> bytes:
    """Open `payload`; raises `InvalidBatch` when it is broken or larger than `limit_bytes` when opened."""
    try:
        if codec == Compression.GZIP:
            return _gunzip(payload, limit_bytes)
        if codec == Compression.SNAPPY:
            return _unsnappy(memoryview(payload), limit_bytes)
        if codec == Compression.LZ4:
            return _grow_into(cramjam.lz4.decompress_into, payload, limit_bytes)
        if codec == Compression.ZSTD:
            return _grow_into(cramjam.zstd.decompress_into, payload, limit_bytes)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise InvalidBatch(f"the {Compression(codec).name.lower()} records cannot be opened: {error}") from None
    raise InvalidBatch(f"unknown compression codec {codec}")


def _too_large(limit_bytes: int) -> InvalidBatch:
    return InvalidBatch(f"the compressed records open to more than {limit_bytes} bytes")


def _gunzip(payload: Buffer, limit_bytes: int) -> bytes:
    opener = zlib.decompressobj(wbits=31)
    opened = opener.decompress(payload, limit_bytes)
    if opener.unconsumed_tail:
        raise _too_large(limit_bytes)
    if not opener.eof:
        raise InvalidBatch("the gzip records end too early")
    return opened


def _grow_into(decompress_into: Callable[[Buffer, bytearray], int], payload: Buffer, limit_bytes: int) -> bytes:
    """Open into a buffer that grows to the limit; the codec refuses to write past it."""
    size = min(limit_bytes, max(64 * 1024, 8 * len(payload)))
    while True:
        target = bytearray(size)
        try:
            return bytes(memoryview(target)[: decompress_into(payload, target)])
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise
            if size == limit_bytes:
                raise _too_large(limit_bytes) from None
            size = min(limit_bytes, size * 16)


def _unsnappy(payload: memoryview, limit_bytes: int) -> bytes:
    if payload[:8] != XERIAL_HEADER:
        return _unsnappy_raw(payload, limit_bytes)
    opened = bytearray()
    position = _XERIAL_HEADER_SIZE
    while position < len(payload):
        (length,) = _LENGTH.unpack_from(payload, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(payload):
            raise InvalidBatch("the snappy records end too early")
        opened += _unsnappy_raw(payload[position : position + length], limit_bytes - len(opened))
        position += length
    return bytes(opened)


def _unsnappy_raw(payload: memoryview, limit_bytes: int) -> bytes:
    """A raw snappy block begins with its opened length, which is checked before anything is allocated."""
    if cramjam.snappy.decompress_raw_len(payload) > limit_bytes:
        raise _too_large(limit_bytes)
    return bytes(cramjam.snappy.decompress_raw(payload))
