"""Batches without records, as Kafka's log cleaner leaves them, over which readers skip removed offsets.

Made for answers, compacted segments and restored logs."""

import struct
from typing import Final

from crc32c import crc32c

from raftlog.records.header import CRC_START, HEADER_SIZE, LENGTH_END, MAGIC, BatchHeader, header_bytes

SPAN_MAX: Final = (1 << 31) - 1
"""Maximum number of offsets that one batch can span: lastOffsetDelta is an int32."""
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_NONE: Final = -1


def build_empty_batch(base_offset: int, next_offset: int, leader_epoch: int) -> bytearray:
    """Return a batch that spans the offsets from `base_offset` to below `next_offset`, or as many of them as fit."""
    assert base_offset < next_offset, f"no offsets from {base_offset} to {next_offset}"
    span = min(next_offset - base_offset, SPAN_MAX)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LENGTH_END,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=span - 1,
        base_timestamp=_NONE,
        max_timestamp=_NONE,
        producer_id=_NONE,
        producer_epoch=_NONE,
        base_sequence=_NONE,
        record_count=0,
    )
    batch = bytearray(header_bytes(header))
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch
