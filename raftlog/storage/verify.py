"""Checking a log's files as they are, without opening the log: for `verify`, for tools, for backups.

Every byte of every `.log` is read: header, CRC, the chain of offset, index and term, the roll at each segment's start,
and the index row of each batch that has one. Nothing is changed. Bytes behind the last whole batch that no row speaks
of are a tail: a write under way, or one that a crash tore; the next opening cuts it off.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.records import HEADER_SIZE, BatchHeader, crc_matches, read_header
from raftlog.records.header import MAGIC
from raftlog.storage.checkpoint import newest_checkpoint
from raftlog.storage.directory import CHECKPOINT, internal
from raftlog.storage.disk import Disk, File
from raftlog.storage.recovery import looks_torn, read_roll, segment_bases
from raftlog.storage.rows import ROW_SIZE, Row, restored_header, row_matches, unpack_row
from raftlog.storage.segment import Segment, open_for_reading, segment_stem
from raftlog.types import Offset, Position

_CHUNK_BYTES = 4 << 20


@dataclass(slots=True)
class VerifyReport:
    """What was read and what is wrong with it; `tail_bytes` is no error."""

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


class Stored(NamedTuple):
    """One batch as a file holds it, and what is wrong with it.

    `offset` is where the chain stands. `row` is its index row, if it has one; when only that is damaged (`row_only`),
    the batch is whole. `restored` are its bytes when only header fields were damaged that the row gives back.
    """

    number: int
    offset: int
    position: int
    header: BatchHeader | None
    batch: memoryview
    row: Row | None
    why: str | None
    row_only: bool = False
    restored: bytes | None = None


def verify_log(disk: Disk, path: str) -> VerifyReport:
    """Check the log in directory `path`; raises `OSError`."""
    report = VerifyReport()
    expected_offset: int | None = None
    expected_index: int | None = None
    for base in segment_bases(disk, path):
        segment = open_for_reading(disk, path, base)
        try:
            roll = read_roll(segment)
            if expected_offset is None:
                report.first_offset = base
            elif base != expected_offset:
                _report(report, segment, 0, base, f"offset {expected_offset} should follow")
            if roll and expected_index is not None and roll.base_index != expected_index:
                _report(report, segment, 0, base, f"it starts at index {roll.base_index}, not {expected_index}")
            segment.base_index = roll.base_index if roll else expected_index or 0
            if roll is None:
                _report(report, segment, 0, base, "it does not begin with a roll entry")
            expected_offset = _verify_segment(segment, report)
            expected_index = segment.base_index + segment.rows
        finally:
            segment.close()
        report.segments += 1
    report.end_offset = expected_offset or report.first_offset
    _compare_with_checkpoint(disk, path, report)
    return report


def _compare_with_checkpoint(disk: Disk, path: str, report: VerifyReport) -> None:
    """A checkpoint says up to where everything was synced: a log that ends before has lost something."""
    name = internal(path, CHECKPOINT)
    if not disk.exists(name):
        return
    file = disk.open(name, read_only=True)
    try:
        checkpoint = newest_checkpoint(file)
    finally:
        file.close()
    if checkpoint and checkpoint.next_offset > report.end_offset and not report.problems:
        why = f"the log ends here, and its checkpoint at offset {checkpoint.next_offset}"
        last = f"{path}/{segment_stem(checkpoint.segment)}.log"
        report.problems.append(CorruptBatch(last, Position(0), Offset(report.end_offset), why))


def _verify_segment(segment: Segment, report: VerifyReport) -> int:
    """Check one segment and return the offset that follows it."""
    for stored in walk_segment(segment):
        if (
            stored.why
            and stored.row is None
            and not stored.row_only
            and looks_torn(segment, stored.position, stored.why)
        ):
            report.tail_bytes += segment.files.log.size() - stored.position
            break
        if stored.why:
            _report(report, segment, stored.position, stored.offset, stored.why)
        report.batches += 1
        report.bytes_read += len(stored.batch)
        if stored.header and not stored.header.is_control and (not stored.why or stored.row_only):
            report.records += stored.header.last_offset_delta + 1
    return segment.next_offset


def walk_segment(segment: Segment) -> Iterator[Stored]:
    """Every batch of a segment, sound or not; `segment.rows` and `next_offset` move along.

    A bad batch with a row is stepped over by its row; one without a row ends the walk.
    """
    rows = _Rows(segment.files.index)
    log = _Window(segment.files.log)
    position = 0
    while position < log.size:
        number = segment.rows
        row = rows.at(number, segment.base_index + number, position)
        head = log.read(position, HEADER_SIZE)
        header = read_header(head) if len(head) == HEADER_SIZE else None
        length = row.length if row else header.size if header and header.size >= HEADER_SIZE else log.size
        batch = log.read(position, length)
        why = _why_unsound(segment, header, batch)
        row_only = False
        if not why and rows.has(number) and not row_matches(rows.packed(number), head):
            row_only = restored_header(rows.packed(number), head) is None
            why = "its index row is damaged" if row_only else "the header is not the one that the index row speaks of"
        offset, following = segment.next_offset, segment.next_offset
        if header and (not why or row_only or (row and row_matches(rows.packed(number), head))):
            following = header.next_offset
        elif row and (after := rows.at(number + 1, row.index + 1, row.end)):
            following = after.offset
        segment.rows += 1
        segment.next_offset = following
        restored = _restored(rows.packed(number), batch) if why and row else None
        yield Stored(number, offset, position, header, batch, row, why, row_only, restored)
        if why and row is None and not row_only:
            segment.rows -= 1
            return
        position += length
    if (row := rows.at(segment.rows, segment.next_index, position)) is not None:
        why = "the file ends before a batch that was synced"
        yield Stored(segment.rows, segment.next_offset, position, None, memoryview(b""), row, why)


def _restored(packed: bytes, batch: memoryview) -> bytes | None:
    head = restored_header(packed, batch) if len(batch) >= HEADER_SIZE else None
    whole = head + batch[HEADER_SIZE:] if head else b""
    return whole if head and crc_matches(whole, read_header(head)) else None


def _why_unsound(segment: Segment, header: BatchHeader | None, batch: memoryview) -> str | None:
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


def _report(report: VerifyReport, segment: Segment, position: int, offset: int, why: str) -> None:
    report.problems.append(CorruptBatch(segment.files.log.path, Position(position), Offset(offset), why))


class _Window:
    """A file read in large pieces, front to back."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.size = file.size()
        self._start = 0
        self._data = memoryview(b"")

    def read(self, position: int, length: int) -> memoryview:
        if not self._start <= position or position + length > self._start + len(self._data):
            self._data = memoryview(self._file.read(position, max(length, _CHUNK_BYTES)))
            self._start = position
        return self._data[position - self._start : position - self._start + length]


class _Rows:
    """Index rows that say what they should."""

    def __init__(self, file: File) -> None:
        self._window = _Window(file)

    def packed(self, number: int) -> bytes:
        return bytes(self._window.read(number * ROW_SIZE, ROW_SIZE))

    def has(self, number: int) -> bool:
        return len(self.packed(number)) == ROW_SIZE

    def at(self, number: int, index: int, position: int) -> Row | None:
        """Row `number` when it speaks of entry `index` at `position`."""
        packed = self.packed(number)
        if len(packed) < ROW_SIZE:
            return None
        row = unpack_row(packed)
        return row if row.index == index and row.position == position and row.length >= HEADER_SIZE else None


def log_file_segment(disk: Disk, file: str) -> Segment:
    """The segment of one `.log` file, for tools that look at a single file."""
    directory, _, name = file.rpartition("/")
    base = int(name.removesuffix(".log"))
    assert name == f"{segment_stem(base)}.log", f"{name} is not the name of a segment"
    segment = open_for_reading(disk, directory or ".", base)
    roll = read_roll(segment)
    segment.base_index = roll.base_index if roll else 0
    return segment
