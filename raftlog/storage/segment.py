"""Segment: a `.log` of batches, its `.index` of rows, its `.timeindex`.

A segment holds rows and bytes; the log decides which of them are durable, committed or visible. Batches wait in memory
until `write`, rows until `publish` (a lone log publishes only rows of batches that are durable, so there a row on disk
proves that its batch was synced; for a replica its journal does).

    rows published ≤ rows, written position ≤ end position

Row r of a segment is entry base index + r, except in a *compacted* segment, in which one batch, a gap, may replace
many entries: there rows are found by search. Such a segment is closed and never cut."""

from collections.abc import Iterator
from typing import NamedTuple

from raftlog.records import HEADER_SIZE, BatchHeader, read_header
from raftlog.records.header import MAGIC
from raftlog.storage.changes import Changes
from raftlog.storage.disk import Disk
from raftlog.storage.gap import last_index_of
from raftlog.storage.rows import ROW_SIZE, Row, pack_row, row_matches, unpack_row, unpack_rows
from raftlog.storage.segment_files import SegmentFiles, open_files_for_reading
from raftlog.storage.time_index import ENTRY_SIZE, TimeIndex
from raftlog.types import Buffer

_HINTS_MAX = 64
_READ_BYTES = 1 << 20
_HEADERS_BYTES = 64 * 1024


def open_for_reading(disk: Disk, path: str, base_offset: int) -> "Segment":
    """Open a segment for tools that only read; a missing index file reads as empty."""
    return Segment(base_offset, 0, open_files_for_reading(disk, path, base_offset))


class WaitingRows(NamedTuple):
    """Number of rows in the `.index` file, and the rows that are not in it yet.

    Replaced as one object, because other threads read both."""

    published: int
    rows: list[bytes]


