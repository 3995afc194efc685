"""A log over segments: append, find, read, cut, trim. It knows index, term, offset and position, and nothing of Raft.

    log start offset ≤ durable offset ≤ next offset,   durable index ≤ last index

Who decides when to write, sync, roll, cut or delete is the caller: a lone log by its settings, a replica by what its
group committed. Not thread-safe but for `read`, which any thread may call at any time: segments are held in a tuple
that is replaced, never changed, and a row is published before the durable offset passes it.
"""

import errno
import struct
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from raftlog.errors import CorruptBatch, NotAtBatchBorder, OffsetOutOfRange, StorageError
from raftlog.records import (
    HEADER_SIZE,
    BatchHeader,
    ControlKind,
    build_control_batch,
    crc_matches,
    read_header,
    read_records,
    stamp,
)
from raftlog.records.header import CONTROL_BIT
from raftlog.storage.disk import Disk, File
from raftlog.storage.healing import heal_index, heal_row
from raftlog.storage.roll import Roll, encode_roll
from raftlog.storage.rows import ROW_SIZE, Row, row_matches, unpack_rows
from raftlog.storage.segment import SUFFIXES, Segment, create_segment_files, segment_stem
from raftlog.types import Buffer, Index, Offset, Position, Term

_T = TypeVar("_T")
_ROWS_AT_ONCE = 512
_CUT_PAUSE_S = 0.0005
"""How long a reader in another thread waits before it looks again whether a cut has ended."""
_WALK_BYTES = 1 << 20
_NO_END = Offset(1 << 62)
FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Error numbers that say that the disk, our share of it, or the table of open files is full: it may pass."""


class SyncTargets(NamedTuple):
    """What a sync must cover so that everything written is durable."""

    files: list[File]
    directories: list[str]


class _RowsRead(NamedTuple):
    """Rows that a read went through, the offset behind them, and the client batches among theirs."""

    count: int  # type: ignore[assignment]  # tuple.count is never wanted here
    next_offset: int
    batches: list[memoryview]


class SegmentedLog:
    """The segments of one directory, oldest first; the last one is active."""

    def __init__(self, disk: Disk, path: str, segments: tuple[Segment, ...], log_start_offset: Offset) -> None:
        self.disk = disk
        self.path = path
        self.segments: tuple[Segment, ...] = ()
        self.active: Segment
        self._hold(segments)
        self.log_start_offset = log_start_offset
        """Lowest readable offset; moved up by `trim`, never above the durable offset."""
        self.durable_index = Index(0)
        """Largest index synced together with every predecessor; moved by `mark_durable` and `cut`."""
        self.durable_offset = Offset(0)
        """Offset after the last durable record; what readers see."""
        self.generation = 0
        """Counts beginnings and ends of cuts and trims, so it is odd during one: what a racing reader looks at."""
        self._dirty = _with_waiting_rows(segments)
        """Segments with batches that are not durable or rows that are not published, oldest first."""
        self._directory_dirty = False

    # where the log ends

    def _hold(self, segments: tuple[Segment, ...]) -> None:
        self.segments = segments
        if segments:
            self.active = segments[-1]

    @property
    def last_index(self) -> Index:
        return Index(self.active.next_index - 1)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.active.next_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of all `.log` files, what is not written yet included."""
        return sum(segment.end_position for segment in self.segments)

    # appending

    def append(self, batch: Buffer, header: BatchHeader, term: Term) -> None:
        """Stamp the batch with the next offset and `term`, and take it; a read-only buffer is copied first."""
        offset = self.active.next_offset
        if type(batch) is bytes or (type(batch) is memoryview and batch.readonly):
            batch = bytearray(batch)
        stamp(batch, offset, term)  # type: ignore[arg-type]
        self._take(batch, header, offset, term)

    def append_roll(self, roll: Roll, term: Term) -> None:
        """Close the active segment and begin a new one with `roll`; the old one holds at least one offset."""
        active = self.segments[-1] if self.segments else None
        offset = Offset(active.next_offset) if active else self.log_start_offset
        assert active is None or active.base_offset < offset, f"segment {active.base_offset} holds no offset"
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), roll.created_ms, next_offset=offset)
        stamp(batch, offset, term)
        segment = Segment(offset, roll.base_index, create_segment_files(self.disk, self.path, offset))
        segment.created_ms = roll.created_ms
        if active:
            assert roll.base_index == active.next_index, f"roll at index {roll.base_index} ≠ {active.next_index}"
            active.times.close(active.rows - 1)
            if not self._dirty:
                self._dirty.append(active)  # its last time entry is still to be written
        self._hold((*self.segments, segment))
        self._directory_dirty = True
        self._take(batch, read_header(batch), offset, term)

    def _take(self, batch: Buffer, header: BatchHeader, offset: int, term: int) -> None:
        active = self.active
        active.append(batch, header, offset, term)
        if not self._dirty or self._dirty[-1] is not active:
            self._dirty.append(active)

    def write(self) -> None:
        """Bring everything appended to the files; on `OSError` call `take_back` or stop."""
        for segment in self._dirty:
            segment.write()

    def take_back(self, index: Index) -> None:
        """After a failed write: drop every entry behind `index`, which was written, durably."""
        assert self.durable_index <= index <= self.last_index
        while self.active.base_index > index:
            newest = self.active
            self._hold(self.segments[:-1])
            self._dirty = [segment for segment in self._dirty if segment is not newest]
            self._unlink(newest)
        self.active.take_back(index + 1 - self.active.base_index)
        self.disk.sync([self.active.files.log], [self.path])

    def sync_targets(self) -> SyncTargets:
        """Files and directories that a sync must cover to make everything written durable."""
        files = [segment.files.log for segment in self._dirty]
        return SyncTargets(files, [self.path] if self._directory_dirty else [])

    def mark_durable(self, index: Index) -> None:
        """A sync that covered everything up to `index` returned: let readers see it, and publish its rows.

        On a full disk rows wait in memory for the next call; no checkpoint passes `published_index`.
        """
        assert index <= self.last_index, f"durable {index} > last {self.last_index}"
        if index > self.durable_index:
            self.durable_offset = self.offset_after(index)
            self.durable_index = index
        if index == self.last_index:
            self._directory_dirty = False
        try:
            while self._dirty:
                segment = self._dirty[0]
                segment.publish(min(index + 1 - segment.base_index, segment.rows))
                if segment.rows_published < segment.rows:
                    break
                self._dirty.pop(0)
        except OSError as error:
            if error.errno not in FULL_ERRORS:
                raise

    @property
    def published_index(self) -> Index:
        """Largest index whose row, like those of all its predecessors, is in a file; at most the durable one."""
        waiting = self._dirty[0] if self._dirty else None
        return Index(waiting.base_index + waiting.rows_published - 1) if waiting else self.durable_index

    def offset_after(self, index: Index) -> Offset:
        """The offset that follows entry `index`."""
        segment = self.segment_of_index(index)
        number = index + 1 - segment.base_index
        return Offset(segment.next_offset if number == segment.rows else segment.row(number).offset)

    # finding

    def segment_of_index(self, index: int) -> Segment:
        """The segment that holds entry `index`, or would."""
        segments = self.segments
        return segments[max(0, bisect_right(segments, index, key=lambda segment: segment.base_index) - 1)]

    def segment_of_offset(self, offset: int) -> Segment:
        """The segment that holds record `offset`, or would."""
        segments = self.segments
        return segments[max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)]

    def offset_for_timestamp(self, timestamp: int) -> tuple[Offset, int] | None:
        """The first durable record whose timestamp is at least `timestamp`: its offset and its timestamp (KIP-79)."""
        return self._undisturbed(lambda: self._offset_for_timestamp(timestamp))

    def _offset_for_timestamp(self, timestamp: int) -> tuple[Offset, int] | None:
        for segment in self.segments:
            if segment.times.max_timestamp < timestamp:
                continue
            for number, row, batch, why in self.walk(segment, segment.times.row_before(timestamp) + 1):
                if segment.base_index + number > self.durable_index:
                    return None
                if why and not heal_row(segment, number):
                    raise self.corrupt(segment, row, why)
                header = read_header(batch)
                if header.is_control or header.max_timestamp < timestamp or header.next_offset <= self.log_start_offset:
                    continue
                for record in read_records(batch):
                    if record.timestamp >= timestamp and record.offset >= self.log_start_offset:
                        return Offset(record.offset), record.timestamp
        return None

    # reading

    def read(self, offset: int, max_bytes: int, end_offset: Offset | None = None) -> list[memoryview]:
        """Stored client batches from the one that holds `offset` on, durable and below `end_offset`, each checked.

        At least one batch, even when it is larger than `max_bytes`; none at the end. Raises `OffsetOutOfRange` outside
        the log and `CorruptBatch` where row, header or CRC disagree.
        """

        def attempt() -> list[memoryview]:
            end = self.durable_offset if end_offset is None else min(end_offset, self.durable_offset)
            if not self.log_start_offset <= offset <= self.next_offset:
                raise OffsetOutOfRange(offset, self.log_start_offset, self.durable_offset)
            return self._read(offset, max_bytes, end)

        return self._undisturbed(attempt)

    def _undisturbed(self, attempt: Callable[[], _T]) -> _T:
        """The result of an attempt with which no cut or trim in another thread interfered."""
        while True:
            generation = self.generation
            if generation % 2:
                time.sleep(_CUT_PAUSE_S)
                continue
            try:
                result = attempt()
            except (StorageError, OSError, ValueError, LookupError, struct.error, OffsetOutOfRange):
                if generation == self.generation:
                    raise
            else:
                if generation == self.generation:
                    return result

    def _read(self, offset: int, max_bytes: int, end_offset: Offset) -> list[memoryview]:
        while offset < end_offset:
            segment = self.segment_of_offset(offset)
            if offset >= segment.next_offset:
                raise self._missing(segment, offset)
            first = self._find_row(segment, offset)
            reached = offset
            while rows_read := self._read_rows(segment, first, max_bytes, end_offset):
                if rows_read.batches:
                    return rows_read.batches
                first += rows_read.count
                reached = max(reached, rows_read.next_offset)
            if reached == offset and not heal_index(segment):
                raise self._missing(segment, offset)
            offset = reached
        return []

    @staticmethod
    def _missing(segment: Segment, offset: int) -> CorruptBatch:
        return CorruptBatch(segment.files.log.path, Position(segment.end_position), Offset(offset), "it is missing")

    def _find_row(self, segment: Segment, offset: int) -> int:
        """`Segment.find_row`, where a damaged row may have led astray: then the index is healed first."""
        for _ in range(2):
            number = segment.find_row(offset)
            row = segment.row(number)
            if row.index == segment.base_index + number and row.offset <= offset:
                after = segment.row(number + 1).offset if number + 1 < segment.rows else segment.next_offset
                if after > offset or after == row.offset:
                    return number
            heal_index(segment)
        raise CorruptBatch(segment.files.index.path, Position(number * ROW_SIZE), Offset(offset), "the row is damaged")

    def _read_rows(self, segment: Segment, first: int, max_bytes: int, end_offset: Offset) -> "_RowsRead | None":
        """Client batches in the rows from `first` on; `None` when there are no rows."""
        packed, rows = self._rows_within(segment, first, max_bytes, end_offset)
        if not rows:
            return None
        start = rows[0].position
        data = memoryview(segment.files.log.read(start, rows[-1].end - start))
        batches: list[memoryview] = []
        for number, row in enumerate(rows):
            batch = data[row.position - start : row.end - start]
            why = self.why_corrupt(packed[number * ROW_SIZE : (number + 1) * ROW_SIZE], row, batch)
            if why:
                if heal_row(segment, first + number):
                    return self._read_rows(segment, first, max_bytes, end_offset)
                if batches:
                    return _RowsRead(number, row.offset, batches)
                raise self.corrupt(segment, row, why)
            if not batch[22] & CONTROL_BIT:
                batches.append(batch)
        next_offset = read_header(batch).next_offset
        segment.note_hint(next_offset, first + len(rows))
        return _RowsRead(len(rows), next_offset, batches)

    def _rows_within(
        self, segment: Segment, first: int, max_bytes: int, end_offset: Offset
    ) -> tuple[memoryview, list[Row]]:
        """Published rows from `first` on that begin below `end_offset` and together fit `max_bytes` (at least one)."""
        packed = b""
        rows: list[Row] = []
        position = limit = -1
        while chunk := segment.row_bytes(first + len(rows), _ROWS_AT_ONCE):
            packed += chunk
            for row in unpack_rows(chunk):
                if not self._is_plausible(segment, row, first + len(rows), position):
                    if rows:
                        return memoryview(packed), rows
                    if not heal_row(segment, first):
                        raise self.corrupt(segment, row, "its index row is damaged")
                    return self._rows_within(segment, first, max_bytes, end_offset)
                if limit < 0:
                    limit = row.position + max_bytes
                elif row.end > limit:
                    return memoryview(packed), rows
                if row.offset >= end_offset:
                    return memoryview(packed), rows
                rows.append(row)
                position = row.end
        return memoryview(packed), rows

    @staticmethod
    def _is_plausible(segment: Segment, row: Row, number: int, position: int) -> bool:
        """Whether a row can be trusted enough to read where it points; `position` ends the row before, or is −1."""
        return (
            row.index == segment.base_index + number
            and (row.position == position or position < 0)
            and row.length >= HEADER_SIZE
            and row.end <= segment.end_position
        )

    @staticmethod
    def why_corrupt(row_bytes: Buffer, row: Row, batch: Buffer) -> str | None:
        """What is wrong with a stored batch; `None` when row, header and CRC agree."""
        if len(batch) < row.length:
            return f"the file ends {row.length - len(batch)} bytes too early"
        view = memoryview(batch)
        if not row_matches(row_bytes, view[:HEADER_SIZE]):
            return "header and index row do not belong together"
        if not crc_matches(view, read_header(view)):
            return "the CRC does not match"
        return None

    @staticmethod
    def corrupt(segment: Segment, row: Row, why: str) -> CorruptBatch:
        """The error that names where a batch is damaged."""
        return CorruptBatch(segment.files.log.path, Position(row.position), Offset(row.offset), why)

    # cutting and trimming

    def check_cut(self, offset: int) -> None:
        """Whether the log can be cut at `offset`; raises `OffsetOutOfRange` or `NotAtBatchBorder`."""
        if not self.log_start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.next_offset)
        if offset == self.next_offset:
            return
        segment = self.segment_of_offset(offset)
        number = segment.find_row(offset)
        row = segment.row(number)
        if row.offset < offset:
            above = segment.row(number + 1).offset if number + 1 < segment.rows else segment.next_offset
            raise NotAtBatchBorder(offset, Offset(row.offset), Offset(above))

    def cut_target(self, offset: int) -> tuple[Segment, int]:
        """Segment and row number at which a cut at `offset` takes place; the roll of a segment is never cut alone."""
        segment = self.segment_of_offset(offset)
        number = segment.find_row(offset)
        while number > 0 and segment.row(number - 1).offset >= offset:
            number -= 1
        if number == 0 and len(self.segments) > 1 and segment is not self.segments[0]:
            segment = self.segments[self.segments.index(segment) - 1]
            return segment, segment.rows
        return segment, max(number, 1)

    def cut(self, segment: Segment, rows: int) -> None:
        """Keep the first `rows` rows of `segment` and drop everything behind, newest files first. Synced on return."""
        self.generation += 1
        try:
            while self.active is not segment:
                newest = self.active
                self._hold(self.segments[:-1])
                self._unlink(newest)
                self.disk.sync([], [self.path])
            if rows < segment.rows:
                first = segment.cut_index(rows)
                self.disk.sync([segment.files.index])
                segment.cut_log(rows, first)
            self.disk.sync([segment.files.log], [self.path])
            self._dirty = _with_waiting_rows(self.segments)
            self.durable_index = min(self.durable_index, self.last_index)
            self.durable_offset = min(self.durable_offset, self.next_offset)
        finally:
            self.generation += 1

    def segments_below(self, offset: int) -> tuple[Segment, ...]:
        """Closed segments whose records all lie below `offset`, oldest first."""
        return tuple(
            segment
            for segment, newer in zip(self.segments, self.segments[1:], strict=False)
            if newer.base_offset <= offset
        )

    def drop_below(self, offset: int) -> int:
        """Delete the files of `segments_below(offset)`; the new log start is durable before. Returns bytes freed."""
        doomed = self.segments_below(offset)
        self.generation += 1
        try:
            self._hold(self.segments[len(doomed) :])
            for segment in doomed:
                self._unlink(segment)
        finally:
            self.generation += 1
        return sum(segment.end_position for segment in doomed)

    def _unlink(self, segment: Segment) -> None:
        segment.close()
        stem = f"{self.path}/{segment_stem(segment.base_offset)}"
        for suffix in reversed(SUFFIXES):
            self.disk.unlink(stem + suffix)

    # the whole log

    def walk(self, segment: Segment, first: int = 0) -> Iterator[tuple[int, Row, memoryview, str | None]]:
        """Rows of a segment from `first` on with number, batch and what is wrong with it, read in large pieces."""
        number = first
        while True:
            packed, rows = self._rows_within(segment, number, _WALK_BYTES, _NO_END)
            if not rows:
                return
            start = rows[0].position
            data = memoryview(segment.files.log.read(start, rows[-1].end - start))
            for at, row in enumerate(rows):
                batch = data[row.position - start : row.end - start]
                yield number, row, batch, self.why_corrupt(packed[at * ROW_SIZE : (at + 1) * ROW_SIZE], row, batch)
                number += 1

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def _with_waiting_rows(segments: tuple[Segment, ...]) -> list[Segment]:
    return [segment for segment in segments if segment.rows_published < segment.rows]
