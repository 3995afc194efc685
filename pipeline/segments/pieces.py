"""Boundaries of whole batches in a segment file, from its index rows, or from the headers if it has no rows.

    first.position ≤ last.position,   first.offset ≤ last.offset,   first.index ≤ last.index       of a piece

A piece is a sequence of batches that is read at once: batches of one file, or of the journal if only the journal has
them. An index row counts only if it matches the header of its batch; the reader checks the other rows. Called by
`extent` (extent of a log) and `plan` (division into splits)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.pipeline.segments.replicas import DataDirectory
from raftlog.records import HEADER_SIZE, BatchHeader, crc_matches, read_header
from raftlog.records.header import MAGIC
from raftlog.storage.disk import File
from raftlog.storage.gap import last_index_of
from raftlog.storage.rows import ROW_SIZE, Row, restore_header, row_matches, unpack_row
from raftlog.storage.segment import Segment

_WINDOW_BYTES: Final = 1 << 20
_HEADERS_BYTES: Final = 64 * 1024
"""Bytes per read if only headers are needed."""


class BatchBoundary(NamedTuple):
    """Boundary between two batches: byte position, index and base offset of the batch after it."""

    position: int
    index: int  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    offset: int


class SegmentPiece(NamedTuple):
    """Consecutive batches, between the boundaries `first` and `last`, of the segment with base offset `base`.

    Index rows `row` to `row + rows` (exclusive) describe one batch each; with 0 `rows` none is known. `is_journaled`:
    only the journal is sure to have the batches. `batches` are their bytes, or None if they have to be read from the
    file, or for a journaled piece from the journal."""

    base: int
    first: BatchBoundary
    last: BatchBoundary
    row: int = 0
    rows: int = 0
    compacted_to: int = -1
    is_journaled: bool = False
    batches: bytes | None = None

    @property
    def size(self) -> int:
        return self.last.position - self.first.position


@dataclass(frozen=True)
class SegmentSplit:
    """Records with `start ≤ offset < end` in `pieces`, whose files are in the directory `path`.

    The splits of a partition are in order of offset, and each starts at the end of the one before. `owner` is the data
    directory whose journal has the journaled pieces. With `skips_damage`, batches that fail their checks are reported
    and left out; otherwise the first one is raised. `skips_undecodable` does the same for batches with correct
    checksums whose records cannot be decoded."""

    topic: str
    partition: int
    group_id: UUID
    path: str
    pieces: tuple[SegmentPiece, ...]
    start: int
    end: int
    owner: DataDirectory | None = None
    skips_damage: bool = False
    skips_undecodable: bool = False

    @property
    def size(self) -> int:
        """Size of the batches in bytes."""
        return sum(piece.size for piece in self.pieces)


class IndexRows:
    """Reader of the rows of an `.index` file, without checks of their content."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.count = file.size() // ROW_SIZE

    def packed(self, number: int) -> bytes:
        """Return the bytes of row `number`; empty if the row does not exist."""
        packed = self._file.read(number * ROW_SIZE, ROW_SIZE) if 0 <= number < self.count else b""
        return packed if len(packed) == ROW_SIZE else b""

    def row(self, number: int) -> Row:
        """Return row `number`, which must exist."""
        return unpack_row(self.packed(number))

    def find_first(self, low: int, high: int, field: str, least: int) -> int:
        """Return the first row in `[low, high)` whose field is at least `least`; `high` if there is none."""
        while low < high:
            middle = (low + high) // 2
            if getattr(self.row(middle), field) < least:
                low = middle + 1
            else:
                high = middle
        return low

    def boundary(self, number: int, log: File) -> BatchBoundary | None:
        """Return the boundary before the batch of row `number`; None if the row is damaged."""
        if self.header_of(number, log) is None:
            return None
        row = self.row(number)
        return BatchBoundary(row.position, row.index, row.offset)

    def header_of(self, number: int, log: File) -> BatchHeader | None:
        """Return the header of the batch of row `number`; a damaged header is restored from the row.

        None if the row is missing or damaged."""
        packed = self.packed(number)
        if not packed:
            return None
        position = unpack_row(packed).position
        if position > log.size() - HEADER_SIZE:
            return None
        head = log.read(position, HEADER_SIZE)
        if row_matches(packed, head):
            return read_header(head)
        restored = restore_header(packed, head)
        return None if restored is None else read_header(restored)


