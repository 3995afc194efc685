"""Codecs of a batch's records section: names, decompression within a bound, and compression.

Brokers do not decompress stored batches to produce and fetch them; JSON handlers, compaction and tools decompress
untrusted bytes, so the size of the result is bounded before it is allocated. The formats are Kafka's: gzip,
xerial-framed or raw snappy, LZ4 frames, zstd.

`decompress_in_steps` yields None at points where other tasks may run. gzip and framed snappy are decompressed a piece
at a time. The other codecs have a single call, which takes about 1 ms per MiB of its result; the result is not copied.
`compress_in_steps` yields in the same way, for every codec."""

import struct
import zlib
from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Final, TypeAlias

import cramjam

from raftlog.errors import InvalidArgument, InvalidBatch
from raftlog.types import Buffer

XERIAL_HEADER = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_LENGTH = struct.Struct(">i")
_PIECE_BYTES: Final = 1024 * 1024
"""Number of decompressed bytes between two yields."""
_FED_BYTES: Final = 64 * 1024
"""Maximum input of one call to zlib, which copies the unused rest."""
_XERIAL_START: Final = XERIAL_HEADER + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_GZIP_LEVEL: Final = 6
_LZ4_LEVEL: Final = 9
_ZSTD_LEVEL: Final = 3
"""Kafka's default levels (KIP-390)."""
_NO_ROOM = "failed to write whole buffer"
"""The codec's message for a target that is too small; it has others for a damaged payload."""

Steps: TypeAlias = Generator[None, None, None]


class Compression(IntEnum):
    """Codec numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> "Compression":
        """Return the codec with a name such as `"lz4"`, in upper or lower case; raises `InvalidArgument`."""
        try:
            return cls[name.upper()]
        except KeyError:
            names = ", ".join(codec.name.lower() for codec in cls)
            raise InvalidArgument(f"unknown compression {name!r}; it can be {names}") from None


def decompress_in_steps(codec: int, payload: Buffer, limit_bytes: int, opened: bytearray) -> Steps:
    """Append the decompressed `payload` to `opened`, in steps: other tasks may run at each yield.

    Raises `InvalidBatch` if the payload is damaged or decompresses to more than `limit_bytes`."""
    try:
        if codec == Compression.GZIP:
            yield from _gunzip(memoryview(payload), limit_bytes, opened)
        elif codec == Compression.SNAPPY:
            yield from _unsnappy(memoryview(payload), limit_bytes, opened)
        elif codec == Compression.LZ4:
            yield from _decompress_growing(cramjam.lz4.decompress_into, payload, limit_bytes, opened)
        elif codec == Compression.ZSTD:
            yield from _decompress_growing(cramjam.zstd.decompress_into, payload, limit_bytes, opened)
        else:
            raise InvalidBatch(f"unknown compression codec {codec}")
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise InvalidBatch(f"the {Compression(codec).name.lower()} records cannot be decompressed: {error}") from None


def _too_large_error(limit_bytes: int) -> InvalidBatch:
    """Return the error for records that decompress to too many bytes."""
    return InvalidBatch(f"the compressed records decompress to more than {limit_bytes} bytes")


def _gunzip(payload: memoryview, limit_bytes: int, opened: bytearray) -> Steps:
    """Decompress the first member of gzip data; bytes after it are ignored."""
    opener = zlib.decompressobj(wbits=31)
    left, position = limit_bytes, 0
    while not opener.eof:
        fed: Buffer = opener.unconsumed_tail
        if not fed:
            fed = payload[position : position + _FED_BYTES]
            position += len(fed)
        piece = opener.decompress(fed, min(_PIECE_BYTES, left) or 1)
        if not piece and not fed:
            raise InvalidBatch("the gzip records are truncated")
        left -= len(piece)
        if left < 0:
            raise _too_large_error(limit_bytes)
        opened += piece
        yield


def _decompress_growing(
    decompress_into: Callable[[Buffer, Buffer], int], payload: Buffer, limit_bytes: int, opened: bytearray
) -> Steps:
    """Decompress into a buffer that grows up to the limit; the codec refuses to write past its end."""
    size = min(limit_bytes, max(64 * 1024, 8 * len(payload)))
    while True:
        try:
            yield from _append_output(lambda room: decompress_into(payload, room), size, opened)
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise
            if size == limit_bytes:
                raise _too_large_error(limit_bytes) from None
            size = min(limit_bytes, size * 16)
        else:
            return


def _append_output(write: Callable[[memoryview], int], size: int, opened: bytearray) -> Steps:
    """Append the bytes that `write` writes into a buffer of `size` bytes; nothing if it raises an error."""
    begin, written = len(opened), 0
    try:
        for start in range(0, size, _PIECE_BYTES):
            opened += bytes(min(_PIECE_BYTES, size - start))
            yield
        with memoryview(opened) as everything, everything[begin:] as room:
            written = write(room)
        yield
    finally:
        del opened[begin + written :]


def _unsnappy(payload: memoryview, limit_bytes: int, opened: bytearray) -> Steps:
    """Decompress a raw snappy block, or the blocks of a xerial frame."""
    if payload[:8] != XERIAL_HEADER:
        yield from _unsnappy_raw(payload, limit_bytes, limit_bytes, opened)
        return
    position, end = _XERIAL_HEADER_SIZE, len(opened) + limit_bytes
    while position < len(payload):
        (length,) = _LENGTH.unpack_from(payload, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(payload):
            raise InvalidBatch("the snappy records are truncated")
        yield from _unsnappy_raw(payload[position : position + length], end - len(opened), limit_bytes, opened)
        position += length
        yield


def _unsnappy_raw(payload: memoryview, room: int, limit_bytes: int, opened: bytearray) -> Steps:
    """Decompress a raw snappy block, after a check of the decompressed length in its header."""
    size = cramjam.snappy.decompress_raw_len(payload)
    if size > room:
        raise _too_large_error(limit_bytes)
    if size <= _PIECE_BYTES:
        opened += cramjam.snappy.decompress_raw(payload)
    else:
        yield from _append_output(lambda target: cramjam.snappy.decompress_raw_into(payload, target), size, opened)


def compress_in_steps(codec: int, records: Buffer) -> Generator[None, None, bytes]:
    """Return `records` compressed in a form that every Kafka client can read; a step takes at most about 4 ms."""
    pieces = memoryview(records)
    if codec == Compression.GZIP:
        deflate = zlib.compressobj(_GZIP_LEVEL, wbits=31)
        packed = []
        for start in range(0, len(pieces), _FED_BYTES):
            packed.append(deflate.compress(pieces[start : start + _FED_BYTES]))
            yield
        return b"".join((*packed, deflate.flush()))
    if codec == Compression.SNAPPY:
        blocks = bytearray(_XERIAL_START)
        for start in range(0, len(pieces), _XERIAL_BLOCK_BYTES):
            block = cramjam.snappy.compress_raw(pieces[start : start + _XERIAL_BLOCK_BYTES])
            blocks += _LENGTH.pack(len(block))
            blocks += memoryview(block)
            yield
        return bytes(blocks)
    compressor: cramjam.lz4.Compressor | cramjam.zstd.Compressor
    if codec == Compression.LZ4:  # KIP-57: Kafka's Java client opens independent blocks only
        compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
    else:
        assert codec == Compression.ZSTD, f"codec {codec} is checked before a batch is stored"
        compressor = cramjam.zstd.Compressor(_ZSTD_LEVEL)
    for start in range(0, len(pieces), _FED_BYTES):
        compressor.compress(bytes(pieces[start : start + _FED_BYTES]))
        yield
    return bytes(compressor.finish())
