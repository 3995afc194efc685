"""Reads of batch headers without the batches, for state that is computed from the headers of a log alone.

A header is covered by its row's checksum, so it can be trusted without reading the rest. A mismatch ends a scan; the
reader of the whole entry gets the error. Neighbouring small batches are read with one call."""

import struct
from typing import Final, NamedTuple

from raftlog.records import HEADER_SIZE
from raftlog.records.header import CONTROL_BIT
from raftlog.storage.readable_log import ReadableLog
from raftlog.storage.rows import ROW_SIZE, row_matches
from raftlog.types import Index

_ROWS_AT_ONCE: Final = 128
_LARGE_BYTES: Final = 4 * 1024
"""Size above which headers are read one by one, at most `_READS_AT_ONCE`."""
_READS_AT_ONCE: Final = 64
_CHUNK_BYTES: Final = 256 * 1024
_ROW_PARTS: Final = struct.Struct(">Q16xQI")
"""Index, position and length of a row."""
_ATTRIBUTES_LOW: Final = 22
_PRODUCER_ID: Final = struct.Struct(">q")
_PRODUCER_ID_AT: Final = 43


class HeadersRead(NamedTuple):
    """Headers of control batches and of batches with a producer id, with their indexes.

    All entries below `next_index` were examined."""

    found: list[tuple[Index, memoryview]]
    next_index: Index


def scan_headers(log: ReadableLog, first: Index, last: Index) -> HeadersRead:
    """Read headers of entries from `first` on, up to `last` or fewer; of none if entry `first` is damaged.

    Raises `OSError`."""
    segment = log.segment_of_index(first)
    number = segment.number_of(first)
    packed = memoryview(segment.row_bytes(number, min(_ROWS_AT_ONCE, last - first + 1)))
    places = [_ROW_PARTS.unpack_from(packed, at) for at in range(0, len(packed) // ROW_SIZE * ROW_SIZE, ROW_SIZE)]
    is_large = bool(places) and places[0][2] > _LARGE_BYTES
    start, end = (places[0][1] if places else 0), segment.written_position
    chunk = memoryview(b"" if is_large else segment.files.log.read(start, min(_CHUNK_BYTES, end - start)))
    found: list[tuple[Index, memoryview]] = []
    following = first
    for at, (index, position, length) in enumerate(places[: _READS_AT_ONCE if is_large else _ROWS_AT_ONCE]):
        if index != following or position + length > end:
            break
        if is_large:
            head = memoryview(segment.files.log.read(position, HEADER_SIZE))
        else:
            head = chunk[position - start : position - start + HEADER_SIZE]
        if len(head) < HEADER_SIZE or not row_matches(packed[at * ROW_SIZE : (at + 1) * ROW_SIZE], head):
            break
        if head[_ATTRIBUTES_LOW] & CONTROL_BIT or _PRODUCER_ID.unpack_from(head, _PRODUCER_ID_AT)[0] >= 0:
            found.append((index, head))
        following = Index(following + 1)
    return HeadersRead(found, following)
