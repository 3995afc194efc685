"""Check of a log's files without opening the log and without changes: for `verify`, for tools, for backups.

Every byte of every `.log` is read: header, CRC, the chain of offset, index and term, the roll at each segment's start,
and the index row of each batch that has one. Bytes after the last complete batch without a row are a tail: a write
under way, or one that a crash interrupted; the next opening cuts it off."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.records import HEADER_SIZE, BatchHeader, crc_matches, read_header
from raftlog.records.check import RECORD_BYTES_MIN
from raftlog.records.header import MAGIC, TERM_MAX, header_bytes
from raftlog.storage.checkpoint import Checkpoint, read_checkpoint
from raftlog.storage.disk import Disk, File
from raftlog.storage.gap import gap_error, last_index_of
from raftlog.storage.recovery import looks_torn, read_roll, segment_bases
from raftlog.storage.roll import Roll
from raftlog.storage.rows import ROW_SIZE, Row, restore_header, row_matches, unpack_row, unpack_rows
from raftlog.storage.segment import Segment, open_for_reading
from raftlog.storage.segment_files import LOG_SUFFIX, segment_stem
from raftlog.storage.window import FileWindow
from raftlog.types import Offset, Position


@dataclass(slots=True)
class LogCheck:
    """Result of a check: counts of the data read, and the problems found; `tail_bytes` is no error."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes_read: int = 0
    first_offset: int = 0
    end_offset: int = 0
    tail_bytes: int = 0
    problems: list[CorruptBatch] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.problems


class StoredBatch(NamedTuple):
    """Batch that was read from a segment file, and the error in it.

    `offset` is the next one in the chain. `row` is the batch's index row, if it has one; with `row_only` only the row
    is damaged. `restored` are the batch's bytes if only header fields were damaged that the row determines."""

    number: int
    index: int  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    offset: int
    position: int
    header: BatchHeader | None
    batch: memoryview
    row: Row | None
    reason: str | None
    row_only: bool = False
    restored: bytes | None = None


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """Report of one segment: content of its files, and its bounds, which its neighbours must match.

    `bytes_read` counts the bytes of batches."""

    base_offset: int
    base_index: int
    next_index: int
    next_offset: int
    has_roll: bool
    batches: int = 0
    records: int = 0
    bytes_read: int = 0
    tail_bytes: int = 0
    is_blank: bool = False
    """Whether the segment has neither a batch nor a row: it may be under construction."""
    problems: tuple[CorruptBatch, ...] = ()


def verify_log(disk: Disk, path: str) -> LogCheck:
    """Check the log in directory `path`, and return the result; raises `OSError`."""
    while True:
        report = _verify_listed(disk, path)
        if report.segments or not segment_bases(disk, path):
            return report  # otherwise retention deleted all listed segments meanwhile


def _verify_listed(disk: Disk, path: str) -> LogCheck:
    """Check the segments that exist now, and return the result."""
    checkpoint = read_checkpoint(disk, path)  # first: it never covers more than is read afterwards
    return join_segments(path, checkpoint, _verify_segments(disk, path, segment_bases(disk, path)))


def _verify_segments(disk: Disk, path: str, bases: list[int]) -> list[SegmentReport]:
    """Return the reports of the segments that still exist when they are read."""
    found = []
    for base, newer in zip(bases, [*bases[1:], None], strict=False):
        with suppress(FileNotFoundError):  # retention deleted it meanwhile
            found.append(verify_segment(disk, path, base, newer))
    return found


