"""Merge of neighbouring batches of one record each into one batch, which is one entry of the log.

Producers without linger, and many producers of few records, send such batches. As an entry, each would cost every
replica a row and an operation of the journal. Merged are only plain records: without headers, in a batch that is not
compressed and has no producer id. They are read to their end, because a malformed record would make the others
undecodable. Called by the leader's appends. Source: Kafka protocol guide, "Record Batch"; its varints are those of
Protocol Buffers, in zigzag encoding."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from raftlog.records.header import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    batch_crc,
    header_bytes,
    read_header,
)

MERGED_BYTES_MAX: Final = 16 * 1024
"""Maximum size of a merged batch."""
_SINGLE_BYTES_MAX: Final = 1024
"""Maximum size of a batch that is merged; the bytes of a larger one cost more than its entry."""
_CRC: Final = Struct(">I")
_CRC_AT: Final = CRC_START - _CRC.size
_APART_MS_MAX: Final = 60_000
"""Maximum difference between a record's timestamp and the first one's in its batch: searches by time find batches."""
_NO_DELTAS: Final = bytes(3)
"""Attributes, timestamp delta and offset delta of a record that is alone in its batch."""
_NO_PRODUCER: Final = -1
_NULL: Final = -1
_TOO_LONG: Final = -2
_MORE: Final = 0x80
"""Bit of a varint's byte that another byte follows."""


class _PlainRecord(NamedTuple):
    """Record that can be merged; `rest` is its stored form from the key on."""

    timestamp: int
    rest: bytearray


def merge_single_records(batches: Sequence[bytearray], bytes_max: int) -> list[bytearray]:
    """Return the batches, with neighbours of one plain record each merged into batches up to `bytes_max` bytes.

    The batches have valid headers and CRCs. Records keep their order, keys, values and timestamps."""
    merged: list[bytearray] = []
    records: list[_PlainRecord] = []
    begin, size = 0, HEADER_SIZE
    for at, batch in enumerate(batches):
        record = _read_plain(batch)
        if records and (
            record is None
            or size + len(batch) > bytes_max
            or abs(record.timestamp - records[0].timestamp) > _APART_MS_MAX
        ):
            merged.append(_build(records) if len(records) > 1 else batches[begin])
            records, size = [], HEADER_SIZE
        if record is None:
            merged.append(batch)
        else:
            if not records:
                begin = at
            records.append(record)
            size += len(batch)  # more than the record takes, whose header is shared
    if records:
        merged.append(_build(records) if len(records) > 1 else batches[begin])
    return merged


def _read_plain(batch: bytearray) -> _PlainRecord | None:
    """Return the record of a batch with one plain record; None for any other batch."""
    size = len(batch)
    if size > _SINGLE_BYTES_MAX:
        return None
    header = read_header(batch)
    if header.attributes or header.record_count != 1 or header.last_offset_delta or header.producer_id != _NO_PRODUCER:
        return None
    try:
        length, at = _read_varint(batch, HEADER_SIZE)
        key_at = at + len(_NO_DELTAS)
        if length != size - at or batch[at:key_at] != _NO_DELTAS:
            return None
        key_bytes, at = _read_varint(batch, key_at)
        value_bytes, at = _read_varint(batch, at + max(key_bytes, 0))
        headers, end = _read_varint(batch, at + max(value_bytes, 0))
    except IndexError:
        return None
    is_plain = key_bytes >= _NULL and value_bytes >= _NULL and headers == 0 and end == size
    return _PlainRecord(header.base_timestamp, batch[key_at:]) if is_plain else None


def _build(records: Sequence[_PlainRecord]) -> bytearray:
    """Build one batch of the records; its base offset and leader epoch are 0, for the leader to stamp."""
    base = records[0].timestamp
    parts: list[bytes | bytearray] = [bytes(HEADER_SIZE)]
    for number, (timestamp, rest) in enumerate(records):
        deltas = b"\0" + _varint(timestamp - base) + _varint(number)
        parts += (_varint(len(deltas) + len(rest)), deltas, rest)
    batch = bytearray().join(parts)
    latest = max([record.timestamp for record in records])
    count = len(records)
    length = len(batch) - LENGTH_END
    none = _NO_PRODUCER
    batch[:HEADER_SIZE] = header_bytes(
        BatchHeader(0, length, 0, MAGIC, 0, 0, count - 1, base, latest, none, none, none, count)
    )
    _CRC.pack_into(batch, _CRC_AT, batch_crc(batch))
    return batch


def _read_varint(data: bytearray, at: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it; `_TOO_LONG` if it has more than two bytes.

    Raises `IndexError` if the data end before it does."""
    first = data[at]
    if first < _MORE:
        return (first >> 1) ^ -(first & 1), at + 1
    second = data[at + 1]
    if second >= _MORE:
        return _TOO_LONG, at
    raw = first & ~_MORE | second << 7
    return (raw >> 1) ^ -(raw & 1), at + 2


def _encode_varint(value: int) -> bytes:
    """Encode a whole number of up to 64 bits."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while raw >= _MORE:
        out.append(raw & ~-_MORE | _MORE)
        raw >>= 7
    out.append(raw)
    return bytes(out)


_SMALL_VARINTS: Final = [_encode_varint(value) for value in range(_SINGLE_BYTES_MAX + 16)]


def _varint(value: int) -> bytes:
    """Encode a whole number, usually by a lookup."""
    return _SMALL_VARINTS[value] if 0 <= value < len(_SMALL_VARINTS) else _encode_varint(value)
