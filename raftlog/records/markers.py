"""Markers: the control batches that end a transaction in a partition, byte for byte those of Kafka.

Unlike the log's own control batches a marker has the transactional bit and its producer's id and epoch, takes one
offset, and is delivered to readers of batches. Its value is a version and the epoch of the coordinator that sent it."""

import struct
from typing import Final, NamedTuple

from raftlog.errors import FormatError
from raftlog.records.build import NewRecord, build_batch
from raftlog.records.control import CONTROL_KEY, ControlKind
from raftlog.records.header import CRC_START, MARKER_BITS, batch_crc

_KEY_VERSION: Final = 0
_VALUE: Final = struct.Struct(">hi")
_VALUE_VERSION: Final = 0
_NO_SEQUENCE: Final = -1
_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17


class TransactionMarker(NamedTuple):
    """End of the transaction of a producer in one partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    """Term of the coordinator: markers of an older one are refused."""


def build_marker_batch(marker: TransactionMarker, timestamp_ms: int) -> bytearray:
    """Build the batch of a marker; offset and term are stamped when it is appended."""
    kind = ControlKind.COMMIT if marker.is_commit else ControlKind.ABORT
    value = _VALUE.pack(_VALUE_VERSION, marker.coordinator_epoch)
    batch = build_batch([NewRecord(value, CONTROL_KEY.pack(_KEY_VERSION, kind), timestamp_ms)])
    _ATTRIBUTES.pack_into(batch, CRC_START, MARKER_BITS)
    _PRODUCER.pack_into(batch, _PRODUCER_AT, marker.producer_id, marker.producer_epoch, _NO_SEQUENCE)
    _CRC.pack_into(batch, _CRC_AT, batch_crc(batch))
    return batch


def decode_coordinator_epoch(payload: bytes) -> int:
    """Return the coordinator's epoch in the value of a marker. Raises `FormatError`."""
    if len(payload) < _VALUE.size:
        raise FormatError(f"a marker with a value of {len(payload)} bytes; it has at least {_VALUE.size}")
    version, coordinator_epoch = _VALUE.unpack_from(payload)
    if version < _VALUE_VERSION:
        raise FormatError(f"a marker of version {version}")
    return int(coordinator_epoch)
