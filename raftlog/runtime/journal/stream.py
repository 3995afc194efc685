"""Payload of the journal: frame after frame for recovery, and any range of it by address.

The payload of block s begins at address s · 4048 (`blocks`), so one number names bytes of the journal in whichever file
they lie. Every block is checked again when its payload is read."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from raftlog.errors import FormatError, JournalDamaged
from raftlog.runtime.journal.blocks import (
    BLOCK_HEADER,
    BLOCK_HEADER_SIZE,
    BLOCK_SIZE,
    PAYLOAD_SIZE,
    is_intact,
    read_block_header,
)
from raftlog.runtime.journal.operations import FRAME_HEAD, FRAME_HEAD_SIZE, OPERATION_HEAD_SIZE
from raftlog.runtime.journal.valid_range import LiveFile
from raftlog.types import Buffer, Position

_CHUNK_BLOCKS: Final = 256


class FrameTable(NamedTuple):
    """Heads of the operations of one frame; their bodies begin at `bodies`."""

    number: int
    heads: Buffer
    bodies: int
    """Address of the first body."""
    end: int
    """Address after the frame's payload; nothing in the frame reaches beyond it."""


class PayloadReader:
    """Reader of payload from the files that hold it, until they are recycled."""

    def __init__(self, live: Sequence[LiveFile], seed: int) -> None:
        self._live = list(live)
        self._seed = seed
        self._cached: tuple[int, memoryview] = (-1, memoryview(b""))
        """The block read last: recovery reads small bodies one after another."""

    def read(self, address: int, length: int) -> bytes:
        """Return `length` bytes of payload from `address`. Raises `JournalDamaged` when a block has changed."""
        sequence, skip = divmod(address, PAYLOAD_SIZE)
        if skip + length <= PAYLOAD_SIZE:
            if self._cached[0] != sequence:
                self._cached = (sequence, self._read_payloads(sequence, 1)[0])
            return bytes(self._cached[1][skip : skip + length])
        parts = []
        wanted = skip + length
        while wanted > 0:
            blocks = min(-(-wanted // PAYLOAD_SIZE), _CHUNK_BLOCKS)
            pieces = self._read_payloads(sequence, blocks)
            parts += pieces
            sequence += len(pieces)
            wanted -= len(pieces) * PAYLOAD_SIZE
        return b"".join(parts)[skip : skip + length]

    def _read_payloads(self, sequence: int, count: int) -> list[memoryview]:
        """Return the payload fields of up to `count` blocks that lie in one file. Raises `JournalDamaged`."""
        number = bisect_right(self._live, sequence, key=lambda live: live.first_sequence) - 1
        assert number >= 0, f"block {sequence} lies before the journal"
        file, use, first_sequence = self._live[number]
        if number + 1 < len(self._live):
            count = min(count, self._live[number + 1].first_sequence - sequence)
        block = sequence - first_sequence
        view = memoryview(file.read(block * BLOCK_SIZE, count * BLOCK_SIZE))
        found = []
        for at in range(0, count * BLOCK_SIZE, BLOCK_SIZE):
            bytes_of_block = view[at : at + BLOCK_SIZE]
            if len(bytes_of_block) < BLOCK_SIZE:
                raise JournalDamaged(file.path, Position(block * BLOCK_SIZE), "the file ends inside a block")
            header = read_block_header(bytes_of_block)
            if not (is_intact(bytes_of_block, header, block, self._seed) and header.use == use):
                raise JournalDamaged(file.path, Position(block * BLOCK_SIZE), "the block has changed since recovery")
            found.append(bytes_of_block[BLOCK_HEADER_SIZE:])
            block += 1
        return found

    def read_frames(self, start: int, end: int) -> Iterator[FrameTable]:
        """Yield the frames from number `start` on, below `end`; reads only blocks with heads."""
        sequence = start
        for number, (file, _, first_sequence) in enumerate(self._live):
            after = self._live[number + 1].first_sequence if number + 1 < len(self._live) else end
            while sequence < min(after, end):
                first = sequence
                count = min(_CHUNK_BLOCKS, min(after, end) - first)
                chunk = file.read((first - first_sequence) * BLOCK_SIZE, count * BLOCK_SIZE)
                while sequence < first + count:
                    table, sequence = self._read_table(chunk, sequence, sequence - first)
                    yield table

    def _read_table(self, chunk: bytes, sequence: int, block: int) -> tuple[FrameTable, int]:
        """Return the table of the frame that begins at block `block` of the chunk, and the next frame's number."""
        at = block * BLOCK_SIZE
        part, parts = BLOCK_HEADER.unpack_from(chunk, at)[5:7]
        assert part == 0, f"block {sequence} is part {part} of a frame, not its first"
        (count, _) = FRAME_HEAD.unpack_from(chunk, at + BLOCK_HEADER_SIZE)
        address = sequence * PAYLOAD_SIZE + FRAME_HEAD_SIZE
        size = count * OPERATION_HEAD_SIZE
        end = (sequence + parts) * PAYLOAD_SIZE
        if address + size > end:
            raise FormatError(f"frame {sequence} of the journal has {parts} blocks, too few for {count} operations")
        heads: Buffer
        if FRAME_HEAD_SIZE + size <= PAYLOAD_SIZE:
            from_byte = at + BLOCK_HEADER_SIZE + FRAME_HEAD_SIZE
            heads = memoryview(chunk)[from_byte : from_byte + size]
        else:
            heads = self.read(address, size)
        return FrameTable(sequence, heads, address + size, end), sequence + parts
