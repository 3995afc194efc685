"""Checks of batches that clients send, before they are stored. Work is done per batch, without parsing records."""

from collections.abc import Iterator

from crc32c import crc32c

from raftlog.errors import CrcMismatch, InvalidBatch, RecordTooLarge
from raftlog.records.compression import Compression
from raftlog.records.header import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_matches,
    read_header,
)
from raftlog.types import Buffer

_CLIENT_ATTRIBUTES = COMPRESSION_MASK | TIMESTAMP_TYPE_BIT
_CODEC_MAX = max(Compression)
RECORD_BYTES_MIN = 7
"""Size of the smallest record: length, attributes, two deltas, two null lengths and a header count, one byte each."""


def split_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the consecutive batches of a buffer; raises `InvalidBatch` if one is truncated or not a v2 batch."""
    view = memoryview(buffer)
    position = 0
    while position < len(view):
        left = len(view) - position
        if left < HEADER_SIZE:
            raise InvalidBatch(f"{left} bytes at position {position} are too few for a batch header of {HEADER_SIZE}")
        header = read_header(view, position)
        if header.magic != MAGIC:
            raise InvalidBatch(f"magic {header.magic} at position {position}: only record batches v2 are accepted")
        if not HEADER_SIZE <= header.size <= left:
            raise InvalidBatch(
                f"batchLength {header.batch_length} at position {position} does not fit: a batch has at least "
                f"{HEADER_SIZE - LENGTH_END} bytes after that field, and {left - LENGTH_END} were sent"
            )
        yield header, view[position : position + header.size]
        position += header.size


def _parse_single(buffer: Buffer) -> tuple[tuple[BatchHeader, memoryview]] | None:
    """Return the batch of a buffer that has exactly one, as in most requests; None for any other buffer."""
    size = len(buffer)
    if size < HEADER_SIZE:
        return None
    header = read_header(buffer)
    if header.magic != MAGIC or header.batch_length + LENGTH_END != size:
        return None
    return ((header, memoryview(buffer)),)


def validate_client_batches(
    buffer: Buffer, max_message_bytes: int, count_max: int | None = None, *, is_transactional: bool = False
) -> list[tuple[BatchHeader, memoryview]]:
    """Check and return the batches of one produce request; raises `InvalidBatch` or `RecordTooLarge`.

    Accepted are CRC-valid, non-empty data batches in which recordCount = lastOffsetDelta + 1, either with producer id,
    epoch and sequence, or without a producer id: then epoch and sequence are ignored, as in Kafka (aiokafka sends
    sequence 0). Control batches are refused, because only brokers write them. `is_transactional`: all batches belong to
    a transaction, and have a producer id and the transactional bit; otherwise none has this bit.
    """
    checked = []
    for number, (header, batch) in enumerate(_parse_single(buffer) or split_batches(buffer)):
        if len(batch) > max_message_bytes:
            raise RecordTooLarge(f"batch {number} has {len(batch)} bytes; max.message.bytes is {max_message_bytes}")
        if number == count_max:
            raise RecordTooLarge(f"there are more than {count_max} batches; send them in parts, or make larger ones")
        _check_client_batch(number, header, batch, TRANSACTIONAL_BIT if is_transactional else 0)
        checked.append((header, batch))
    if not checked:
        raise InvalidBatch("no batch was sent")
    return checked


def validate_restored_batches(
    buffer: Buffer, max_message_bytes: int, count_max: int
) -> list[tuple[BatchHeader, memoryview]]:
    """Check and return the batches of one restore request; raises `InvalidBatch` or `RecordTooLarge`.

    Accepted are CRC-valid data batches without a producer, each at the offset after the batch before it. They may have
    fewer records than offsets, as compaction leaves them, even no records."""
    checked: list[tuple[BatchHeader, memoryview]] = []
    for number, (header, batch) in enumerate(split_batches(buffer)):
        if len(batch) > max_message_bytes:
            raise RecordTooLarge(f"batch {number} has {len(batch)} bytes; max.message.bytes is {max_message_bytes}")
        if number == count_max:
            raise RecordTooLarge(f"there are more than {count_max} batches; send them in parts")
        _check_restored_batch(number, header, batch, checked[-1][0].next_offset if checked else header.base_offset)
        checked.append((header, batch))
    if not checked:
        raise InvalidBatch("no batch was sent")
    return checked


def _check_restored_batch(number: int, header: BatchHeader, batch: memoryview, offset: int) -> None:
    """Raise `InvalidBatch` unless a batch of a backup can be stored unchanged at `offset`; `number` is for errors."""
    if not crc_matches(batch, header):
        raise CrcMismatch(f"batch {number}: the CRC does not match; it was damaged in transit, send it again")
    if header.attributes & ~_CLIENT_ATTRIBUTES or header.compression > _CODEC_MAX:
        raise InvalidBatch(f"batch {number}: attributes {header.attributes:#06x} are not accepted")
    if (header.producer_id, header.producer_epoch, header.base_sequence) != (-1, -1, -1):
        raise InvalidBatch(f"batch {number}: restored batches have no producer; its id is {header.producer_id}")
    if header.base_offset != offset or offset < 0:
        raise InvalidBatch(f"batch {number}: its offset is {header.base_offset}, and {offset} follows")
    if not 0 <= header.record_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        raise InvalidBatch(
            f"batch {number}: recordCount is {header.record_count} and lastOffsetDelta {header.last_offset_delta}"
        )


def _check_client_batch(number: int, header: BatchHeader, batch: memoryview, transactional: int) -> None:
    """Raise `InvalidBatch` unless CRC, attributes, counts and producer fields are right for a client's batch.

    `number` is for errors. `transactional` is the attribute bit that the batch must have, or 0 for none."""
    if crc32c(batch[CRC_START:]) != header.crc:
        raise CrcMismatch(f"batch {number}: the CRC does not match; it was damaged in transit, send it again")
    if header.attributes & ~_CLIENT_ATTRIBUTES != transactional:
        raise InvalidBatch(
            f"batch {number}: attributes {header.attributes:#06x} are not accepted; clients cannot write control "
            f"batches, and batches of a transaction {'have' if transactional else 'need a transactional id and'} bit 4"
        )
    compression = header.attributes & COMPRESSION_MASK
    if compression > _CODEC_MAX:
        raise InvalidBatch(f"batch {number}: unknown compression codec {compression}")
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        raise InvalidBatch(
            f"batch {number}: recordCount is {header.record_count} and lastOffsetDelta {header.last_offset_delta}; "
            "a batch holds at least one record, and recordCount = lastOffsetDelta + 1"
        )
    if header.producer_id >= 0:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise InvalidBatch(
                f"batch {number}: producer id {header.producer_id}, epoch {header.producer_epoch}, sequence "
                f"{header.base_sequence}: an idempotent producer has all three"
            )
    elif transactional:
        raise InvalidBatch(f"batch {number}: it belongs to a transaction and has no producer id")
    elif header.producer_id != -1:
        raise InvalidBatch(f"batch {number}: producer id {header.producer_id}: without an id it is -1")
    if not compression and header.record_count * RECORD_BYTES_MIN > len(batch) - HEADER_SIZE:
        raise InvalidBatch(f"batch {number}: {header.record_count} records do not fit in {len(batch)} bytes")
