"""Reads of a log's segments: lookups by index, offset and time, and checked batches.

    log start offset ≤ durable offset ≤ next offset

Reads change only damaged index rows, which they rewrite. `read` and `offset_for_timestamp` may be called by
any thread at any time: segments are held in a tuple that is replaced, never changed, a row is published before the
durable offset passes it, and a read is repeated when a cut or trim in another thread interfered. Appends, cuts and
trims are in `segmented_log`."""

import struct
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from raftlog.errors import CorruptBatch, OffsetOutOfRange, StorageError, UndecodableBatch
from raftlog.records import HEADER_SIZE, crc_matches, open_in_steps, read_header, read_records
from raftlog.records.header import CONTROL_BIT, MARKER_BITS
from raftlog.storage.disk import Disk
from raftlog.storage.index_repair import repair_index, repair_row
from raftlog.storage.rows import ROW_SIZE, Row, restore_header, row_matches, unpack_rows
from raftlog.storage.segment import Segment
from raftlog.types import Buffer, Index, Offset, Position

_T = TypeVar("_T")
Lookup: TypeAlias = Generator[None, None, tuple[Offset, int] | None]
"""Lookup by time; yields None where other tasks may run."""
_RECORDS_PER_STEP = 1_000
_ROWS_AT_ONCE = 512
_CUT_PAUSE_S = 0.0005
"""Pause of a reader in another thread before it checks again whether a cut has ended."""
_WALK_BYTES = 1 << 20
_NO_END = Offset(1 << 64)
"""Offset above any offset that a row can have, even a damaged row."""
_ROWS_NO_MAX = 1 << 62


def _run_to_end(lookup: Lookup) -> tuple[Offset, int] | None:
    """Run a lookup without pauses, and return its result."""
    while True:
        try:
            next(lookup)
        except StopIteration as end:
            found: tuple[Offset, int] | None = end.value
            return found


class _RowsRead(NamedTuple):
    """Result of a read: number of examined rows, the offset after them, and their client batches."""

    count: int  # type: ignore[assignment]  # tuple.count is never wanted here
    next_offset: int
    batches: list[memoryview]


