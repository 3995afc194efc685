"""Rows as Parquet files sorted by offset: written by day, and read in order.

Called in tasks of `archive`, `compaction` and `replays`. Files have the columns of `FILE_SCHEMA`; topic, partition
and day are in their paths. Memory is bounded, whatever days the timestamps have: rows of a day wait until a row group
is full, all waiting rows have at most `WAITING_BYTES_MAX` bytes, and at most `OPEN_FILES_MAX` files are open. If the
file of a day was closed because of this limit, further rows of the day go to another file."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raftlog.errors import StorageError
from raftlog.pipeline.archives.files import Files
from raftlog.pipeline.archives.manifest import DAYS_MAX, ArchivedFile, StagedFile, day_of
from raftlog.pipeline.errors import ArchiveDamaged
from raftlog.pipeline.rows import ARROW_SCHEMA
from raftlog.types import TopicPartition

FILE_SCHEMA: Final = pa.schema([field for field in ARROW_SCHEMA if field.name not in ("topic", "partition")])
COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")
ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
FILE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of rows before compression, after which the next file begins."""
OPEN_FILES_MAX: Final = 64
READ_ROWS: Final = 20_000
"""Rows that are read at a time, divided among the files that are read together."""
READ_ROWS_MIN: Final = 256
_NO_ROWS: Final = pa.RecordBatch.from_pylist([], schema=FILE_SCHEMA)


class DayFiles:
    """Writer of the rows of one topic-partition, sorted by offset, to one staged file per day."""

    def __init__(
        self,
        files: Files,
        staging: str,
        place: TopicPartition,
        compression: str,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        """Write the rows of one partition into Parquet files in the directory `staging`, one file for each day.

        A file of `file_bytes_max` bytes is followed by another of the same day."""
        self._files, self._staging, self._place, self._compression = files, staging, place, compression
        self._file_bytes_max = file_bytes_max
        self._open: dict[str, _DayFile] = {}  # the one that was written last is last
        self._done: list[StagedFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows with at least the columns of `FILE_SCHEMA`. Raises `StorageError` if the file system fails."""
        with self._errors_with_directory():
            self._write(rows)

    def _write(self, rows: pa.RecordBatch) -> None:
        """Add rows to the files of their days; finish large files, and write row groups above `WAITING_BYTES_MAX`."""
        for day, part in _split_by_day(rows.select(FILE_SCHEMA.names)):
            file = self._open.pop(day, None) or _DayFile(
                self._files, self._staging, self._place, day, self._compression
            )
            self._open[day] = file
            file.add_rows(part)
            if file.size >= self._file_bytes_max:
                self._finish(day)
        while len(self._open) > OPEN_FILES_MAX:
            self._finish(next(iter(self._open)))
        while sum(file.waiting_bytes for file in self._open.values()) > WAITING_BYTES_MAX:
            max(self._open.values(), key=attrgetter("waiting_bytes")).write_row_group()

    def finish(self) -> list[StagedFile]:
        """Close and sync all files, and return them. Raises `StorageError`."""
        with self._errors_with_directory():
            while self._open:
                self._finish(next(iter(self._open)))
        return self._done

    @contextmanager
    def _errors_with_directory(self) -> Iterator[None]:
        """Convert errors of Arrow, which name no file, to `StorageError` with the directory."""
        try:
            yield
        except OSError as error:
            topic, partition = self._place
            raise StorageError(
                f"{self._files.uri}: files of {topic}/{partition} cannot be written in {self._staging}: {error}"
            ) from error

    def _finish(self, day: str) -> None:
        """Close the file of a day, and add it to the result of `finish`."""
        self._done.append(self._open.pop(day).finish())


class _DayFile:
    """Open file of one day, and the rows that wait for its next row group."""

    def __init__(self, files: Files, staging: str, place: TopicPartition, day: str, compression: str) -> None:
        """Create a Parquet file with a unique name in the directory `staging`."""
        self._files, self._place, self._day = files, place, day
        self._name = f"{staging}/{uuid.uuid4()}.parquet"  # attempts of a task never meet
        self._sink = files.open_output(self._name)
        self._writer = pq.ParquetWriter(
            self._sink,
            FILE_SCHEMA,
            compression=compression,
            use_dictionary=["timestampType", "key"],
            write_statistics=["offset", "timestamp"],
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.waiting_bytes = 0
        self.size = 0
        self._first = -1
        self._last = -1
        self._rows = 0

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Add rows with offsets above all earlier ones; write a row group when enough rows are waiting."""
        offsets = rows.column("offset")
        first, last = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
        assert self._last < first <= last, f"{self._place}: offsets {first} to {last} come after {self._last}"
        self._first = first if self._rows == 0 else self._first
        self._last = last
        self._rows += rows.num_rows
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        self.size += rows.nbytes
        if self._waiting_rows >= ROW_GROUP_ROWS or self.waiting_bytes >= ROW_GROUP_BYTES:
            self.write_row_group()

    def write_row_group(self) -> None:
        """Write the waiting rows as one row group."""
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, FILE_SCHEMA), self._waiting_rows)
        self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0

    def finish(self) -> StagedFile:
        """Close and sync the file, and return its description."""
        self.write_row_group()
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        self._files.sync([self._name])
        file = ArchivedFile(*self._place, self._day, self._first, self._last, self._rows, size)
        return StagedFile(self._name, file)


