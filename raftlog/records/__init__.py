"""Records and the batches that carry them: Kafka's RecordBatch v2, byte for byte.

A batch is the unit of everything below the API: one entry of the log, one row of the index, one CRC. The broker
reads and stamps its 61-byte header and never decodes the records; only clients, JSON interfaces and tools do.
Source: the Kafka protocol guide, "Record Batch" (KIP-98), and KIP-32, KIP-82 for timestamps and headers.
"""

from raftlog.records.build import BatchBuilder, NewRecord, build_batch, build_columns
from raftlog.records.check import split_batches, validate_client_batches
from raftlog.records.compression import Compression
from raftlog.records.control import ControlKind, build_control_batch, control_kind, read_control
from raftlog.records.empty import build_empty_batch
from raftlog.records.header import COMPUTED_PRODUCER_IDS, HEADER_SIZE, BatchHeader, crc_matches, read_header, stamp
from raftlog.records.read import Record, open_in_steps, read_records

__all__ = [
    "COMPUTED_PRODUCER_IDS",
    "HEADER_SIZE",
    "BatchBuilder",
    "BatchHeader",
    "Compression",
    "ControlKind",
    "NewRecord",
    "Record",
    "build_batch",
    "build_columns",
    "build_control_batch",
    "build_empty_batch",
    "control_kind",
    "crc_matches",
    "open_in_steps",
    "read_control",
    "read_header",
    "read_records",
    "split_batches",
    "stamp",
    "validate_client_batches",
]