class ReadableLog:
    """Segments of one directory, oldest first, for readers; the last one is active."""

    def __init__(self, disk: Disk, path: str, segments: tuple[Segment, ...], log_start_offset: Offset) -> None:
        """Read a log of these segments, in order; `log_start_offset` is the lowest readable offset."""
        self.disk = disk
        self.path = path
        self.segments: tuple[Segment, ...] = ()
        self.active: Segment
        """Last segment; unset while the log has none."""
        self._set_segments(segments)
        self.log_start_offset = log_start_offset
        """Lowest readable offset; raised by `trim`, never above the durable offset."""
        self.durable_index = Index(0)
        """Highest index that is synced together with all before it; changed by `mark_durable` and cuts."""
        self.durable_offset = Offset(0) if segments else log_start_offset
        """Offset after the last durable record; readers see offsets below it."""
        self.generation = 0
        """Number of begun and ended cuts and trims, so it is odd during one; a reader compares it before and after a
        read."""

    def _set_segments(self, segments: tuple[Segment, ...]) -> None:
        """Replace the tuple of segments; the last one becomes active."""
        self.segments = segments
        if segments:
            self.active = segments[-1]
        else:
            self.__dict__.pop("active", None)

    @property
    def last_index(self) -> Index:
        """Index of the last entry; 0 for a log without segments."""
        return Index(self.active.next_index - 1 if self.segments else 0)

    @property
    def first_uncompacted_segment(self) -> Segment:
        """First segment that was not compacted: from its beginning on every entry has its own bytes and row."""
        return next((segment for segment in self.segments if not segment.is_compacted), self.active)

    @property
    def next_offset(self) -> Offset:
        """Offset of the next record; the log start in a log without segments."""
        return Offset(self.active.next_offset) if self.segments else self.log_start_offset

    @property
    def size_bytes(self) -> int:
        """Size of all `.log` files in bytes, unwritten batches included."""
        return sum(segment.end_position for segment in self.segments)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()

    # finding

    def offset_after(self, index: Index) -> Offset:
        """Return the offset after entry `index`; for index 0, the offset of the first entry."""
        if not self.segments:
            return self.log_start_offset
        segment = self.segment_of_index(index)
        if index + 1 >= segment.next_index:
            return Offset(segment.next_offset)
        return Offset(segment.row(segment.number_of(index + 1)).offset)

    def segment_of_index(self, index: int) -> Segment:
        """Return the segment that holds entry `index`, or would hold it."""
        segments = self.segments
        return segments[max(0, bisect_right(segments, index, key=lambda segment: segment.base_index) - 1)]

    def segment_of_offset(self, offset: int) -> Segment:
        """Return the segment that holds record `offset`, or would hold it."""
        segments = self.segments
        return segments[max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)]

    # reading

    def read(self, offset: int, max_bytes: int, end_offset: Offset | None = None) -> list[memoryview]:
        """Return durable client batches below `end_offset`, from the one that holds `offset` on, after a check.

        At least one batch, even if it is larger than `max_bytes`; none at the end. Raises `OffsetOutOfRange` outside
        the log and `CorruptBatch` if row, header or CRC disagree."""

        def attempt() -> list[memoryview]:
            """Read once. Raises `OffsetOutOfRange`."""
            end = self.durable_offset if end_offset is None else min(end_offset, self.durable_offset)
            if not self.log_start_offset <= offset <= self.next_offset:
                raise OffsetOutOfRange(offset, self.log_start_offset, self.durable_offset)
            return self._read(offset, max_bytes, end)

        return self._retry_until_undisturbed(attempt)

    def _retry_until_undisturbed(self, attempt: Callable[[], _T]) -> _T:
        """Repeat a read until no cut or trim in another thread interfered with it, and return its result."""
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
        """Return batches like `read`, once, without a check for changes in other threads."""
        while offset < end_offset:
            segment = self.segment_of_offset(offset)
            if offset >= segment.next_offset:
                raise self._missing_error(segment, offset)
            first = self._find_row(segment, offset)
            reached = offset
            while rows_read := self._read_rows(segment, first, max_bytes, end_offset):
                if rows_read.batches:
                    return rows_read.batches
                first += rows_read.count
                reached = max(reached, rows_read.next_offset)
            if reached == offset and not repair_index(segment):
                raise self._missing_error(segment, offset)
            offset = reached
        return []

    @staticmethod
    def _missing_error(segment: Segment, offset: int) -> CorruptBatch:
        """Return the error for a record that should be in the segment, but is not."""
        return CorruptBatch(segment.files.log.path, Position(segment.end_position), Offset(offset), "it is missing")

    def _find_row(self, segment: Segment, offset: int) -> int:
        """Return the result of `Segment.find_row`; if a damaged row may have misled the search, repair and repeat."""
        for _ in range(2):
            number = segment.find_row(offset)
            row = segment.row(number)
            if segment.can_be_row_of(number, row.index) and row.offset <= offset:
                after = segment.row(number + 1).offset if number + 1 < segment.rows else segment.next_offset
                if after > offset or after == row.offset:
                    return number
            repair_index(segment)
        raise CorruptBatch(segment.files.index.path, Position(number * ROW_SIZE), Offset(offset), "the row is damaged")

    def _read_rows(self, segment: Segment, first: int, max_bytes: int, end_offset: Offset) -> "_RowsRead | None":
        """Read the client batches of the rows from `first` on; return None if there are no rows."""
        packed, rows = self._select_rows(segment, first, max_bytes, end_offset)
        if not rows:
            return None
        start = rows[0].position
        data = memoryview(segment.files.log.read(start, rows[-1].end - start))
        batches: list[memoryview] = []
        for number, row in enumerate(rows):
            batch = data[row.position - start : row.end - start]
            reason = self.batch_error(packed[number * ROW_SIZE : (number + 1) * ROW_SIZE], row, batch)
            if reason:
                if repair_row(segment, first + number):
                    return self._read_rows(segment, first, max_bytes, end_offset)
                if batches:
                    return _RowsRead(number, row.offset, batches)
                raise self.corruption_error(segment, row, reason)
            if batch[22] & MARKER_BITS != CONTROL_BIT:
                batches.append(batch)
        next_offset = read_header(batch).next_offset
        segment.add_hint(next_offset, first + len(rows))
        return _RowsRead(len(rows), next_offset, batches)

    def _select_rows(
        self, segment: Segment, first: int, max_bytes: int, end_offset: Offset, rows_max: int = _ROWS_NO_MAX
    ) -> tuple[memoryview, list[Row]]:
        """Return rows from `first` on that begin below `end_offset` and fit into `max_bytes`, but at least one."""
        packed = b""
        rows: list[Row] = []
        position = limit = -1
        while chunk := segment.row_bytes(first + len(rows), min(_ROWS_AT_ONCE, rows_max - len(rows))):
            packed += chunk
            for row in unpack_rows(chunk):
                if not self._is_plausible(segment, row, first + len(rows), position):
                    if rows:
                        return memoryview(packed), rows
                    if not repair_row(segment, first):
                        raise self.corruption_error(segment, row, "its index row is damaged")
                    return self._select_rows(segment, first, max_bytes, end_offset, rows_max)
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
        """Return whether a row's position and length are plausible; `position` is the end of the row before, or −1."""
        return (
            segment.can_be_row_of(number, row.index)
            and (row.position == position or position < 0)
            and row.length >= HEADER_SIZE
            and row.end <= segment.end_position
        )

    @staticmethod
    def batch_error(row_bytes: Buffer, row: Row, batch: Buffer) -> str | None:
        """Return the error in a stored batch; None if row, header and CRC agree."""
        if len(batch) < row.length:
            return f"the file ends {row.length - len(batch)} bytes too early"
        view = memoryview(batch)
        if not row_matches(row_bytes, view[:HEADER_SIZE]):
            return "header and index row do not belong together"
        if not crc_matches(view, read_header(view)):
            return "the CRC does not match"
        return None

    @staticmethod
    def corruption_error(segment: Segment, row: Row, reason: str) -> CorruptBatch:
        """Return the error for a damaged batch, with the batch's position."""
        return CorruptBatch(segment.files.log.path, Position(row.position), Offset(row.offset), reason)

    def walk(self, segment: Segment, first: int = 0) -> Iterator[tuple[int, Row, memoryview, str | None]]:
        """Yield the rows of a segment from `first` on: number, row, batch and its error. Read in large pieces."""
        number = first
        while True:
            packed, rows = self._select_rows(segment, number, _WALK_BYTES, _NO_END)
            if not rows:
                return
            start = rows[0].position
            data = memoryview(segment.files.log.read(start, rows[-1].end - start))
            for at, row in enumerate(rows):
                batch = data[row.position - start : row.end - start]
                yield number, row, batch, self.batch_error(packed[at * ROW_SIZE : (at + 1) * ROW_SIZE], row, batch)
                number += 1

    def offset_for_timestamp(self, timestamp: int, start: int = 0) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first durable record from `start` on at `timestamp` or later, or None.

        As in KIP-79. If an undecodable batch may hold that record, return its first offset and its newest timestamp:
        readers continue there, and get the error."""
        return self._retry_until_undisturbed(
            lambda: _run_to_end(self._offset_for_timestamp(timestamp, max(start, self.log_start_offset)))
        )

    def offset_for_timestamp_in_steps(self, timestamp: int, start: int = 0) -> Lookup:
        """Look up like `offset_for_timestamp`, but in steps, for an owner whose only thread also cuts and trims."""
        while True:
            generation, steps = (
                self.generation,
                self._offset_for_timestamp(timestamp, max(start, self.log_start_offset)),
            )
            while self.generation == generation:
                try:
                    next(steps)
                except StopIteration as end:
                    found: tuple[Offset, int] | None = end.value
                    return found
                yield

    def _offset_for_timestamp(self, timestamp: int, start: int) -> Lookup:
        """Look up like `offset_for_timestamp`, in steps of one batch or a number of records."""
        for segment in self.segments:
            if segment.times.max_timestamp < timestamp:
                continue
            for number, row, batch, reason in self.walk(segment, segment.times.row_before(timestamp) + 1):
                if row.index > self.durable_index:
                    return None
                if reason and not repair_row(segment, number):
                    raise self.corruption_error(segment, row, reason)
                header = read_header(batch)
                if header.is_control or header.max_timestamp < timestamp or header.next_offset <= start:
                    yield
                    continue
                try:
                    opened = yield from open_in_steps(batch)
                    for seen, record in enumerate(read_records(opened), 1):
                        if record.timestamp >= timestamp and record.offset >= start:
                            return Offset(record.offset), record.timestamp
                        if seen % _RECORDS_PER_STEP == 0:
                            yield
                except UndecodableBatch as error:
                    return Offset(max(error.offset, start)), header.max_timestamp
        return None

    # entries

    def row_at(self, index: Index) -> Row:
        """Return the stored index row of an entry in the log."""
        segment = self.segment_of_index(index)
        assert segment.base_index <= index < segment.next_index, (
            f"index {index} outside [{self.segments[0].base_index}, {self.last_index}]"
        )
        return segment.row(segment.number_of(index))

    def check_row_at(self, index: Index) -> Row:
        """Return the index row of an entry, compared with the batch's header and repaired if damaged.

        If the header is damaged, the row is trusted if it fits between its neighbours. Raises `CorruptBatch` if neither
        row nor header can be trusted."""
        row = self.row_at(index)
        segment = self.segment_of_index(index)
        number = segment.number_of(index)
        if number >= segment.rows_published:
            return row  # the row was never written to the file
        packed = segment.row_bytes(number, 1)
        in_place = segment.can_be_row_of(number, row.index) and row.end <= segment.end_position
        head = segment.files.log.read(row.position, HEADER_SIZE) if in_place else b""
        if len(head) == HEADER_SIZE and (row_matches(packed, head) or restore_header(packed, head)):
            return row
        if repair_row(segment, number):
            return segment.row(number)
        if not self._fits_between_neighbours(segment, number, row):
            raise self.corruption_error(segment, row, "both its index row and its header are damaged")
        return row

    def _fits_between_neighbours(self, segment: Segment, number: int, row: Row) -> bool:
        """Return whether the rows before and after a row confirm its term and position."""
        index = segment.base_index + number
        before = self.row_at(Index(index - 1)) if index > self.segments[0].base_index else None
        after = self.row_at(Index(index + 1)) if index < self.last_index else before
        start = before.end if before and number else 0
        end = after.position if after and number + 1 < segment.rows else segment.end_position
        return (
            (row.index, row.position, row.end) == (index, start, end)
            and after is not None
            and (before.term if before else 0) <= row.term <= after.term
        )

    def read_entries(self, first_index: Index, last_index: Index, max_bytes: int) -> list[tuple[Row, memoryview]]:
        """Return the written entries `first_index` to `last_index` with their rows, control batches too.

        All are checked. At least one, even if it is larger than `max_bytes`; perhaps fewer than requested, because
        the result ends with the segment or before a damaged entry. Raises `CorruptBatch` if the first is damaged."""
        assert first_index <= last_index <= self.last_index, f"{first_index} to {last_index} of {self.last_index}"
        return self._retry_until_undisturbed(lambda: self._read_entries(first_index, last_index, max_bytes))

    def _read_entries(self, first_index: Index, last_index: Index, max_bytes: int) -> list[tuple[Row, memoryview]]:
        """Read entries like `read_entries`, once, without a check for changes in other threads."""
        segment = self.segment_of_index(first_index)
        first = segment.number_of(first_index)
        assert first >= 0, f"index {first_index} below {segment.base_index}"
        return self.read_rows(segment, first, max_bytes, last_index - first_index + 1)

    def read_rows(
        self, segment: Segment, first: int, max_bytes: int, rows_max: int = _ROWS_NO_MAX
    ) -> list[tuple[Row, memoryview]]:
        """Read entries of one segment like `read_entries`, from row number `first` on, which exists."""
        packed, rows = self._select_rows(segment, first, max_bytes, _NO_END, rows_max)
        written = segment.written_position
        assert rows, f"no row {first} in segment {segment.base_offset}"
        assert rows[0].end <= written, f"row {first} ends at {rows[0].end}, {written} bytes are written"
        while rows[-1].end > written:
            rows.pop()
        start = rows[0].position
        data = memoryview(segment.files.log.read(start, rows[-1].end - start))
        found: list[tuple[Row, memoryview]] = []
        for at, row in enumerate(rows):
            batch = data[row.position - start : row.end - start]
            reason = self.batch_error(packed[at * ROW_SIZE : (at + 1) * ROW_SIZE], row, batch)
            if reason is None:
                found.append((row, batch))
            elif repair_row(segment, first + at):
                return self.read_rows(segment, first, max_bytes, rows_max)
            elif found:
                break
            else:
                raise self.corruption_error(segment, row, reason)
        return found