def verify_segment(disk: Disk, path: str, base: int, newer: int | None) -> SegmentReport:
    """Check one segment alone; `newer` is the base offset of the next one. Raises `OSError`."""
    segment = open_for_reading(disk, path, base)
    report = LogCheck()
    try:
        # Before the roll is read: the roll of a new segment may be written in between.
        is_blank = segment.files.log.size() == segment.files.index.size() == 0
        roll = None if is_blank else read_roll(segment)
        if not is_blank:
            _set_base_index(segment, roll)
            _verify_batches(segment, report, newer)
    finally:
        segment.close()
    return SegmentReport(
        base,
        segment.base_index,
        segment.next_index,
        segment.next_offset,
        roll is not None,
        report.batches,
        report.records,
        report.bytes_read,
        report.tail_bytes,
        is_blank,
        tuple(report.problems),
    )


def join_segments(path: str, checkpoint: Checkpoint | None, segments: Sequence[SegmentReport]) -> LogCheck:
    """Combine the reports of all segments, in order, into the check of the log; pure."""
    report = LogCheck()
    expected_offset: int | None = None
    expected_index: int | None = None
    for segment in segments:
        base = segment.base_offset
        if segment.is_blank and expected_offset == base == segments[-1].base_offset:
            continue  # under construction: its roll is not written yet
        if expected_offset is None:
            report.first_offset = base
            if checkpoint and base > checkpoint.log_start_offset:
                _add_problem(report, path, base, f"offsets {checkpoint.log_start_offset} to {base} are missing")
        elif base != expected_offset:
            _add_problem(report, path, base, f"offset {expected_offset} should follow")
        if expected_index is not None and segment.base_index != expected_index:
            _add_problem(report, path, base, f"it starts at index {segment.base_index}, not {expected_index}")
        if not segment.has_roll:
            _add_problem(report, path, base, "it does not begin with a roll entry")
        report.problems += segment.problems
        report.batches += segment.batches
        report.records += segment.records
        report.bytes_read += segment.bytes_read
        report.tail_bytes += segment.tail_bytes
        report.segments += 1
        expected_offset, expected_index = segment.next_offset, segment.next_index
    report.end_offset = expected_offset or report.first_offset
    if checkpoint and checkpoint.next_offset > report.end_offset and not report.problems:
        reason = f"the log ends here, and its checkpoint at offset {checkpoint.next_offset}"
        last = f"{path}/{segment_stem(checkpoint.segment)}{LOG_SUFFIX}"
        report.problems.append(CorruptBatch(last, Position(0), Offset(report.end_offset), reason))
    return report


def _add_problem(report: LogCheck, path: str, base: int, reason: str) -> None:
    """Add a problem at the beginning of the segment at `base` to the report."""
    file = f"{path}/{segment_stem(base)}{LOG_SUFFIX}"
    report.problems.append(CorruptBatch(file, Position(0), Offset(base), reason))


