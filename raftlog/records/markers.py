"""Markers, the control batches that end a transaction in a partition, as in Kafka.

Unlike the log's own control batches a marker has the transactional bit and its producer's id and epoch, takes one
offset, and is delivered to readers of batches. Its value begins like Kafka's (a version and the epoch of the
coordinator that sent the marker); the number of the transaction follows, which clients do not read."""

import struct
from typing import Final, NamedTuple

from raftlog.errors import FormatError
from raftlog.records.build import NewRecord, build_batch
from raftlog.records.control import CONTROL_KEY, ControlKind
from raftlog.records.header import CRC_START, MARKER_BITS, batch_crc

_KEY_VERSION: Final = 0
_VALUE: Final = struct.Struct(">hi")
_VALUE_VERSION: Final = 0
_NUMBER: Final = struct.Struct(">q")
_NO_SEQUENCE: Final = -1
_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
NO_NUMBER: Final = 0
"""Number of a marker that no coordinator sent."""


class TransactionMarker(NamedTuple):
    """End of the transaction of a producer in one partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    """Term of the coordinator; markers with a lower one are refused."""
    number: int = NO_NUMBER
    """Number of the transaction, ascending for each producer; it identifies a repeated marker."""


class MarkerValue(NamedTuple):
    """Value of a marker's record."""

    coordinator_epoch: int
    number: int


def build_marker_batch(marker: TransactionMarker, timestamp_ms: int) -> bytearray:
    """Build the batch of a marker; offset and term are stamped when it is appended."""
    kind = ControlKind.COMMIT if marker.is_commit else ControlKind.ABORT
    value = _VALUE.pack(_VALUE_VERSION, marker.coordinator_epoch)
    if marker.number != NO_NUMBER:
        value += _NUMBER.pack(marker.number)
    batch = build_batch([NewRecord(value, CONTROL_KEY.pack(_KEY_VERSION, kind), timestamp_ms)])
    _ATTRIBUTES.pack_into(batch, CRC_START, MARKER_BITS)
    _PRODUCER.pack_into(batch, _PRODUCER_AT, marker.producer_id, marker.producer_epoch, _NO_SEQUENCE)
    _CRC.pack_into(batch, _CRC_AT, batch_crc(batch))
    return batch


def decode_marker_value(payload: bytes) -> MarkerValue:
    """Decode the value of a marker, with or without a number. Raises `FormatError`."""
    if len(payload) < _VALUE.size:
        raise FormatError(f"a marker with a value of {len(payload)} bytes; it has at least {_VALUE.size}")
    version, coordinator_epoch = _VALUE.unpack_from(payload)
    if version < _VALUE_VERSION:
        raise FormatError(f"a marker of version {version}")
    has_number = len(payload) >= _VALUE.size + _NUMBER.size
    return MarkerValue(coordinator_epoch, _NUMBER.unpack_from(payload, _VALUE.size)[0] if has_number else NO_NUMBER)
