"""Reader of a split: checks batches one after another, and decodes them into rows.

Three checks are made for each batch: its header continues the batch before, its CRC, and its index row if there is one.
A damaged row of an undamaged batch does not affect records. Files are read in large chunks and not mapped, because the
process would crash if a mapped file were truncated. Memory: one chunk of `CHUNK_BYTES`, or one batch, and the rows that
are built. Called by tasks (`read_segment_split`, `checked_batches`), and by `plan` for timestamps
(`find_offset_at`)."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, TypeAlias

import pyarrow as pa
from crc32c import crc32c

from raftlog.errors import CorruptBatch, InvalidBatch, StorageError, UndecodableBatch
from raftlog.pipeline.decoding import decode_rows
from raftlog.pipeline.errors import SegmentGone, TransactionsInSegments
from raftlog.pipeline.segments.extent import LogExtent, file_name, journaled_batches
from raftlog.pipeline.segments.pieces import BatchBoundary, IndexRows, SegmentPiece, SegmentSplit
from raftlog.pipeline.segments.replicas import real_disk
from raftlog.records import HEADER_SIZE, BatchHeader, read_header, read_records
from raftlog.records.header import CONTROL_BIT, CRC_START, LENGTH_END, MAGIC, MARKER_BITS, TRANSACTIONAL_BIT
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.recovery import read_journal
from raftlog.runtime.node_identity import JOURNAL
from raftlog.storage.directory import internal_path
from raftlog.storage.disk import Disk, File
from raftlog.storage.gap import gap_error, last_index_of
from raftlog.storage.recovery import read_roll
from raftlog.storage.rows import ROW_SIZE, restore_header, row_matches
from raftlog.storage.segment import open_for_reading
from raftlog.types import Offset, Position

CHUNK_BYTES: Final = 4 << 20
_ROWS_AT_ONCE: Final = 8192
OnDamage: TypeAlias = Callable[[CorruptBatch], None]
CheckedBatch: TypeAlias = tuple[BatchHeader, memoryview]
_NO_HEADER: Final = read_header(bytes(HEADER_SIZE))


class _CarriedBytes:
    """Journaled bytes that a piece contains, with the interface of a file."""

    def __init__(self, position: int, data: bytes | memoryview) -> None:
        """Wrap the bytes of journaled batches that begin at this position of the segment file."""
        self._position, self._data = position, memoryview(data)

    def read(self, position: int, length: int) -> memoryview:
        """Return up to `length` bytes at a position of the segment file."""
        at = position - self._position
        return self._data[at : at + length]


_Log: TypeAlias = File | _CarriedBytes


def read_segment_split(
    split: SegmentSplit, on_damage: OnDamage | None = None, disk: Disk | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, as record batches of `rows.ARROW_SCHEMA`.

    `on_damage` receives the damage that a split with `skips_damage` leaves out; without it, damage is a warning. Raises
    `CorruptBatch`, `UndecodableBatch` unless the split skips it, `SegmentGone` for a file that was removed or compacted
    since the plan was made, `TransactionsInSegments` for batches of transactions, `StorageError` and `OSError`."""
    try:
        yield from decode_rows(
            split.topic,
            split.partition,
            _committed_batches(split, on_damage, disk),
            split.start,
            split.end,
            skips_undecodable=split.skips_undecodable,
        )
    except UndecodableBatch:
        raise
    except InvalidBatch as error:
        raise StorageError(f"{split.path}: {error}") from error


def checked_batches(
    split: SegmentSplit, on_damage: OnDamage | None = None, disk: Disk | None = None
) -> Iterator[CheckedBatch]:
    """Yield the checked batches of a split, including control batches and those partly outside of its offsets."""
    disk = disk or real_disk()
    journal = _Journal(disk, split)
    for piece in split.pieces:
        yield from _PieceReader(disk, split, piece, journal, on_damage or _warn).batches()


