"""One segment: a `.log` of batches, its `.index` of rows, its `.timeindex`.

A segment knows rows and bytes; which of them are durable, committed or visible is the log's business. Batches wait in
memory until `write`, rows until `publish` (the log publishes rows only of batches that are durable, so a row on disk
proves that its batch was synced).

    rows published ≤ rows, written position ≤ end position
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from raftlog.records import HEADER_SIZE, BatchHeader, read_header
from raftlog.storage.disk import Disk, File
from raftlog.storage.rows import ROW_SIZE, Row, pack_row, unpack_row, unpack_rows
from raftlog.storage.time_index import ENTRY_SIZE, TimeIndex
from raftlog.types import Buffer

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_HINTS_MAX = 64
_READ_BYTES = 1 << 20


def segment_stem(base_offset: int) -> str:
    """File name without suffix: the base offset in twenty digits."""
    return f"{base_offset:020d}"


class SegmentFiles(NamedTuple):
    """The three open files of a segment."""

    log: File
    index: File  # type: ignore[assignment]  # the file is called so; tuple.index is never wanted here
    times: File


def open_segment_files(disk: Disk, path: str, base_offset: int) -> SegmentFiles:
    """Open the files of one segment; index files that are missing are made empty."""

    def open_one(name: str) -> File:
        return disk.open(name, create=not name.endswith(LOG_SUFFIX) and not disk.exists(name))

    return _open_three(f"{path}/{segment_stem(base_offset)}", open_one)


def open_for_reading(disk: Disk, path: str, base_offset: int) -> "Segment":
    """A segment for tools that change nothing; an index file that is missing reads as empty."""

    def open_one(name: str) -> File:
        if name.endswith(LOG_SUFFIX) or disk.exists(name):
            return disk.open(name, read_only=True)
        return MissingFile(name)

    return Segment(base_offset, 0, _open_three(f"{path}/{segment_stem(base_offset)}", open_one))


def _open_three(stem: str, open_one: Callable[[str], File]) -> SegmentFiles:
    """All three or none: what was opened before an error is closed."""
    files: list[File] = []
    try:
        for suffix in SUFFIXES:
            files.append(open_one(stem + suffix))
    except OSError:
        for file in files:
            file.close()
        raise
    return SegmentFiles(*files)


class MissingFile:
    """Stands for an index file that is not there."""

    def __init__(self, path: str) -> None:
        self.path = path

    def size(self) -> int:
        return 0

    def read(self, position: int, length: int) -> bytes:
        return b""

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        raise FileNotFoundError(errno.ENOENT, "the file is missing", self.path)

    def truncate(self, size: int) -> None:
        raise FileNotFoundError(errno.ENOENT, "the file is missing", self.path)

    def close(self) -> None:
        """Nothing is open."""


def create_segment_files(disk: Disk, path: str, base_offset: int) -> SegmentFiles:
    """Make the files of a new segment; left-over index files of a log that is gone are replaced."""
    stem = f"{path}/{segment_stem(base_offset)}"
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        if disk.exists(stem + suffix):
            disk.unlink(stem + suffix)
    files: list[File] = []
    try:
        for suffix in SUFFIXES:
            files.append(disk.open(stem + suffix, create=True))
    except OSError:
        for file in files:
            file.close()
            disk.unlink(file.path)
        raise
    return SegmentFiles(*files)


class WaitingRows(NamedTuple):
    """Rows in the `.index` file are counted, those behind them held. Replaced as one, so that readers see a whole."""

    published: int
    rows: list[bytes]


class Segment:
    """An open segment. The last one of a log takes appends, the others only reads."""

    def __init__(self, base_offset: int, base_index: int, files: SegmentFiles) -> None:
        self.base_offset = base_offset
        self.base_index = base_index
        self.files = files
        self.created_ms = 0
        """Creation time in the roll entry."""
        self.end_position = 0
        """Bytes appended."""
        self.next_offset = base_offset
        self.rows = 0
        """Batches appended."""
        self.times = TimeIndex(files.times, files.times.size() // ENTRY_SIZE)
        self._unwritten: list[Buffer] = []
        self._written_position = 0
        self._waiting = WaitingRows(0, [])
        self._hints: dict[int, int] = {}
        """Row numbers by base offset, of places where the next sequential read is likely to begin."""

    @property
    def next_index(self) -> int:
        return self.base_index + self.rows

    @property
    def rows_published(self) -> int:
        """Rows in the `.index` file."""
        return self._waiting.published

    @property
    def index_bytes(self) -> int:
        return self.rows * ROW_SIZE

    # appending

    def append(self, batch: Buffer, header: BatchHeader, offset: int, term: int) -> None:
        """Take a batch stamped with `offset` and `term`; it reaches the file with the next `write`.

        Of `header` only the fields under the CRC are used: it may be from before the stamping.
        """
        rows, position = self.rows, self.end_position
        row = pack_row(self.base_index + rows, term, offset, position, header, memoryview(batch)[:HEADER_SIZE])
        self._waiting.rows.append(row)
        self.times.observe(header.max_timestamp, rows, position)
        self._unwritten.append(batch)
        self.rows = rows + 1
        self.end_position = position + len(batch)
        self.next_offset = offset + header.last_offset_delta + 1

    def write(self) -> None:
        """Bring waiting batches to the file. After an `OSError` they still wait and the file's tail is undefined."""
        if self._unwritten:
            self.files.log.write(self._written_position, self._unwritten)
            self._unwritten.clear()
            self._written_position = self.end_position

    def publish(self, rows: int) -> None:
        """Bring the index rows of the first `rows` batches to the file."""
        published, waiting = self._waiting
        count = rows - published
        if count > 0:
            self.files.index.write(published * ROW_SIZE, [b"".join(waiting[:count])])
            self._waiting = WaitingRows(rows, waiting[count:])
        self.times.write(self.rows_published)

    def adopt(self, *, rows: int, end_position: int, next_offset: int) -> None:
        """Take over what recovery found: that many published rows and bytes."""
        self.rows = rows
        self._waiting = WaitingRows(rows, [])
        self.end_position = self._written_position = end_position
        self.next_offset = next_offset
        self._unwritten.clear()
        self._hints = {}

    def adopt_scanned(self, batch: Buffer, header: BatchHeader) -> None:
        """Take over a batch that recovery found in the file at the end position; its row is yet to be published."""
        self.append(batch, header, header.base_offset, header.leader_epoch)
        self._unwritten.clear()
        self._written_position = self.end_position

    def adopt_damaged(self, row_bytes: bytes, next_offset: int) -> None:
        """Take over a batch that recovery could not read, by the index row that says where it stands."""
        self._waiting.rows.append(row_bytes)
        self.rows += 1
        self.end_position = self._written_position = unpack_row(row_bytes).end
        self.next_offset = next_offset

    # looking up

    def row(self, number: int) -> Row:
        """Row `number`, from the file or from those that wait."""
        return unpack_row(self.row_bytes(number, 1))

    def row_bytes(self, first: int, count: int) -> bytes:
        """At most `count` rows from `first` on, as they stand in the file or wait for it; none at the end."""
        published, waiting = self._waiting
        if first >= published:
            return b"".join(waiting[first - published : first - published + count])
        return self.files.index.read(first * ROW_SIZE, min(count, published - first) * ROW_SIZE)

    def find_row(self, offset: int) -> int:
        """Number of the last row whose base offset is at most `offset` (control rows before it share its offset)."""
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

    def note_hint(self, offset: int, row: int) -> None:
        """A read ended before `offset`, which is the base offset of row `row`."""
        if len(self._hints) >= _HINTS_MAX:
            self._hints = {}
        self._hints[offset] = row

    def rows_from(self, number: int) -> Iterator[tuple[int, Row]]:
        """Rows from `number` on, with their numbers."""
        while packed := self.row_bytes(number, _READ_BYTES // ROW_SIZE):
            for row in unpack_rows(packed):
                yield number, row
                number += 1

    def header(self, row: Row) -> BatchHeader:
        """The header that the file holds where `row` points; raises `struct.error` beyond the end of the file."""
        return read_header(self.files.log.read(row.position, HEADER_SIZE))

    def cut_index(self, rows: int) -> Row:
        """Drop the index rows from `rows` on and return the first of them; `cut_log` follows once that is synced."""
        first = self.row(rows)
        self.files.index.truncate(min(rows, self.rows_published) * ROW_SIZE)
        return first

    def cut_log(self, rows: int, first: Row) -> None:
        """Drop the batches whose rows `cut_index` dropped."""
        published, waiting = self._waiting
        self.files.log.truncate(first.position)
        self.adopt(rows=rows, end_position=first.position, next_offset=first.offset)
        if published < rows:  # on a full disk rows wait longer than their batches
            self._waiting = WaitingRows(published, waiting[: rows - published])
        self.rebuild_times()

    def take_back(self, rows: int) -> None:
        """Keep the first `rows` rows, of which all published ones are; the caller syncs the `.log`."""
        published, waiting = self._waiting
        assert published <= rows <= self.rows, f"{published} rows published, {self.rows} appended: cannot keep {rows}"
        self._unwritten.clear()
        if rows < self.rows:
            first = self.row(rows)
            self._waiting = WaitingRows(published, waiting[: rows - published])
            self.times.drop_from(rows)
            self.rows, self.end_position, self.next_offset = rows, first.position, first.offset
        self._written_position = self.end_position
        self.files.log.truncate(self.end_position)

    # times

    def rebuild_times(self) -> None:
        """Build the time index again from the headers of all published batches; damaged ones count for nothing."""
        self.times.restart()
        for number, row in self.rows_from(0):
            if row.index == self.base_index + number and row.end <= self.end_position:
                self.times.observe(self.header(row).max_timestamp, number, row.position)

    def close(self) -> None:
        for file in self.files:
            file.close()