def _split_by_day(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each day in UTC, sorted by offset."""
    if not rows.num_rows:
        return
    days = rows.column("timestamp").cast(pa.date32()).cast(pa.int32())
    bounds = pc.min_max(days).as_py()
    if bounds["max"] is not None and bounds["max"] > DAYS_MAX:
        days = pc.if_else(pc.less_equal(days, DAYS_MAX), days, pa.scalar(None, pa.int32()))
        bounds = pc.min_max(days).as_py()
    if bounds["min"] == bounds["max"] and days.null_count in (0, len(days)):
        yield day_of(bounds["min"]), rows
        return
    order = pc.sort_indices(days)  # stable; nulls last
    rows = rows.take(order)
    runs = pc.run_end_encode(days.take(order))
    start = 0
    for day, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield day_of(day), rows.slice(start, end - start)
        start = end


def read_in_order(files: Files, archived: Sequence[ArchivedFile], start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files of one topic-partition with `start ≤ offset < end`, sorted by offset.

    The rows have the columns of `FILE_SCHEMA`. Files may overlap. Raises `ArchiveDamaged` if a file was changed."""
    wanted = [file for file in archived if file.first < end and file.last >= start]
    waiting = sorted(wanted, key=attrgetter("first"), reverse=True)
    heads: list[RowsByOffset] = []
    while heads or waiting:
        while waiting and (not heads or waiting[-1].first <= min(head.last for head in heads)):
            batch_rows = max(READ_ROWS_MIN, READ_ROWS // (len(heads) + 1))
            head = RowsByOffset(_rows_of_file(files, waiting.pop(), start, end, batch_rows))
            if not head.has_ended:
                heads.append(head)
        if heads:
            limit = min(head.last for head in heads)
            yield from _merge([rows for head in heads for rows in head.take_up_to(limit)])
            heads = [head for head in heads if not head.has_ended]


class RowsByOffset:
    """Reader of rows sorted by offset, from which rows are taken up to given offsets.

    `batches` are not empty. `last` is the offset of the last row of the present batch."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Read the first of the batches, which are ordered by offset."""
        self._batches = batches
        self._rows: pa.RecordBatch = _NO_ROWS
        self.has_ended = False
        self.last = -1
        self._advance()

    def take_up_to(self, limit: int) -> list[pa.RecordBatch]:
        """Return the next rows with `offset ≤ limit`; read no more batches than necessary."""
        taken = []
        while not self.has_ended and (count := _count_below(self._rows, limit + 1)):
            taken.append(self._rows.slice(0, count))
            self._rows = self._rows.slice(count)
            if self._rows.num_rows:
                break
            self._advance()
        return taken

    def _advance(self) -> None:
        """Read the next batch, or set `has_ended`."""
        rows = next(self._batches, None)
        if rows is None:
            self.has_ended = True
        else:
            self._rows, self.last = rows, rows.column("offset")[rows.num_rows - 1].as_py()


def _merge(parts: Sequence[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Return the rows of several batches, sorted by offset."""
    if len(parts) < 2:
        return parts
    merged: list[pa.RecordBatch] = pa.Table.from_batches(parts).sort_by("offset").combine_chunks().to_batches()
    return merged


def _rows_of_file(
    files: Files, archived: ArchivedFile, start: int, end: int, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with `start ≤ offset < end`, in non-empty batches."""
    try:
        with files.open_input(archived.path) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            _check_content(file, archived)
            groups = [group for group in range(file.num_row_groups) if _may_contain(file, group, start, end)]
            for rows in file.iter_batches(batch_rows, row_groups=groups, use_threads=False):
                below, inside = _count_below(rows, start), _count_below(rows, end)
                if inside > below:
                    yield rows.slice(below, inside - below)
    except (pa.ArrowException, OSError, _WrongContent) as error:
        raise ArchiveDamaged(f"{files.uri}/{archived.path} cannot be read as it was archived: {error}") from error


class _WrongContent(Exception):
    """The Parquet file is not the one that was written."""


def _check_content(file: pq.ParquetFile, archived: ArchivedFile) -> None:
    """Raise `_WrongContent` if columns or number of rows are not those that were archived."""
    if not file.schema_arrow.equals(FILE_SCHEMA):
        raise _WrongContent(f"its columns are {', '.join(file.schema_arrow.names)}, or of other types")
    if file.metadata.num_rows != archived.rows:
        raise _WrongContent(f"it has {file.metadata.num_rows} rows instead of {archived.rows}")


def _may_contain(file: pq.ParquetFile, group: int, start: int, end: int) -> bool:
    """Return whether a row group may have rows with `start ≤ offset < end`, by its statistics."""
    offsets = file.metadata.row_group(group).column(0).statistics
    return offsets is None or bool(offsets.min < end and offsets.max >= start)


def _count_below(rows: pa.RecordBatch, offset: int) -> int:
    """Return the number of rows below an offset; the rows are sorted by offset."""
    return pc.sum(pc.less(rows.column("offset"), offset)).as_py() or 0
