"""The 61-byte header of a RecordBatch v2, which is read, checked and stamped in place.

position  size  field                  inside the CRC
       0     8  baseOffset             no: the leader stamps it
       8     4  batchLength            no: bytes after this field
      12     4  partitionLeaderEpoch   no: the leader stamps the term
      16     1  magic (2)              no
      17     4  crc (CRC-32C)          covers everything from position 21 to the end
      21     2  attributes             yes, and so are all that follow:
      23     4  lastOffsetDelta
      27     8  baseTimestamp, 8 maxTimestamp, 8 producerId, 2 producerEpoch, 4 baseSequence
      57     4  recordCount
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from raftlog.types import Buffer, Offset, Term

HEADER_SIZE = 61
LENGTH_END = 12
"""`batchLength` counts the bytes after this position."""
MAGIC = 2
CRC_START = 21
TERM_MAX = (1 << 31) - 1
COMPUTED_PRODUCER_IDS = 1 << 62
"""First of the producer ids that the sink on Spark computes; the controller assigns ids below it."""

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
MARKER_BITS = TRANSACTIONAL_BIT | CONTROL_BIT
"""Bits of a marker, which ends a transaction. The log's own control batches have only the control bit."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_STAMP_OFFSET = struct.Struct(">q")
_STAMP_EPOCH = struct.Struct(">i")
assert _HEADER.size == HEADER_SIZE


class BatchHeader(NamedTuple):
    """Header as it is in the bytes, with unchecked fields."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes, header included."""
        return LENGTH_END + self.batch_length

    @property
    def next_offset(self) -> int:
        """Offset after this batch: baseOffset + lastOffsetDelta + 1, for every kind of batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_marker(self) -> bool:
        """Whether the batch ends a transaction; no other control batches take an offset or are delivered to readers."""
        return self.attributes & MARKER_BITS == MARKER_BITS

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction, as data or as its marker."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def has_append_time(self) -> bool:
        """Whether the timestamps are a broker's (LogAppendTime) instead of the producer's."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK


_new_tuple = tuple.__new__


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header that starts at `position`. Raises `struct.error` if fewer than 61 bytes are left."""
    return _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))


def base_offset_of(batch: Buffer) -> Offset:
    """Return the base offset of a batch without reading the rest of its header."""
    return Offset(_STAMP_OFFSET.unpack_from(batch)[0])


def header_bytes(header: BatchHeader) -> bytes:
    """Return the 61 bytes of a header; raises `struct.error` if a field does not fit."""
    return _HEADER.pack(*header)


def batch_crc(batch: Buffer) -> int:
    """Return the CRC-32C of exactly one batch, from its `attributes` to its end."""
    return crc32c(memoryview(batch)[CRC_START:])


def crc_matches(batch: Buffer, header: BatchHeader) -> bool:
    """Return whether the bytes of exactly one batch match the CRC in its header."""
    return batch_crc(batch) == header.crc


def stamp(batch: bytearray | memoryview, base_offset: Offset, term: Term) -> None:
    """Write base offset and term into a batch, as its leader does; both fields are outside of the CRC."""
    assert 0 <= term <= TERM_MAX, f"term {term} does not fit partitionLeaderEpoch"
    _STAMP_OFFSET.pack_into(batch, 0, base_offset)
    _STAMP_EPOCH.pack_into(batch, LENGTH_END, term)