def _committed_batches(
    split: SegmentSplit, on_damage: OnDamage | None = None, disk: Disk | None = None
) -> Iterator[CheckedBatch]:
    """Yield batches like `checked_batches`. Raises `TransactionsInSegments` for a batch of a transaction.

    Below the end of compaction such batches are committed, because compaction removes aborted ones."""
    disk = disk or real_disk()
    journal = _Journal(disk, split)
    for piece in split.pieces:
        for header, batch in _PieceReader(disk, split, piece, journal, on_damage or _warn).batches():
            is_raw = header.attributes & MARKER_BITS == TRANSACTIONAL_BIT and header.base_offset >= piece.compacted_to
            if is_raw and header.base_offset < split.end and header.next_offset > split.start:
                raise TransactionsInSegments(
                    f"{split.topic}/{split.partition} has a transaction at offset {header.base_offset}, and its files "
                    "alone do not show whether it is committed: read the topic through its brokers (format raftlog)"
                )
            yield header, batch


def find_offset_at(extent: LogExtent, timestamp: int) -> int:
    """Return the offset of the first record at or after a timestamp in ms; the end if there is none (KIP-79)."""
    group_id = extent.replica.group_id
    assert group_id is not None, f"{extent.replica} was chosen"
    for piece in extent.pieces:
        if piece.last.offset <= extent.start:
            continue
        behind = _skip_older(extent.replica.path, piece, timestamp)
        split = SegmentSplit(
            extent.topic,
            extent.partition,
            group_id,
            extent.replica.path,
            (behind,),
            extent.start,
            extent.end,
            extent.replica.owner,
        )
        for header, batch in checked_batches(split):
            if header.is_control or header.max_timestamp < timestamp or header.next_offset <= extent.start:
                continue
            try:
                for record in read_records(batch):
                    if record.timestamp >= timestamp and extent.start <= record.offset:
                        return min(record.offset, extent.end)
            except UndecodableBatch as error:  # it may be one of those: reading begins there, and reports it
                return min(max(error.offset, extent.start), extent.end)
    return extent.end


def _skip_older(path: str, piece: SegmentPiece, timestamp: int) -> SegmentPiece:
    """Return a piece without its first batches that, by the time index, are older than `timestamp` in ms."""
    if not piece.rows:
        return piece
    end = piece.row + piece.rows
    with closing(open_for_reading(real_disk(), path, piece.base)) as segment:
        number = min(segment.times.row_before(timestamp) + 1, end)
        if number <= piece.row:
            return piece
        first = piece.last if number == end else IndexRows(segment.files.index).boundary(number, segment.files.log)
    return piece if first is None else piece._replace(first=first, row=number, rows=end - number)


def _warn(problem: CorruptBatch) -> None:
    """Warn that a damaged batch is left out."""
    warnings.warn(f"left out: {problem}", stacklevel=2)


class _Journal:
    """Journal of the data directory of a split; it is read once, at the first use."""

    def __init__(self, disk: Disk, split: SegmentSplit) -> None:
        self._disk, self._split = disk, split
        self._fold: Fold | None = None

    def batches(self, piece: SegmentPiece) -> Iterator[tuple[BatchBoundary, memoryview]]:
        """Return the batches of a journaled piece with their boundaries. Raises `SegmentGone`."""
        owner, group_id = self._split.owner, self._split.group_id
        assert owner is not None, f"{self._split} has journaled pieces"
        directory = internal_path(owner.data_dir, JOURNAL, str(owner.disk_uuid))
        if self._fold is None:
            self._fold = read_journal(self._disk, directory, owner.disk_uuid)
        folded = self._fold.groups.get(group_id.bytes)
        if folded is None or folded.keep_to >= piece.first.index:
            raise SegmentGone(_describe_change(directory, "replaced"))
        return journaled_batches(folded, self._fold, piece)