class Segment:
    """Open segment. Only the last segment of a log gets appends."""

    def __init__(self, base_offset: int, base_index: int, files: SegmentFiles) -> None:
        """Wrap the open files of a segment; they are read by the caller."""
        self.base_offset = base_offset
        self.base_index = base_index
        self.files = files
        self.created_ms = 0
        """Creation time in the roll entry."""
        self.compacted_to = -1
        """Offset up to which the segment is compacted, from the roll; above the base offset only in a compacted
        segment."""
        self.missing = 0
        """Number of entries without a row, because a gap replaces them together with another entry."""
        self.end_position = 0
        """Number of bytes appended."""
        self.next_offset = base_offset
        self.rows = 0
        """Number of batches appended."""
        self.times = TimeIndex(files.times, files.times.size() // ENTRY_SIZE)
        self._unwritten: list[Buffer] = []
        self._written_position = 0
        self._waiting = WaitingRows(0, [])
        self.log_changes = Changes()
        """Changes of the `.log` file; the time index counts its own changes."""
        self.index_changes = Changes()
        self._hints: dict[int, int] = {}
        """Row numbers by base offset, for the offsets at which sequential reads are likely to continue."""

    @property
    def next_index(self) -> int:
        return self.base_index + self.rows + self.missing

    @property
    def is_compacted(self) -> bool:
        """Whether the segment was compacted, so that its bytes may differ from those of other replicas."""
        return self.compacted_to > self.base_offset

    @property
    def rows_published(self) -> int:
        """Number of rows in the `.index` file."""
        return self._waiting.published

    @property
    def written_position(self) -> int:
        """Number of bytes written to the `.log` file."""
        return self._written_position

    @property
    def index_bytes(self) -> int:
        return self.rows * ROW_SIZE

    # appending

    def append(self, batch: Buffer, header: BatchHeader, offset: int, term: int) -> None:
        """Append a batch stamped with `offset` and `term`; the next `write` writes it to the file.

        Of `header` only the fields under the CRC are used: it may be from before the stamping."""
        rows, position = self.rows, self.end_position
        index = self.base_index + rows + self.missing
        row = pack_row(index, term, offset, position, header, memoryview(batch)[:HEADER_SIZE])
        self._waiting.rows.append(row)
        self.times.observe(header.max_timestamp, rows, position)
        self._unwritten.append(batch)
        self.rows = rows + 1
        self.end_position = position + len(batch)
        self.next_offset = offset + header.last_offset_delta + 1

    def append_compacted(self, batch: Buffer, header: BatchHeader) -> None:
        """Append a stamped batch of a compacted segment, which may be a gap."""
        index = self.next_index
        self.append(batch, header, header.base_offset, header.leader_epoch)
        self.missing += last_index_of(batch, header, index) - index

    def write(self) -> None:
        """Write waiting batches to the file. After an `OSError` they still wait, and the file's tail is undefined."""
        if self._unwritten:
            self.log_changes.count()
            self.files.log.write(self._written_position, self._unwritten)
            self._unwritten.clear()
            self._written_position = self.end_position

    def publish(self, rows: int) -> None:
        """Write the index rows of the first `rows` batches to the `.index` file, and the time index to its own."""
        published, waiting = self._waiting
        count = rows - published
        if count > 0:
            self.index_changes.count()
            self.files.index.write(published * ROW_SIZE, [b"".join(waiting[:count])])
            self._waiting = WaitingRows(rows, waiting[count:])
        self.times.write(self.rows_published)

    def adopt(self, *, rows: int, end_position: int, next_offset: int, next_index: int | None = None) -> None:
        """Continue with the rows and bytes that recovery found; `next_index` is needed if they include gaps."""
        self.rows = rows
        self.missing = 0 if next_index is None else next_index - self.base_index - rows
        self._waiting = WaitingRows(rows, [])
        self.end_position = self._written_position = end_position
        self.next_offset = next_offset
        self._unwritten.clear()
        self._hints = {}

    def adopt_scanned(self, batch: Buffer, header: BatchHeader) -> None:
        """Add a batch that recovery found in the file at the end position; its row is not published yet."""
        if self.is_compacted:
            self.append_compacted(batch, header)
        else:
            self.append(batch, header, header.base_offset, header.leader_epoch)
        self._unwritten.clear()
        self._written_position = self.end_position

    def adopt_by_row(self, row_bytes: bytes, next_offset: int) -> None:
        """Add a batch in the file at the position in its row, damaged or not; the row is not published yet."""
        self._waiting.rows.append(row_bytes)
        self.rows += 1
        self.end_position = self._written_position = unpack_row(row_bytes).end
        self.next_offset = next_offset

    # looking up

    def number_of(self, index: int) -> int:
        """Return the number of the row of entry `index`, or of the gap that includes it."""
        if not self.missing:
            return index - self.base_index
        low, high = 0, self.rows
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.row(middle).index <= index else (low, middle)
        return low

    def index_of(self, number: int) -> int:
        """Return the index of the first entry of row `number`; it is read from the row if the segment has gaps."""
        return self.row(number).index if self.missing else self.base_index + number

    def can_be_row_of(self, number: int, index: int) -> bool:
        """Return whether row `number` can be the row of entry `index`."""
        return 0 <= index - self.base_index - number <= self.missing

    def row(self, number: int) -> Row:
        """Return row `number`, from the file or from the waiting rows."""
        return unpack_row(self.row_bytes(number, 1))

    def row_bytes(self, first: int, count: int) -> bytes:
        """Return at most `count` encoded rows from `first` on, from the file or the waiting rows; none at the end."""
        published, waiting = self._waiting
        if first >= published:
            return b"".join(waiting[first - published : first - published + count])
        return self.files.index.read(first * ROW_SIZE, min(count, published - first) * ROW_SIZE)

    def find_row(self, offset: int) -> int:
        """Return the number of the last row with a base offset of at most `offset`.

        Control rows before it have the same offset."""
        hint = self._hints.get(offset)
        if hint is not None and hint < self.rows:
            return hint
        low, high = 0, self.rows
        while high - low > 1:
            middle = (low + high) // 2
            if self.row(middle).offset <= offset:
                low = middle
            else:
                high = middle
        return low

    def add_hint(self, offset: int, row: int) -> None:
        """Remember the row number of a base offset, at which a sequential read is likely to continue."""
        if len(self._hints) >= _HINTS_MAX:
            self._hints = {}
        self._hints[offset] = row

    def cut_index(self, rows: int) -> Row:
        """Remove the index rows from `rows` on from the file; return the first of them.

        The caller syncs, then calls `cut_log` with that row."""
        first = self.row(rows)
        self.index_changes.count()
        self.files.index.truncate(min(rows, self.rows_published) * ROW_SIZE)
        return first

    def cut_log(self, rows: int, first: Row) -> None:
        """Remove the batches whose rows `cut_index` removed."""
        published, waiting = self._waiting
        self.log_changes.count()
        self.files.log.truncate(first.position)
        self.adopt(rows=rows, end_position=first.position, next_offset=first.offset)
        if published < rows:  # on a full disk rows wait longer than their batches
            self._waiting = WaitingRows(published, waiting[: rows - published])
        self.rebuild_times()

    def roll_back(self, rows: int) -> None:
        """Remove the unpublished rows after the first `rows`, with their batches; the caller syncs the `.log`."""
        published, waiting = self._waiting
        assert published <= rows <= self.rows, f"{published} rows published, {self.rows} appended: cannot keep {rows}"
        self._unwritten.clear()
        if rows < self.rows:
            first = self.row(rows)
            self._waiting = WaitingRows(published, waiting[: rows - published])
            self.times.drop_from(rows)
            self.rows, self.end_position, self.next_offset = rows, first.position, first.offset
        self._written_position = self.end_position
        self.log_changes.count()
        self.files.log.truncate(self.end_position)

    def cut_to(self, rows: int, first: Row) -> None:
        """Remove the rows after the first `rows`, at least one, with their batches, written or not; nothing is synced.

        `first` is the first removed row, which was checked: the file ends at its position."""
        assert 0 < rows < self.rows, f"keep {rows} of {self.rows} rows"
        published, waiting = self._waiting
        if self.files.index.size() > rows * ROW_SIZE:  # recovery leaves old rows where new ones wait to be written
            self.index_changes.count()
            self.files.index.truncate(rows * ROW_SIZE)
        self._waiting = WaitingRows(min(published, rows), waiting[: max(0, rows - published)])
        self.log_changes.count()
        self.files.log.truncate(min(first.position, self._written_position))
        self._unwritten = self._list_unwritten_below(first.position)
        self._written_position = min(first.position, self._written_position)
        self.rows, self.end_position, self.next_offset = rows, first.position, first.offset
        self._hints = {}
        self.keep_times()

    def _list_unwritten_below(self, position: int) -> list[Buffer]:
        """Return the unwritten batches that begin below `position`."""
        kept, end = [], self._written_position
        for batch in self._unwritten:
            if end >= position:
                break
            kept.append(batch)
            end += len(batch)
        return kept

    def remove_unwritten(self) -> list[Buffer]:
        """Remove and return the batches that were not written; the file is not changed."""
        batches, self._unwritten = self._unwritten, []
        if batches:
            rows = self.rows - len(batches)
            published, waiting = self._waiting
            self._waiting = WaitingRows(published, waiting[: rows - published])
            self.times.drop_from(rows)
            self.rows, self.end_position = rows, self._written_position
            self.next_offset = read_header(batches[0]).base_offset
        return batches

    def write_again(self, number: int, batch: Buffer) -> None:
        """Rewrite batch `number` at the position in its row, because the bytes in the file are damaged."""
        row = self.row(number)
        assert len(batch) == row.length, f"{len(batch)} bytes in place of {row.length}"
        self.log_changes.count()
        self.files.log.write(row.position, [batch])
        if not self.times.covers(read_header(batch).max_timestamp, number):
            self.rebuild_times()

    def replace_row(self, number: int, packed: bytes) -> None:
        """Replace the damaged row `number`, in the file or among the waiting rows."""
        published, waiting = self._waiting
        if number >= published:
            waiting[number - published] = packed
            return
        self.index_changes.count()
        self.files.index.write(number * ROW_SIZE, [packed])

    # times

    def rebuild_times(self) -> None:
        """Rebuild the time index from the headers of all written batches; damaged ones are skipped."""
        self.times.restart()
        position = 0
        for number, row, header in self._walk_headers(0):
            position = row.position if header else position
            found = header or self._read_plausible_header(position)  # a damaged row: the chain of lengths continues
            if found:
                self.times.observe(found.max_timestamp, number, position)
            position += found.size if found else row.length

    def keep_times(self) -> None:
        """Keep the time index for existing rows, and rebuild its later entries from the headers."""
        last = self.times.keep_rows(self.rows)
        for number, row, header in self._walk_headers(last + 1):
            if header is None:
                self.rebuild_times()
                break
            self.times.observe(header.max_timestamp, number, row.position)
        number = self.rows - len(self._unwritten)
        position = self._written_position
        for batch in self._unwritten:
            if number > last:
                self.times.observe(read_header(batch).max_timestamp, number, position)
            number, position = number + 1, position + len(batch)

    def _walk_headers(self, first: int) -> Iterator[tuple[int, Row, BatchHeader | None]]:
        """Yield rows of written batches from `first` on, each with its batch's header if the two match."""
        start, window = 0, memoryview(b"")
        number = first
        while packed := self.row_bytes(number, _READ_BYTES // ROW_SIZE):
            for at, row in enumerate(unpack_rows(packed)):
                if number + at >= self.rows - len(self._unwritten):
                    return
                if row.end > self._written_position:
                    yield number + at, row, None
                    continue
                if not start <= row.position <= start + len(window) - HEADER_SIZE:
                    start, window = row.position, memoryview(self.files.log.read(row.position, _HEADERS_BYTES))
                head = window[row.position - start :][:HEADER_SIZE]
                fits = len(head) == HEADER_SIZE and row_matches(packed[at * ROW_SIZE : (at + 1) * ROW_SIZE], head)
                yield number + at, row, read_header(head) if fits else None
            number += len(packed) // ROW_SIZE

    def _read_plausible_header(self, position: int) -> BatchHeader | None:
        """Return the header at `position`; None if its magic or length is impossible."""
        head = self.files.log.read(position, HEADER_SIZE)
        header = read_header(head) if len(head) == HEADER_SIZE else None
        return header if header and header.magic == MAGIC and header.size >= HEADER_SIZE else None

    def close(self) -> None:
        for file in self.files:
            file.close()
