"""Check of a range of one segment file at the speed of its bytes; the first error ends the walk.

A range begins at a batch whose index, offset and row number are known, and ends at another one, or at the file's end.
Of every batch the header, offset, CRC, and the index row with its checksum are checked; in a compacted segment also the
gaps.

    start ≤ end of the walk ≤ end of the range, equal for an undamaged range

The walk only detects that a file is damaged; `raftlog.storage.verify` then determines the problem, so that both report
the same. Only decreasing terms are reported by this module itself. Called by `file_comparison`. Reads with `pread`,
because the process would crash if a broker truncated a mapped file."""

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from crc32c import crc32c

from raftlog.records import read_header
from raftlog.records.header import CONTROL_BIT, CRC_START, HEADER_SIZE, LENGTH_END, MAGIC
from raftlog.storage.gap import gap_error, last_index_of
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.segment_files import INDEX_SUFFIX, LOG_SUFFIX, segment_stem

CHUNK_BYTES: Final = 1 << 20
"""Bytes per read, which stay in the processor's cache while they are checked; a larger batch is read as a whole."""
_CHUNK_BYTES_MAX: Final = 64 << 20
"""Maximum size of a read whose length is in an index row or a header, which may be damaged."""
_FIELDS: Final = struct.Struct(">qiibIhi30xi")
"""Fields of the header that are checked: base offset, length, term, magic, CRC, attributes, offset delta, records."""
_ROW: Final = struct.Struct(">QQQQIII")
_ROW_CHECKED: Final = 40
assert (_FIELDS.size, _ROW.size) == (HEADER_SIZE, ROW_SIZE)


class BatchPosition(NamedTuple):
    """Start of a batch: byte position, row number, entry index, base offset."""

    position: int
    row: int
    index: int  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    offset: int


class SegmentSpan(NamedTuple):
    """Range of a segment; `end` is `None` at the end of the file.

    `stop`: entry for which the walk returns the offset after it; `compacted_to`: field of the segment's roll."""

    base: int
    start: BatchPosition
    end: BatchPosition | None
    compacted_to: int
    stop: int | None = None


class SegmentFile(NamedTuple):
    """Files of a segment in one log's directory; bytes of the log after `log_bytes` are ignored."""

    directory: str
    base: int
    log_bytes: int
    rows: int

    @property
    def log(self) -> str:
        return f"{self.directory}/{segment_stem(self.base)}{LOG_SUFFIX}"

    @property
    def index_file(self) -> str:
        return f"{self.directory}/{segment_stem(self.base)}{INDEX_SUFFIX}"


class SegmentWalk(NamedTuple):
    """Result of reading a range of a segment. `end`: after the last undamaged batch; `problem`: reason of an early end.

    `terms` are those of the first and the last batch; `term_decrease` describes a batch whose term is lower than the
    one before. `offset_at_stop` is the offset after entry `SegmentSpan.stop`. `tail_bytes`: bytes of a write in
    progress, or of an incomplete write before a crash."""

    end: BatchPosition
    batches: int
    records: int
    terms: tuple[int, int] | None
    term_decrease: str | None
    offset_at_stop: int | None
    tail_bytes: int
    problem: str | None


class OpenFile:
    """Open files of a segment; a missing index file reads as empty."""

    def __init__(self, file: SegmentFile, log: int, index: int | None) -> None:
        self.file = file
        self._log, self._index = log, index

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of the log file; fewer at its end."""
        return os.pread(self._log, max(0, min(length, self.file.log_bytes - position)), position)

    def rows(self, first: int, end: int) -> bytes:
        """Return whole rows from number `first` up to `end`; fewer if the file has fewer."""
        count = min(end, self.file.rows) - first
        if self._index is None or count <= 0:
            return b""
        packed = os.pread(self._index, count * ROW_SIZE, first * ROW_SIZE)
        return packed[: len(packed) // ROW_SIZE * ROW_SIZE]


@contextmanager
def open_segment(file: SegmentFile) -> Iterator[OpenFile]:
    """Open a segment's files until the end of the block. Raises `OSError`."""
    log = os.open(file.log, os.O_RDONLY | os.O_CLOEXEC)
    index = None
    try:
        if file.rows:
            index = os.open(file.index_file, os.O_RDONLY | os.O_CLOEXEC)
        yield OpenFile(file, log, index)
    finally:
        os.close(log)
        if index is not None:
            os.close(index)


def rows_of(opened_file: OpenFile, span: SegmentSpan) -> bytes:
    """Return the index rows of a range, as many as exist."""
    end = span.end.row if span.end is not None else opened_file.file.rows
    return opened_file.rows(span.start.row, end)


def walk_range(
    opened_file: OpenFile, span: SegmentSpan, rows: bytes, on_chunk: Callable[[int, bytes], None] | None = None
) -> SegmentWalk:
    """Check the batches of a range; call `on_chunk` with the position and the bytes of each read.

    The calls cover the range without gaps up to the end of the walk; some bytes may be passed twice.
    """
    to = span.end.position if span.end is not None else opened_file.file.log_bytes
    walk = _Walk(span, rows)
    wanted = CHUNK_BYTES
    while walk.position < to and walk.problem is None:
        length = min(to - walk.position, walk.complete_batch_bytes(wanted))
        chunk = opened_file.read(walk.position, length)
        if len(chunk) < length:
            walk.problem = "the file became shorter meanwhile"
            break
        if on_chunk is not None:
            on_chunk(walk.position, chunk)
        if walk.take(chunk):
            wanted = CHUNK_BYTES
        elif walk.problem is None:  # not even one batch
            wanted = read_header(chunk).size if length >= HEADER_SIZE else HEADER_SIZE
            if wanted > to - walk.position:
                break
            if wanted > _CHUNK_BYTES_MAX:
                walk.problem = "the batch is larger than any should be"
    return walk.finish(to)


