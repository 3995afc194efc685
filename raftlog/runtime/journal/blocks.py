"""Blocks and frames: layout of the bytes of the journal in its files.

A frame is the content of one write: 1 to `WRITE_BLOCKS_MAX` blocks of 4 KiB, consecutive in sequence, each with a
header of 48 bytes and up to 4048 bytes of payload; all but the last are full. A frame is written only after the sync of
the frame before it returned, so a block of a later frame proves that every earlier frame was durable.

    part < parts ≤ WRITE_BLOCKS_MAX,   number of a frame = sequence − part of any of its blocks
    start ≤ sequence,                  sequence grows by 1 from block to block, across files

The payload of all blocks in order of sequence is one stream of addresses: the payload of block s begins at
s · 4048. A block contains its number in the file, so a block that was written in another place is not intact.
docs/FORMATS.md section 13 has the bytes. Pure: no files here.
"""

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, NewType

from crc32c import crc32c

from raftlog.types import Buffer

BLOCK_SIZE: Final = 4096
BLOCK_HEADER_SIZE: Final = 48
PAYLOAD_SIZE: Final = BLOCK_SIZE - BLOCK_HEADER_SIZE
WRITE_BLOCKS_MAX: Final = 1024
"""Maximum number of blocks after the journal's end that an unfinished write can reach; part of the format."""
BLOCK_MAGIC: Final = b"RLJB"
BLOCK_VERSION: Final = 1
CHECKED_FROM: Final = 8
"""Position in a block from which on its checksum covers it, after the disk uuid."""
JournalSequence = NewType("JournalSequence", int)
"""Number of a block in the journal, from 1 on; never reset for one disk uuid. A frame's number is its first block's."""
FIRST_SEQUENCE: Final = JournalSequence(1)

BLOCK_HEADER: Final = struct.Struct(">4sIIIIHHQQHHI")
CHECKSUM: Final = struct.Struct(">I")
_CHECKSUM_AT: Final = 4
ZERO_BLOCK: Final = bytes(BLOCK_SIZE)
assert BLOCK_HEADER.size == BLOCK_HEADER_SIZE


class BlockHeader(NamedTuple):
    """Header of a block as it is in the bytes."""

    magic: bytes
    checksum: int
    chain: int
    """Checksum of the block before it in sequence; 0 in the first block of a journal."""
    use: int
    """Number of the file's use: each file that is begun, new or recycled, gets the next number."""
    block: int
    """Number of the block in its file."""
    part: int
    parts: int
    sequence: int
    start: int
    """Number of the frame at which recovery begins: the newest checkpoint that was complete when this block was
    written."""
    length: int
    version: int
    reserved: int


class BlockRange(NamedTuple):
    """Blocks of one frame that are consecutive in one file: `blocks` of them from block `block` on.

    `use`: number of the use of the file, which is raised when it is recycled."""

    use: int
    block: int
    blocks: int


def checksum_seed(disk_uuid: uuid.UUID) -> int:
    """Return the CRC-32C of the disk's uuid, with which its blocks' checksums begin.

    A block of another disk is therefore never intact here."""
    return int(crc32c(disk_uuid.bytes))


def count_blocks(payload_bytes: int) -> int:
    """Return the number of blocks of a frame with `payload_bytes`; a frame without payload has one block."""
    return -(-payload_bytes // PAYLOAD_SIZE) or 1


def build_frame(
    payload: Buffer, sequence: int, start: int, chain: int, ranges: Sequence[BlockRange], seed: int
) -> tuple[bytearray, int]:
    """Return the bytes of a frame whose first block has `sequence`, and the checksum of its last block."""
    parts = count_blocks(len(payload))
    assert parts <= WRITE_BLOCKS_MAX, f"frame {sequence} would have {parts} > {WRITE_BLOCKS_MAX} blocks"
    assert parts == sum(each.blocks for each in ranges), (parts, ranges)
    out = bytearray(parts * BLOCK_SIZE)
    view, source = memoryview(out), memoryview(payload)
    part = at = 0
    for use, block, count in ranges:
        for number in range(block, block + count):
            piece = source[part * PAYLOAD_SIZE : (part + 1) * PAYLOAD_SIZE]
            length = len(piece)
            BLOCK_HEADER.pack_into(
                out, at, BLOCK_MAGIC, 0, chain, use, number, part, parts, sequence + part, start, length,
                BLOCK_VERSION, 0,
            )  # fmt: skip  # one line per field would hide that this is one call
            view[at + BLOCK_HEADER_SIZE : at + BLOCK_HEADER_SIZE + length] = piece
            chain = crc32c(view[at + CHECKED_FROM : at + BLOCK_SIZE], seed)
            CHECKSUM.pack_into(out, at + _CHECKSUM_AT, chain)
            part += 1
            at += BLOCK_SIZE
    return out, chain


def is_intact(block: Buffer, header: BlockHeader, number: int, seed: int) -> bool:
    """Return whether the 4096 bytes read at block `number` of a file are a block that this disk wrote there."""
    return (
        header.magic == BLOCK_MAGIC
        and header.block == number
        and header.checksum == crc32c(memoryview(block)[CHECKED_FROM:BLOCK_SIZE], seed)
    )


def read_block_header(buffer: Buffer, position: int = 0) -> BlockHeader:
    """Read a header; nothing in it is checked yet."""
    return BlockHeader._make(BLOCK_HEADER.unpack_from(buffer, position))