def _has_later_rows(segment: Segment, stored: StoredBatch, index_size: int) -> bool:
    """Return whether a later batch has an index row, so that this batch was not the last written one.

    Only rows below `index_size`, the size before the batches were read, count: a writer may have appended since."""
    first = (stored.number + 1) * ROW_SIZE
    packed = segment.files.index.read(first, max(0, index_size // ROW_SIZE * ROW_SIZE - first))
    return any(
        row.index > stored.index and row.position > stored.position and row.offset >= stored.offset
        for row in unpack_rows(packed)
    )


def open_with_index(disk: Disk, path: str, base: int) -> Segment:
    """Open a segment for reading; its base index is from its roll or, if that is damaged, from its first row."""
    segment = open_for_reading(disk, path, base)
    _set_base_index(segment, read_roll(segment))
    return segment


def _set_base_index(segment: Segment, roll: Roll | None) -> None:
    """Set the base index from the roll or, without one, from the first index row."""
    if roll:
        segment.base_index, segment.compacted_to = roll.base_index, roll.compacted_to
    elif len(packed := segment.files.index.read(0, ROW_SIZE)) == ROW_SIZE:
        segment.base_index = unpack_row(packed).index


def _verify_batches(segment: Segment, report: LogCheck, end_offset: int | None) -> None:
    """Check all batches of a segment; add counts and problems to `report`."""
    index_size = segment.files.index.size()
    for stored in walk_segment(segment, end_offset):
        if (
            stored.reason
            and stored.row is None
            and not stored.row_only
            and looks_torn(segment, stored.position, stored.reason)
            and not _has_later_rows(segment, stored, index_size)
        ):
            report.tail_bytes += segment.files.log.size() - stored.position
            continue  # the walk does not count this batch, and ends
        if stored.reason:
            place = Position(stored.position), Offset(stored.offset)
            report.problems.append(CorruptBatch(segment.files.log.path, *place, stored.reason))
        report.batches += 1
        report.bytes_read += len(stored.batch)
        if stored.header and not stored.header.is_control and (not stored.reason or stored.row_only):
            report.records += stored.header.record_count


def walk_segment(segment: Segment, end_offset: int | None = None) -> Iterator[StoredBatch]:
    """Yield every batch of a segment, damaged ones too; `segment.rows` and `next_offset` advance with each.

    A bad batch with a row that can be trusted is skipped by its row; one without ends the walk. `end_offset` is the
    base offset of the next segment, if there is one."""
    rows = _Rows(
        segment.files.index
    )  # before the log's size is read: rows refer to batches that are in the log already
    log = FileWindow(segment.files.log)
    position = 0
    while position < log.size:
        number, index = segment.rows, segment.next_index
        head = log.read(position, HEADER_SIZE)
        header = read_header(head) if len(head) == HEADER_SIZE else None
        row = rows.confirm(number, segment, position, head, log.size)
        length = row.length if row else header.size if header and header.size >= HEADER_SIZE else log.size
        batch = log.read(position, min(length, log.size - position))
        reason = _batch_error(segment, header, batch) or _gap_error(segment, header, batch)
        row_only = False
        if not reason and rows.has(number) and not row_matches(rows.read_packed(number), head):
            row_only = restore_header(rows.read_packed(number), head) is None
            reason = "its index row is damaged" if row_only else "header and index row do not belong together"
        offset = segment.next_offset
        if header and (not reason or row_only):
            segment.next_offset = header.next_offset
        elif row:
            segment.next_offset = rows.offset_after(number, row, header, end_offset, segment.is_compacted)
        segment.rows += 1
        segment.missing += _count_further_entries(
            segment, rows, index, position, None if reason and not row_only else batch
        )
        restored = _restore(rows.read_packed(number), batch) if reason and row else None
        yield StoredBatch(number, index, offset, position, header, batch, row, reason, row_only, restored)
        if reason and row is None and not row_only:
            segment.rows -= 1
            return
        position += length
    reason = "the file ends before a batch that was synced"
    while (row := rows.match(segment.rows, segment.next_index, position, or_above=segment.is_compacted)) is not None:
        segment.missing += row.index - segment.next_index
        number, index, offset = segment.rows, segment.next_index, segment.next_offset
        segment.rows += 1
        segment.next_offset = rows.offset_after(number, row, None, end_offset, segment.is_compacted)
        yield StoredBatch(number, index, offset, position, None, memoryview(b""), row, reason)
        position = row.end


def _gap_error(segment: Segment, header: BatchHeader | None, batch: memoryview) -> str | None:
    """Return the error in a gap of a compacted segment; None for other batches."""
    if header is None or not segment.is_compacted:
        return None
    return gap_error(batch, header, segment.next_index, segment.compacted_to)


def _count_further_entries(segment: Segment, rows: "_Rows", index: int, position: int, batch: memoryview | None) -> int:
    """Return the number of further entries that the batch at `index` replaces, if it is a gap.

    For a damaged batch the next row determines it."""
    if not segment.is_compacted:
        return 0
    if batch is not None:
        return last_index_of(batch, read_header(batch), index) - index
    after = rows.get(segment.rows)
    return after.index - 1 - index if after and after.index > index and after.position > position else 0


def _restore(packed: bytes, batch: memoryview) -> bytes | None:
    """Return the batch with the header that its row determines; None if that header does not match the CRC."""
    head = restore_header(packed, batch) if len(batch) >= HEADER_SIZE else None
    whole = head + batch[HEADER_SIZE:] if head else b""
    return whole if head and crc_matches(whole, read_header(head)) else None


def _batch_error(segment: Segment, header: BatchHeader | None, batch: memoryview) -> str | None:
    """Return the error in a batch by its header, place and CRC, or None."""
    if header is None:
        return "the file ends inside a batch header"
    if header.magic != MAGIC or header.size < HEADER_SIZE:
        return "there is no batch header"
    if header.base_offset != segment.next_offset:
        return f"base offset is {header.base_offset} where {segment.next_offset} follows"
    if len(batch) != header.size:
        return "the file ends inside the batch"
    if not crc_matches(batch, header):
        return "the CRC does not match"
    return None


class _Rows:
    """Index rows of a segment, with checks of their content."""

    def __init__(self, file: File) -> None:
        self._window = FileWindow(file)
        self._count = self._window.size // ROW_SIZE

    def read_packed(self, number: int) -> bytes:
        """Return the bytes of row `number`; empty after the last complete row."""
        if number >= self._count:
            return b""
        return bytes(self._window.read(number * ROW_SIZE, ROW_SIZE))

    def has(self, number: int) -> bool:
        """Return whether the file has row `number`."""
        return len(self.read_packed(number)) == ROW_SIZE

    def get(self, number: int) -> Row | None:
        """Return row `number` without a check."""
        return unpack_row(self.read_packed(number)) if self.has(number) else None

    def match(self, number: int, index: int, position: int, *, or_above: bool = False) -> Row | None:
        """Return row `number` if it is the row of entry `index` at `position`, else None.

        With `or_above`, the row may also be that of a later entry: a gap of compaction may be before it."""
        row = self.get(number)
        is_there = row is not None and (row.index == index or (or_above and row.index > index))
        return row if row and is_there and row.position == position and row.length >= HEADER_SIZE else None

    def confirm(self, number: int, segment: Segment, position: int, head: memoryview, log_size: int) -> Row | None:
        """Return the next row of `segment` if header, next row or end of file confirm it, else None."""
        index = segment.next_index
        row = self.match(number, index, position)
        if row is None or row.offset != segment.next_offset or row.term > TERM_MAX:
            return None
        packed = self.read_packed(number)
        is_confirmed = len(head) == HEADER_SIZE and (
            row_matches(packed, head) or restore_header(packed, head) is not None
        )
        is_confirmed = is_confirmed or (
            self.match(number + 1, index + 1, row.end, or_above=segment.is_compacted) is not None
        )
        return row if is_confirmed or row.end == log_size else None

    def offset_after(
        self, number: int, row: Row, header: BatchHeader | None, end_offset: int | None, is_compacted: bool
    ) -> int:
        """Return the offset that follows a damaged batch; never too low, so that no offset is assigned twice."""
        packed = self.read_packed(number)
        if header and (head := restore_header(packed, header_bytes(header))):
            return read_header(head).next_offset
        after = self.match(number + 1, row.index + 1, row.end, or_above=is_compacted)
        if after:
            return after.offset
        if end_offset is not None:
            return end_offset
        records_max = max(1, (row.length - HEADER_SIZE) // RECORD_BYTES_MIN)
        if header and header.record_count == header.last_offset_delta + 1 and 0 < header.record_count <= records_max:
            return row.offset + header.record_count
        return row.offset + records_max


def open_log_file(disk: Disk, file: str) -> Segment:
    """Open the segment of one `.log` file, for tools that examine a single file."""
    directory, _, name = file.rpartition("/")
    base = int(name.removesuffix(".log"))
    assert name == f"{segment_stem(base)}.log", f"{name} is not the name of a segment"
    return open_with_index(disk, directory or ".", base)
