"""A split read: batches checked one after another, then rows.

Each batch: a header that follows the one before, the CRC, the index row where there is one. A rotten row beside a sound
batch is no damage to who reads records. The files are read in large pieces and never mapped: a file that is truncated
meanwhile must not kill the process. Memory: one piece of `CHUNK_BYTES`, or one batch, and the rows that are built.
Called by tasks (`read_segment_split`, `batches_of`), and by `plan` for times (`first_at`).
"""

import struct
import warnings
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa
from crc32c import crc32c

from raftlog.errors import CorruptBatch, InvalidBatch, StorageError
from raftlog.pipeline.decoding import rows_of
from raftlog.pipeline.errors import SegmentGone
from raftlog.pipeline.segments.extent import LogExtent, entries_up_to, file_name
from raftlog.pipeline.segments.pieces import IndexRows, Piece, Place
from raftlog.pipeline.segments.replicas import real_disk
from raftlog.pipeline.segments.split import SegmentSplit
from raftlog.records import HEADER_SIZE, BatchHeader, read_header, read_records
from raftlog.records.header import CONTROL_BIT, CRC_START, LENGTH_END, MAGIC
from raftlog.runtime.journal.recovery import read_journal
from raftlog.runtime.node_identity import JOURNAL
from raftlog.runtime.replay import journal_entries
from raftlog.storage.directory import internal
from raftlog.storage.disk import Disk, File
from raftlog.storage.gap import gap_in, why_no_gap
from raftlog.storage.recovery import read_roll
from raftlog.storage.rows import ROW_SIZE, restored_header, row_matches
from raftlog.storage.segment import open_for_reading
from raftlog.types import Offset, Position

CHUNK_BYTES: Final = 4 << 20
_ROWS_AT_ONCE: Final = 8192
OnDamage: TypeAlias = Callable[[CorruptBatch], None]
CheckedBatch: TypeAlias = tuple[BatchHeader, memoryview]