class _PieceReader:
    """Reader of one piece from front to back."""

    def __init__(
        self, disk: Disk, split: SegmentSplit, piece: SegmentPiece, journal: "_Journal", on_damage: OnDamage
    ) -> None:
        """Prepare to read one piece of a split; `on_damage` receives each damaged batch."""
        self._disk, self._split, self._piece = disk, split, piece
        self._journal, self._on_damage = journal, on_damage
        self._file = file_name(split.path, piece.base)
        self._place, self._row = piece.first, piece.row
        """Boundary before the current batch, and the number of the batch's index row."""
        self._why: str | None = None
        """Damage of the current batch; None: none was found."""

    def batches(self) -> Iterator[CheckedBatch]:
        """Return the undamaged batches of the piece; damage is raised or reported."""
        piece = self._piece
        if piece.batches is not None:
            return self._check_batches(_CarriedBytes(piece.first.position, piece.batches), None)
        return self._read_journal() if piece.is_journaled else self._read_file()

    def _read_file(self) -> Iterator[CheckedBatch]:
        """Yield the batches of a segment file. Raises `SegmentGone`."""
        try:
            segment = open_for_reading(self._disk, self._split.path, self._piece.base)
        except FileNotFoundError:
            raise SegmentGone(_describe_change(self._file, "removed")) from None
        with closing(segment):
            yield from self._check_batches(segment.files.log, segment.files.index if self._piece.rows else None)

    def _read_journal(self) -> Iterator[CheckedBatch]:
        """Yield the batches that the journal has; damage is raised or reported."""
        for place, batch in self._journal.batches(self._piece):
            self._place = place
            yield from self._read_until_damage(_CarriedBytes(place.position, batch), None, place.position + len(batch))
            if self._why is not None:
                self._report_damage(self._why)

    # checking

    def _check_batches(self, log: _Log, index: File | None) -> Iterator[CheckedBatch]:
        """Yield the undamaged batches of the piece; report or raise damage between them."""
        last = self._piece.last
        rows = None if index is None else _RowReader(index)
        while True:
            yield from self._read_until_damage(log, rows, last.position)
            if self._why is None:
                break
            if not self._skip_damage(log, index, self._why):
                return
        if self._place.offset != last.offset:
            self._report_damage(f"offset {self._place.offset} follows, and the next batch has {last.offset}")

    def _read_until_damage(self, log: _Log, rows: "_RowReader | None", end: int) -> Iterator[CheckedBatch]:
        """Yield sound batches up to position `end`, or to the first damage.

        This loop determines the cost of a small batch."""
        (position, entry, offset), number, why = self._place, self._row, None
        for header, batch, broken in _split_batches(log, position, offset, end):
            why = broken or self._damage_reason(header, batch, entry, number, rows)
            if why is not None:
                break
            if header.attributes & CONTROL_BIT:
                entry = last_index_of(batch, header, entry)
            position, entry, offset, number = position + len(batch), entry + 1, header.next_offset, number + 1
            yield header, batch
        self._place, self._row, self._why = BatchBoundary(position, entry, offset), number, why

    def _damage_reason(
        self, header: BatchHeader, batch: memoryview, entry: int, number: int, rows: "_RowReader | None"
    ) -> str | None:
        """Return the reason why a batch is damaged; None if it is sound."""
        if crc32c(batch[CRC_START:]) != header.crc:
            return "the CRC does not match"
        if rows is not None and rows.contradicts(number, batch):
            return "the header is not the one in the index row"
        if header.attributes & CONTROL_BIT:
            return gap_error(batch, header, entry, self._piece.compacted_to)
        return None

    # damage

    def _report_damage(self, why: str) -> None:
        """Raise damage, or report it if the split skips damage."""
        position, _, offset = self._place
        if not self._piece.is_journaled and self._was_compacted():
            raise SegmentGone(_describe_change(self._file, "compacted"))
        problem = CorruptBatch(self._file, Position(position), Offset(offset), why)
        if not self._split.skips_damage:
            raise problem
        self._on_damage(problem)

    def _was_compacted(self) -> bool:
        """Return whether compaction has replaced the file since the plan was made."""
        try:
            with closing(open_for_reading(self._disk, self._split.path, self._piece.base)) as segment:
                roll = read_roll(segment)
        except FileNotFoundError:
            return True
        return roll is not None and self._piece.base < roll.compacted_to != self._piece.compacted_to

    def _skip_damage(self, log: _Log, index: File | None, why: str) -> bool:
        """Report damage and move to the next batch; return false if no row or plausible header locates it."""
        self._report_damage(why)
        behind = (
            self._next_by_header(log)
            if isinstance(log, _CarriedBytes) or index is None
            else self._next_by_row(log, index)
        )
        if behind is None:
            return False
        self._row, self._place = behind
        return True

    def _next_by_row(self, log: File, index: File) -> tuple[int, BatchBoundary] | None:
        """Return the number and the boundary of the next undamaged row; None if there is none."""
        rows = IndexRows(index)
        for number in range(self._row + 1, self._piece.row + self._piece.rows):
            place = rows.boundary(number, log)
            if place is not None and place.position > self._place.position:
                return number, place
        return None

    def _next_by_header(self, log: _Log) -> tuple[int, BatchBoundary] | None:
        """Return the index row and the boundary after a damaged batch, located by the length in its header.

        Return None unless the header of the next batch follows there."""
        place, last = self._place, self._piece.last
        head = log.read(place.position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        header = read_header(head)
        behind = BatchBoundary(place.position + header.size, place.index + 1, header.next_offset)
        if header.base_offset != place.offset or not place.position < behind.position <= last.position - HEADER_SIZE:
            return None
        head = log.read(behind.position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        following = read_header(head)
        is_sane = (following.magic, following.base_offset) == (MAGIC, behind.offset)
        return (self._row + 1, behind) if is_sane else None


def _split_batches(
    log: _Log, position: int, offset: int, end: int
) -> Iterator[tuple[BatchHeader, memoryview, str | None]]:
    """Yield consecutive batches between `position` and `end`, each with an error in its length, or None.

    Nothing follows the first error. The file is read in large chunks; a length that exceeds `end` is an error."""
    data, start, limit = memoryview(b""), position, position
    while position < end:
        if position + HEADER_SIZE > limit:
            data, start = memoryview(log.read(position, min(CHUNK_BYTES, end - position))), position
            limit = position + len(data)
            if len(data) < HEADER_SIZE:
                yield _NO_HEADER, data, "the file ends too early"
                return
        header = read_header(data, position - start)
        size = header.batch_length + LENGTH_END
        why = None
        if header.magic != MAGIC or size < HEADER_SIZE or header.last_offset_delta < -1:
            why = "there is no batch header"
        elif header.base_offset != offset:
            why = f"base offset is {header.base_offset} where {offset} follows"
        elif position + size > end:
            why = f"it has {size} bytes by its header, and {end - position} are there"
        elif position + size > limit:
            data, start = memoryview(log.read(position, min(max(CHUNK_BYTES, size), end - position))), position
            limit = position + len(data)
            why = "the file ends too early" if limit < position + size else None
        yield header, data[position - start : position - start + size], why
        if why is not None:
            return
        position, offset = position + size, header.next_offset


class _RowReader:
    """Reader of index rows from front to back."""

    def __init__(self, index: File) -> None:
        self._index = index
        self._data = memoryview(b"")
        self._first = self._end = 0

    def contradicts(self, number: int, batch: memoryview) -> bool:
        """Return whether row `number` is undamaged and describes another batch."""
        if not self._first <= number < self._end:
            self._data = memoryview(self._index.read(number * ROW_SIZE, _ROWS_AT_ONCE * ROW_SIZE))
            self._first, self._end = number, number + _ROWS_AT_ONCE
        at = (number - self._first) * ROW_SIZE
        row = self._data[at : at + ROW_SIZE]
        return len(row) == ROW_SIZE and not row_matches(row, batch) and restore_header(row, batch) is not None


def _describe_change(name: str, change: str) -> str:
    """Return the error text for a file that was changed since the plan."""
    return f"{name} was {change} since the reading was planned, as a running broker does: read again"