class Window:
    """Reader that reads a file from front to back in large chunks."""

    def __init__(self, file: File, chunk_bytes: int = _WINDOW_BYTES) -> None:
        self._file, self._chunk_bytes = file, chunk_bytes
        self._start, self._data = 0, memoryview(b"")

    def read(self, position: int, length: int) -> memoryview:
        """Return the bytes of a range; fewer at the end of the file."""
        start = position - self._start
        if not 0 <= start <= start + length <= len(self._data):
            self._data = memoryview(self._file.read(position, max(length, self._chunk_bytes)))
            self._start, start = position, 0
        return self._data[start : start + length]


def find_indexed_piece(segment: Segment, stop_index: int | None) -> SegmentPiece | None:
    """Return the piece from the start of a file up to its last index row, at most to entry `stop_index` (None: all).

    None if the first or the last of these rows does not match the file."""
    rows = IndexRows(segment.files.index)
    count = rows.count
    if stop_index is not None and segment.is_compacted:
        count = rows.find_first(0, count, "index", stop_index + 1)
    elif stop_index is not None:
        count = min(count, stop_index + 1 - segment.base_index)
    if not count:
        return None
    last, first = rows.row(count - 1), rows.row(0)
    header = rows.header_of(count - 1, segment.files.log)
    is_in_place = last.index - segment.base_index - (count - 1) >= 0 and (first.position, first.offset) == (
        0,
        segment.base_offset,
    )
    if header is None or not is_in_place or first.index != segment.base_index or last.end > segment.files.log.size():
        return None
    if not segment.is_compacted and last.index != segment.base_index + count - 1:
        return None
    next_index = _index_after(segment, last, header)
    begin = BatchBoundary(0, segment.base_index, segment.base_offset)
    end = BatchBoundary(last.end, next_index, header.next_offset)
    return SegmentPiece(segment.base_offset, begin, end, 0, count, segment.compacted_to)


def _index_after(segment: Segment, row: Row, header: BatchHeader) -> int:
    """Return the index of the entry after the batch of a row."""
    if segment.is_compacted and header.is_control:
        batch = segment.files.log.read(row.position, row.length)
        return last_index_of(batch, header, row.index) + 1 if crc_matches(batch, header) else row.index + 1
    return row.index + 1


class PieceWalk(NamedTuple):
    """Result of `walk_headers`: the boundary after the last undamaged batch, and the reason if it ended early."""

    place: BatchBoundary
    why: str | None


def walk_headers(segment: Segment, start: BatchBoundary, stop_index: int | None, *, checks_crc: bool) -> PieceWalk:
    """Read the headers of consecutive batches from `start` to the end of the file, or past entry `stop_index`."""
    walked = PieceWalk(start, None)
    for walked in _steps(segment, start, checks_crc):
        if stop_index is not None and walked.place.index > stop_index:
            break
    return walked


def _steps(segment: Segment, start: BatchBoundary, checks_crc: bool) -> Iterator[PieceWalk]:
    """Yield the boundary after each batch; at damage yield the last boundary again, with the reason."""
    log = segment.files.log
    size = log.size()
    window = Window(log, _WINDOW_BYTES if checks_crc else _HEADERS_BYTES)
    place = start
    while place.position < size:
        head = window.read(place.position, HEADER_SIZE)
        why = _mismatch_reason(head, place, size)
        if why is not None:
            yield PieceWalk(place, why)
            return
        header = read_header(head)
        is_read = checks_crc or (segment.is_compacted and header.is_control)
        batch = window.read(place.position, header.size) if is_read else head
        behind = BatchBoundary(place.position + header.size, place.index + 1, header.next_offset)
        if is_read and not crc_matches(batch, header):
            following = window.read(behind.position, HEADER_SIZE)
            if behind.position >= size or _mismatch_reason(following, behind, size) is not None:
                yield PieceWalk(place, "the CRC does not match")
                return  # otherwise the reader reports the damage, and can continue after it
        if segment.is_compacted:
            behind = behind._replace(index=last_index_of(batch, header, place.index) + 1)
        place = behind
        yield PieceWalk(place, None)