def read_segment_split(
    split: SegmentSplit, on_damage: OnDamage | None = None, disk: Disk | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a split as record batches of `rows.ARROW_SCHEMA`.

    `on_damage` hears of what a split with `skips_damage` leaves out; a warning without it. Raises `CorruptBatch`,
    `SegmentGone` for a file that was removed or compacted since the plan was made, `StorageError` and `OSError`.
    """
    try:
        yield from rows_of(split.topic, split.partition, batches_of(split, on_damage, disk), split.start, split.end)
    except InvalidBatch as error:
        raise StorageError(f"{split.path}: {error}") from error


def batches_of(
    split: SegmentSplit, on_damage: OnDamage | None = None, disk: Disk | None = None
) -> Iterator[CheckedBatch]:
    """The stored batches of a split, checked, control batches too; also what of them lies outside its offsets."""
    disk = disk or real_disk()
    for piece in split.pieces:
        yield from _Reading(disk, split, piece, on_damage or _warn).batches()


def first_at(disk: Disk, extent: LogExtent, timestamp: int) -> int:
    """Offset of the first record whose timestamp is at least that many ms; the end where there is none (KIP-79)."""
    group_id = extent.replica.group_id
    assert group_id is not None, f"{extent.replica} was chosen"
    for piece in extent.pieces:
        if piece.last.offset <= extent.start:
            continue
        behind = _behind_times_below(disk, extent.replica.path, piece, timestamp)
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
        for header, batch in batches_of(split, disk=disk):
            if header.is_control or header.max_timestamp < timestamp or header.next_offset <= extent.start:
                continue
            for record in read_records(batch):
                if record.timestamp >= timestamp and extent.start <= record.offset:
                    return min(record.offset, extent.end)
    return extent.end


def _behind_times_below(disk: Disk, path: str, piece: Piece, timestamp: int) -> Piece:
    """What of a piece lies behind the batches that are all older, as far as the time index knows."""
    if not piece.rows:
        return piece
    segment = open_for_reading(disk, path, piece.base)
    try:
        rows = IndexRows(segment.files.index)
        number = min(segment.times.row_before(timestamp) + 1, piece.row + piece.rows)
        if number <= piece.row:
            return piece
        if number == piece.row + piece.rows:
            return piece._replace(first=piece.last, row=number, rows=0)
        if rows.header_of(number, segment.files.log) is None:
            return piece
        row = rows.row(number)
        first = Place(row.position, row.index, row.offset)
        return piece._replace(first=first, row=number, rows=piece.row + piece.rows - number)
    finally:
        segment.close()


def _warn(problem: CorruptBatch) -> None:
    warnings.warn(f"left out: {problem}", stacklevel=2)


class _Reading:
    """One piece, front to back."""

    def __init__(self, disk: Disk, split: SegmentSplit, piece: Piece, on_damage: OnDamage) -> None:
        self._disk, self._split, self._piece, self._on_damage = disk, split, piece, on_damage
        self._file = file_name(split.path, piece.base)
        self._place = piece.first
        """Before the batch that is looked at."""

    def batches(self) -> Iterator[CheckedBatch]:
        piece = self._piece
        if piece.batches is not None:
            yield from self._checked(_Bytes(self._file, piece.first.position, piece.batches), None)
        elif piece.is_journaled:
            yield from self._from_journal()
        else:
            yield from self._from_files()

    def _from_files(self) -> Iterator[CheckedBatch]:
        path, piece = self._split.path, self._piece
        try:
            segment = open_for_reading(self._disk, path, piece.base)
        except FileNotFoundError:
            raise SegmentGone(_gone(self._file, "removed")) from None
        try:
            yield from self._checked(segment.files.log, segment.files.index if piece.rows else None)
        finally:
            segment.close()

    def _from_journal(self) -> Iterator[CheckedBatch]:
        split, piece = self._split, self._piece
        assert split.owner is not None, f"{split} has journaled pieces"
        directory = internal(split.owner.data_dir, JOURNAL, str(split.owner.disk_uuid))
        fold = read_journal(self._disk, directory, split.owner.disk_uuid)
        folded = fold.groups.get(split.group_id.bytes)
        if folded is None or folded.keep_to >= piece.first.index:
            raise SegmentGone(_gone(directory, "written anew"))
        entries = journal_entries(folded, fold, piece.first.index)
        position = piece.first.position
        for batch in entries_up_to(entries, piece.last.index - 1):
            size = len(batch)
            after = self._place._replace(position=position + size)
            only = piece._replace(first=self._place, last=after, rows=0)
            one = _Reading(self._disk, split, only, self._on_damage)
            yield from one._checked(_Bytes(directory, position, batch), None, is_part=True)
            self._place, position = one._place, position + size

    # checking

    def _checked(self, log: "File | _Bytes", index: File | None, *, is_part: bool = False) -> Iterator[CheckedBatch]:
        """Batches from the piece's first to its last; this loop is what a small batch costs."""
        piece = self._piece
        end, number = piece.last.position, piece.row
        compacted_to = piece.compacted_to
        position, entry, offset = piece.first
        data, start, limit = memoryview(b""), position, position
        rows, rows_first, rows_end = memoryview(b""), number, number
        while position < end:
            why = None
            if position + HEADER_SIZE > limit:
                data, start = memoryview(log.read(position, min(CHUNK_BYTES, end - position))), position
                limit = position + len(data)
                if len(data) < HEADER_SIZE:
                    why = "the file ends too early"
            if why is None:
                header = read_header(data, position - start)
                size = header.batch_length + LENGTH_END
                if header.magic != MAGIC or size < HEADER_SIZE or header.last_offset_delta < -1:
                    why = "there is no batch header"
                elif header.base_offset != offset:
                    why = f"base offset is {header.base_offset} where {offset} follows"
                elif position + size > end:
                    why = f"its length is {size}, and the batches end {end - position} bytes behind its beginning"
                elif position + size > limit:
                    data, start = memoryview(log.read(position, max(CHUNK_BYTES, size))), position
                    limit = position + len(data)
                    if limit < position + size:
                        why = "the file ends too early"
            if why is None:
                batch = data[position - start : position - start + size]
                if crc32c(batch[CRC_START:]) != header.crc:
                    why = "the CRC does not match"
                elif index is not None:
                    if number >= rows_end:
                        rows = memoryview(index.read(number * ROW_SIZE, _ROWS_AT_ONCE * ROW_SIZE))
                        rows_first, rows_end = number, number + _ROWS_AT_ONCE
                    row = rows[(number - rows_first) * ROW_SIZE :][:ROW_SIZE]
                    if len(row) == ROW_SIZE and not row_matches(row, batch) and restored_header(row, batch) is not None:
                        why = "the header is not the one that the index row speaks of"
                if why is None and header.attributes & CONTROL_BIT and header.last_offset_delta >= 0:
                    why = why_no_gap(batch, header, entry, compacted_to)
                    if why is None and (gap := gap_in(batch, header)) is not None:
                        entry = gap.last_index
            if why is not None:
                self._place = Place(position, entry, offset)
                found = self._behind_damage(log, index, number, why)
                if found is None:
                    return
                number, (position, entry, offset) = found
                limit = position
                continue
            position, entry, offset, number = position + size, entry + 1, header.next_offset, number + 1
            yield header, batch
        self._place = Place(position, entry, offset)
        if not is_part and offset != piece.last.offset:
            self._damaged(f"offset {offset} follows, and the next batch has {piece.last.offset}")

    def _damaged(self, why: str) -> None:
        """Raise or report, as the split wants it."""
        position, _, offset = self._place
        if not self._piece.is_journaled and self._was_compacted():
            raise SegmentGone(_gone(self._file, "compacted"))
        problem = CorruptBatch(self._file, Position(position), Offset(offset), why)
        if not self._split.skips_damage:
            raise problem
        self._on_damage(problem)

    def _was_compacted(self) -> bool:
        """Whether the file is another one by now than when the plan was made."""
        try:
            segment = open_for_reading(self._disk, self._split.path, self._piece.base)
        except FileNotFoundError:
            return True
        try:
            roll = read_roll(segment)
            return roll is not None and segment.base_offset < roll.compacted_to != self._piece.compacted_to
        finally:
            segment.close()

    def _behind_damage(
        self, log: "File | _Bytes", index: File | None, number: int, why: str
    ) -> tuple[int, Place] | None:
        """Report it, and find where the next batch stands: by its row, or by a header that seems to be right."""
        self._damaged(why)
        piece = self._piece
        if index is not None and not isinstance(log, _Bytes):
            rows = IndexRows(index)
            for following in range(number + 1, piece.row + piece.rows):
                if rows.header_of(following, log) is not None and rows.row(following).position > self._place.position:
                    row = rows.row(following)
                    return following, Place(row.position, row.index, row.offset)
            return None
        return self._behind_header(log, number)

    def _behind_header(self, log: "File | _Bytes", number: int) -> tuple[int, Place] | None:
        """Without rows: the damaged batch's own header, if another one stands where it says."""
        head = log.read(self._place.position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        header = read_header(head)
        behind = Place(self._place.position + header.size, self._place.index + 1, header.next_offset)
        if header.base_offset != self._place.offset or not header.size >= HEADER_SIZE:
            return None
        if behind == self._piece.last:
            return None
        try:
            following = read_header(log.read(behind.position, HEADER_SIZE))
        except struct.error:
            return None
        return (number + 1, behind) if (following.magic, following.base_offset) == (MAGIC, behind.offset) else None


class _Bytes:
    """Bytes that came along, read as if they stood in their file."""

    def __init__(self, path: str, position: int, data: bytes | memoryview) -> None:
        self.path, self._position, self._data = path, position, memoryview(data)

    def read(self, position: int, length: int) -> memoryview:
        at = position - self._position
        return self._data[at : at + length]


def _gone(name: str, what: str) -> str:
    return f"{name} was {what} since the reading was planned, as a running broker does: read again"
