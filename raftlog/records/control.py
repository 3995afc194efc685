"""Control batches: entries of the log that are not client data.

A control batch holds one record. Its key is Kafka's control key (version int16, type int16); types from 0x5200 up are
raftlog's own, far from Kafka's (0 abort, 1 commit, 2 … 6 KRaft). It is never compressed, so the cost of reading it is
bounded by its size. It takes an index of the log but no offset, so its `lastOffsetDelta` is −1 and its `baseOffset` is
the next offset; but a gap spans the offsets that it replaces, and a marker (`markers`) takes one offset. Payloads are
specified in docs/FORMATS.md; this module defines only the envelope.
"""

import struct
from enum import IntEnum
from typing import Final

from crc32c import crc32c

from raftlog.errors import InvalidBatch
from raftlog.records.build import NewRecord, build_batch
from raftlog.records.header import CONTROL_BIT, CRC_START, BatchHeader, read_header
from raftlog.records.read import read_records
from raftlog.types import Buffer, Offset

CONTROL_KEY: Final = struct.Struct(">hh")
_KEY_VERSION = 0
_CRC = struct.Struct(">I")
_ATTRIBUTES_AND_DELTA = struct.Struct(">hi")
_CRC_AT = 17


class ControlKind(IntEnum):
    """Kind of a control batch. The numbers are part of the format and are never reused."""

    ABORT = 0
    COMMIT = 1
    ROLL = 0x5200
    NO_OP = 0x5201
    CONFIGURATION = 0x5202
    TRIM = 0x5203
    EXPIRE_PRODUCERS = 0x5204
    COMPACTED_TO = 0x5205
    SNAPSHOT = 0x5206
    GAP = 0x5207


MARKER_KINDS: Final = frozenset((ControlKind.ABORT, ControlKind.COMMIT))


def build_control_batch(
    kind: ControlKind, payload: bytes, timestamp_ms: int, *, next_offset: Offset, offsets_spanned: int = 0
) -> bytearray:
    """Build a control batch at `next_offset`; only a gap has `offsets_spanned` above 0."""
    assert offsets_spanned == 0 or kind is ControlKind.GAP, f"{kind.name} cannot span offsets"
    assert kind not in MARKER_KINDS, "markers have a builder of their own"
    batch = build_batch([NewRecord(payload, CONTROL_KEY.pack(_KEY_VERSION, kind), timestamp_ms)])
    struct.pack_into(">q", batch, 0, next_offset)
    _ATTRIBUTES_AND_DELTA.pack_into(batch, CRC_START, CONTROL_BIT, offsets_spanned - 1)
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def control_kind(batch: Buffer) -> ControlKind:
    """Return the kind of a control batch; raises `InvalidBatch` for a type unknown to this version."""
    return read_control(batch)[0]


def read_control(batch: Buffer, header: BatchHeader | None = None) -> tuple[ControlKind, bytes]:
    """Return kind and payload of a control batch whose CRC has been checked; raises `InvalidBatch`."""
    header = header or read_header(batch)
    if not header.is_control or header.record_count != 1:
        raise InvalidBatch(f"the batch at offset {header.base_offset} is not a control batch of one record")
    if header.compression:
        raise InvalidBatch(f"the control batch at offset {header.base_offset} is compressed, which is not allowed")
    record = next(read_records(batch))
    if record.key is None or len(record.key) != CONTROL_KEY.size or record.value is None:
        raise InvalidBatch(f"the control batch at offset {header.base_offset} has no control key")
    _, number = CONTROL_KEY.unpack(record.key)
    try:
        kind = ControlKind(number)
    except ValueError:
        raise InvalidBatch(f"control type {number} is unknown to this version") from None
    if (kind in MARKER_KINDS) is not header.is_marker:
        raise InvalidBatch(f"a control batch of kind {kind.name.lower()} has attributes {header.attributes:#06x}")
    return kind, record.value