class _Walk:
    """Progress of reading a segment batch by batch: position, entry, offset and the first problem."""

    def __init__(self, span: SegmentSpan, rows: bytes) -> None:
        """Prepare to walk through a span of a segment; `rows` are its index rows."""
        self.position, self._number, self._index, self._offset = span.start
        self.problem: str | None = None
        self._span = span
        self._rows = rows
        self._rows_view = memoryview(rows)
        self._row_count = len(rows) // ROW_SIZE
        self._is_compacted = span.compacted_to > span.base
        self._batches = self._records = 0
        self._first_term = -1
        self._term = -1
        self._term_decrease: str | None = None
        self._offset_at_stop: int | None = None

    def complete_batch_bytes(self, wanted: int) -> int:
        """Return how many bytes, about `wanted`, end with a complete batch by the index rows; `wanted` without rows."""
        first = self._number - self._span.start.row
        if first + 1 >= self._row_count:
            return wanted
        border = bisect_right(range(self._row_count), self.position + wanted, lo=first + 1, key=self._row_position)
        if border == self._row_count:
            return wanted
        length = self._row_position(max(border - 1, first + 1)) - self.position
        return length if HEADER_SIZE <= length <= _CHUNK_BYTES_MAX else wanted

    def _row_position(self, number: int) -> int:
        """Return the byte position of a batch by its row."""
        return int(_ROW.unpack_from(self._rows, number * ROW_SIZE)[3])

    def take(self, chunk: bytes) -> int:
        """Check the complete batches at the start of a chunk; return their size, less if it sets `problem`."""
        view, rows_view, rows = memoryview(chunk), self._rows_view, self._rows
        fields, row_fields, crc = _FIELDS.unpack_from, _ROW.unpack_from, crc32c
        index, offset, term_before = self._index, self._offset, self._term
        row_at = (self._number - self._span.start.row) * ROW_SIZE
        rows_end = len(rows)
        position, size, stop = self.position, len(chunk), self._span.stop
        is_compacted = self._is_compacted
        at = batches = records = 0
        while size - at >= HEADER_SIZE:
            base, length, term, magic, stated, attributes, delta, count = fields(chunk, at)
            end = at + LENGTH_END + length
            if magic != MAGIC or length < HEADER_SIZE - LENGTH_END or base != offset or delta < -1:
                self.problem = "the header does not follow from the batch before it"
                break
            if end > size:
                break
            if crc(view[at + CRC_START : end]) != stated:
                self.problem = "the CRC does not match"
                break
            if row_at < rows_end:
                checksum = crc(view[at : at + HEADER_SIZE], crc(rows_view[row_at : row_at + _ROW_CHECKED]))
                if row_fields(rows, row_at) != (index, term, base, position + at, end - at, stated, checksum):
                    self.problem = "the index row is not that of the batch"
                    break
            if term < term_before and self._term_decrease is None:
                self._term_decrease = (
                    f"entry {index} at position {position + at} has term {term}, the one before {term_before}"
                )
            if not attributes & CONTROL_BIT:
                records += count
            elif is_compacted:
                last = self._check_gap(view[at:end], index)
                if self.problem is not None:
                    break
                index = last
            offset = base + delta + 1
            if index == stop:
                self._offset_at_stop = offset
            if self._first_term < 0:
                self._first_term = term
            term_before = term
            index += 1
            row_at += ROW_SIZE
            batches += 1
            at = end
        self.position = position + at
        self._number += batches
        self._batches += batches
        self._records += records
        self._index, self._offset, self._term = index, offset, term_before
        return at

    def _check_gap(self, batch: memoryview, index: int) -> int:
        """Return the index of the last entry that a control batch of a compacted segment replaces.

        A gap covers several entries. Sets `problem` if the gap is invalid."""
        header = read_header(batch)
        self.problem = gap_error(batch, header, index, self._span.compacted_to)
        return last_index_of(batch, header, index)

    def finish(self, to: int) -> SegmentWalk:
        """Return the result, with a problem if the walk did not reach the end of the range at position `to`."""
        end = BatchPosition(self.position, self._number, self._index, self._offset)
        rows_taken = self._number - self._span.start.row
        tail = 0
        if self.problem is None and self._span.end is not None and end != self._span.end:
            self.problem = "it does not continue as in its index"
        elif self.problem is None and self._span.end is None and rows_taken < self._row_count:
            self.problem = "the file ends before a batch that has a row"
        elif self.problem is None:
            tail = to - self.position
        terms = (self._first_term, self._term) if self._batches else None
        return SegmentWalk(
            end, self._batches, self._records, terms, self._term_decrease, self._offset_at_stop, tail, self.problem
        )
