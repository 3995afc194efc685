"""Records and the batches that carry them: Kafka's RecordBatch v2, byte for byte.

A batch is the unit of everything below the API: one entry of the log, one row of the index, one CRC. The broker reads
and stamps the 61-byte header of a batch, and does not decode the records; only clients, JSON interfaces, compaction and
tools do.
Source: the Kafka protocol guide, "Record Batch" (KIP-98), and KIP-32, KIP-82 for timestamps and headers.
"""

from raftlog.records.build import BatchBuilder, NewRecord, build_batch, build_columns
from raftlog.records.check import split_batches, validate_client_batches, validate_restored_batches
from raftlog.records.compression import Compression
from raftlog.records.control import MARKER_KINDS, ControlKind, build_control_batch, control_kind, read_control
from raftlog.records.empty import build_empty_batch
from raftlog.records.header import COMPUTED_PRODUCER_IDS, HEADER_SIZE, BatchHeader, crc_matches, read_header, stamp
from raftlog.records.markers import NO_NUMBER, MarkerValue, TransactionMarker, build_marker_batch, decode_marker_value
from raftlog.records.read import Record, open_in_steps, read_records
from raftlog.records.visible import drop_hidden

__all__ = [
    "COMPUTED_PRODUCER_IDS",
    "HEADER_SIZE",
    "MARKER_KINDS",
    "NO_NUMBER",
    "BatchBuilder",
    "BatchHeader",
    "Compression",
    "ControlKind",
    "MarkerValue",
    "NewRecord",
    "Record",
    "TransactionMarker",
    "build_batch",
    "build_columns",
    "build_control_batch",
    "build_empty_batch",
    "build_marker_batch",
    "control_kind",
    "crc_matches",
    "decode_marker_value",
    "drop_hidden",
    "open_in_steps",
    "read_control",
    "read_header",
    "read_records",
    "split_batches",
    "stamp",
    "validate_client_batches",
    "validate_restored_batches",
]
