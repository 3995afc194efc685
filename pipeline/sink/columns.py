"""Converter of Arrow batches to one list for each field of the records, a bounded number of rows at a time.

Called by the task that writes; `schema` has the columns that are allowed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.errors import InvalidArgument
from raftlog.pipeline.sink.rows import NO_TIME, Headers, Rows

SLICE_ROWS_MAX: Final = 8_192
SLICE_BYTES_MAX: Final = 4 << 20


class Slice(NamedTuple):
    """Columns of consecutive rows; `topics` and `partitions` are None if there is no such column."""

    rows: Rows
    topics: list[str | None] | None = None
    partitions: list[int | None] | None = None

    def slice(self, first: int, end: int) -> "Slice":
        """Return the rows with numbers `[first, end)`."""
        return Slice(
            self.rows.slice(first, end),
            None if self.topics is None else self.topics[first:end],
            None if self.partitions is None else self.partitions[first:end],
        )

    def select(self, numbers: list[int]) -> "Slice":
        """Return the rows with these numbers; the result has no topics."""
        partitions = None if self.partitions is None else [self.partitions[number] for number in numbers]
        return Slice(self.rows.select(numbers), None, partitions)


@dataclass(frozen=True, slots=True)
class Columns:
    """Position of each column in a batch; None for an absent column."""

    value: int
    key: int | None = None
    headers: int | None = None
    timestamp: int | None = None
    topic: int | None = None
    partition: int | None = None

    def slices(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        """Yield the rows of an Arrow batch, a bounded number at a time. Raises `InvalidArgument`."""
        size = max(1, batch.nbytes // max(1, batch.num_rows))
        count = max(1, min(SLICE_ROWS_MAX, SLICE_BYTES_MAX // size))
        for start in range(0, batch.num_rows, count):
            yield self._slice(batch.slice(start, count))

    def _slice(self, batch: pa.RecordBatch) -> Slice:
        """Return the rows of a part of an Arrow batch. Raises `InvalidArgument`."""
        count = batch.num_rows
        rows = Rows(
            [NO_TIME] * count if self.timestamp is None else _read_milliseconds(batch.column(self.timestamp)),
            [None] * count if self.key is None else _read_bytes(batch.column(self.key)),
            _read_bytes(batch.column(self.value)),
            [[]] * count if self.headers is None else _read_headers(batch.column(self.headers)),
        )
        return Slice(
            rows,
            None if self.topic is None else batch.column(self.topic).to_pylist(),
            None if self.partition is None else batch.column(self.partition).to_pylist(),
        )


def _read_bytes(column: pa.Array) -> list[bytes | None]:
    """Return the values of a column of strings or binaries; strings in UTF-8."""
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def _read_milliseconds(column: pa.Array) -> list[int]:
    """Return timestamps in milliseconds, `NO_TIME` for null. Raises `InvalidArgument` below 0."""
    if pa.types.is_timestamp(column.type):
        # Towards the past, so that a moment before 1970 is not taken for one after.
        floor = pc.floor_temporal(column, 1, unit="millisecond")
        column = floor.cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.int64())
    earliest = pc.min(column).as_py()
    if earliest is not None and earliest < 0:
        raise InvalidArgument(f"a row has the timestamp {earliest} ms, before 1970, which a record cannot have")
    times: list[int] = column.fill_null(NO_TIME).to_pylist()
    return times


def _read_headers(column: pa.Array) -> list[Headers]:
    """Return the headers of each row; empty for null. Raises `InvalidArgument` for a header without a key."""
    if column.null_count == len(column):
        return [[]] * len(column)
    rows: list[list[dict[str, Any]] | None] = column.to_pylist()
    found = [[(header["key"], header["value"]) for header in headers] if headers else [] for headers in rows]
    if any(name is None for headers in found for name, _ in headers):
        raise InvalidArgument("a header has no key (null); every header of a record has a name")
    return found
