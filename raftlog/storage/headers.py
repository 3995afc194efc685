"""Headers of stored batches without the batches: for those who follow a log from what stands in headers.

A header is under its row's checksum, so it can be believed without reading the rest. What does not fit together ends a
walk; whoever reads that entry as a whole learns why. Neighbouring small batches are read with one call.
"""

import struct
from typing import Final, NamedTuple

from raftlog.records import HEADER_SIZE
from raftlog.records.header import CONTROL_BIT
from raftlog.storage.reading import ReadableLog
from raftlog.storage.rows import ROW_SIZE, row_matches
from raftlog.types import Index

_ROWS_AT_ONCE: Final = 128
_LARGE_BYTES: Final = 4 * 1024
"""Headers of batches that are larger are read one by one, at most `_READS_AT_ONCE`."""
_READS_AT_ONCE: Final = 64
_CHUNK_BYTES: Final = 256 * 1024
_PLACE: Final = struct.Struct(">Q16xQI")
"""Of a row: index, position, length."""
_ATTRIBUTES_LOW: Final = 22
_PRODUCER_ID: Final = struct.Struct(">q")
_PRODUCER_ID_AT: Final = 43


class HeadersRead(NamedTuple):
    """`found` are headers of control batches and of batches with a producer id, with their indexes; everything below
    `next_index` was looked at."""

    found: list[tuple[Index, memoryview]]
    next_index: Index


def headers_of_note(log: ReadableLog, first: Index, last: Index) -> HeadersRead:
    """Look at entries `first` to `last` of the files, or at some of them; at none where the first is damaged.

    Raises `OSError`.
    """
    segment = log.segment_of_index(first)
    number = segment.number_of(first)
    packed = memoryview(segment.row_bytes(number, min(_ROWS_AT_ONCE, last - first + 1)))
    places = [_PLACE.unpack_from(packed, at) for at in range(0, len(packed) // ROW_SIZE * ROW_SIZE, ROW_SIZE)]
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