def _mismatch_reason(head: memoryview, place: BatchBoundary, size: int) -> str | None:
    """Return the reason why no valid header follows at this boundary; None if one does."""
    if len(head) < HEADER_SIZE:
        return "the file ends inside a batch header"
    header = read_header(head)
    if header.magic != MAGIC or header.size < HEADER_SIZE or header.last_offset_delta < -1:
        return "there is no batch header"
    if header.base_offset != place.offset:
        return f"base offset is {header.base_offset} where {place.offset} follows"
    if place.position + header.size > size:
        return "the file ends inside the batch"
    return None


# dividing


def divide_piece(
    piece: SegmentPiece, segment: Segment, start: int, end: int, piece_bytes: int
) -> Iterator[SegmentPiece]:
    """Divide the offsets `[start, end)` of a piece into pieces of at most `piece_bytes`, or of one batch."""
    if piece.rows:
        found = _divide_by_rows(piece, _RowBoundaries(piece, segment), start, end, piece_bytes)
    else:
        found = _divide_by_headers(piece, segment, start, end, piece_bytes)
    return (each for each in found if each.first.offset < each.last.offset)


class _RowBoundaries:
    """Boundaries between the batches of a piece, as its undamaged index rows show them."""

    def __init__(self, piece: SegmentPiece, segment: Segment) -> None:
        self.rows, self._piece, self._log = IndexRows(segment.files.index), piece, segment.files.log
        self.rows_end = piece.row + piece.rows

    def boundary(self, number: int) -> BatchBoundary | None:
        """Return the boundary before row `number`; None if the row is damaged."""
        if number <= self._piece.row:
            return self._piece.first
        if number >= self.rows_end:
            return self._piece.last
        return self.rows.boundary(number, self._log)

    def boundary_at_or_before(self, number: int) -> tuple[int, BatchBoundary]:
        """Return the last row up to `number` with a known boundary, and that boundary."""
        while (place := self.boundary(number)) is None:
            number -= 1
        return number, place

    def boundary_at_or_after(self, number: int) -> tuple[int, BatchBoundary]:
        """Return the first row from `number` on with a known boundary, and that boundary."""
        while (place := self.boundary(number)) is None:
            number += 1
        return number, place


def _divide_by_rows(
    piece: SegmentPiece, places: _RowBoundaries, start: int, end: int, piece_bytes: int
) -> Iterator[SegmentPiece]:
    """Divide a piece at boundaries that its index rows have; see `divide_piece`."""
    rows, behind = places.rows, places.rows_end
    number, place = places.boundary_at_or_before(
        max(piece.row, rows.find_first(piece.row, behind, "offset", start + 1) - 1)
    )
    while place.offset > start and number > piece.row:  # a damaged row misled the search
        number, place = places.boundary_at_or_before(number - 1)
    stop, stop_place = places.boundary_at_or_after(rows.find_first(number, behind, "offset", end))
    while stop_place.offset < end and stop < behind:
        stop, stop_place = places.boundary_at_or_after(stop + 1)
    while number < stop:
        limit = place.position + piece_bytes
        if stop_place.position <= limit:
            following, after = stop, stop_place
        else:
            border = rows.find_first(number, stop, "position", limit + 1) - 1
            following, after = places.boundary_at_or_after(max(number + 1, border))
        yield piece._replace(first=place, last=after, row=number, rows=following - number)
        number, place = following, after


def _divide_by_headers(
    piece: SegmentPiece, segment: Segment, start: int, end: int, piece_bytes: int
) -> Iterator[SegmentPiece]:
    """Divide a piece by reading the header of each batch; see `divide_piece`."""
    first = before = piece.first
    for place, why in _steps(segment, piece.first, False):
        if why is not None or place.position > piece.last.position:
            break  # the file was changed meanwhile, which the reader reports
        if place.offset <= start:
            first = place
        elif place.position - first.position > piece_bytes and before != first:
            yield piece._replace(first=first, last=before)
            first = before
        before = place
        if place.offset >= end or place == piece.last:
            break
    last = before if before.offset >= end else piece.last
    if first.position < last.position:
        yield piece._replace(first=first, last=last)
