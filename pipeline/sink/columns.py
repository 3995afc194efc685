"""Which columns of a data frame make a record, and their values as lists.

    value       string or binary, must be there; null is a record without value
    key         string or binary
    headers     array<struct<key: string, value: binary>>
    timestamp   timestamp, or long: milliseconds; null: the time at which the write began
    topic       string, unless the option says one for all rows
    partition   int; null: by the key, or by the content of a row without one

`offset`, `timestampType` and `date`, which sources and archives of this package give, are left out; any other column is
refused when the query is planned, so that nothing is dropped in silence. Names are compared as Spark does, in any case.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from raftlog.errors import InvalidArgument
from raftlog.pipeline.sink.rows import NO_TIME, Headers, Rows

IGNORED: Final = frozenset({"offset", "timestamptype", "date"})
SLICE_ROWS_MAX: Final = 8_192
SLICE_BYTES_MAX: Final = 4 << 20
_BYTES: Final = (BinaryType, StringType)


class Slice(NamedTuple):
    """Some rows in order. `topics` and `partitions` are None where there is no such column."""

    rows: Rows
    topics: list[str | None] | None = None
    partitions: list[int | None] | None = None

    def between(self, first: int, end: int) -> "Slice":
        return Slice(
            self.rows.between(first, end),
            None if self.topics is None else self.topics[first:end],
            None if self.partitions is None else self.partitions[first:end],
        )

    def picked(self, numbers: list[int]) -> "Slice":
        """The rows of these numbers, without their topics."""
        partitions = None if self.partitions is None else [self.partitions[number] for number in numbers]
        return Slice(self.rows.picked(numbers), None, partitions)


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each column stands; None where there is none."""

    value: int
    key: int | None = None
    headers: int | None = None
    timestamp: int | None = None
    topic: int | None = None
    partition: int | None = None

    def slices(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        """The rows of an Arrow batch, a bounded number at a time. Raises `InvalidArgument`."""
        size = max(1, batch.nbytes // max(1, batch.num_rows))
        count = max(1, min(SLICE_ROWS_MAX, SLICE_BYTES_MAX // size))
        for start in range(0, batch.num_rows, count):
            yield self._slice(batch.slice(start, count))

    def _slice(self, batch: pa.RecordBatch) -> Slice:
        count = batch.num_rows
        rows = Rows(
            [NO_TIME] * count if self.timestamp is None else _milliseconds(batch.column(self.timestamp)),
            [None] * count if self.key is None else _bytes(batch.column(self.key)),
            _bytes(batch.column(self.value)),
            [[]] * count if self.headers is None else _headers(batch.column(self.headers)),
        )
        return Slice(
            rows,
            None if self.topic is None else batch.column(self.topic).to_pylist(),
            None if self.partition is None else batch.column(self.partition).to_pylist(),
        )


def columns_of(schema: StructType, topic: str | None) -> Columns:
    """Raises `InvalidArgument` for a column that no record has, or of another type. `topic` is the option."""
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        name = field.name.lower()
        if name in IGNORED:
            continue
        if name not in _ALLOWED or name in found:
            raise InvalidArgument(
                f"the column {field.name} cannot be written, or stands there twice; records are made of the columns "
                f"{', '.join(_ALLOWED)}, and offset, timestampType and date are left out: select these"
            )
        is_fitting, wanted = _ALLOWED[name]
        if not is_fitting(field.dataType):
            raise InvalidArgument(
                f"the column {field.name} has the type {field.dataType.simpleString()}; it can be {wanted}: cast it"
            )
        found[name] = number
    if "value" not in found:
        raise InvalidArgument("there is no column value, which is what is written; select one (string or binary)")
    if topic is None and "topic" not in found:
        raise InvalidArgument("nothing says where to write: give the option topic, or a column topic")
    if topic is not None:
        found.pop("topic", None)
    return Columns(**found)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


_ALLOWED: Final[dict[str, tuple[Callable[[DataType], bool], str]]] = {
    "value": (lambda kind: isinstance(kind, _BYTES), "string or binary"),
    "key": (lambda kind: isinstance(kind, _BYTES), "string or binary"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
    "timestamp": (
        lambda kind: isinstance(kind, TimestampType | LongType),
        "timestamp, or bigint (milliseconds)",
    ),
    "topic": (lambda kind: isinstance(kind, StringType), "string"),
    "partition": (lambda kind: isinstance(kind, IntegerType), "int"),
}


def _bytes(column: pa.Array) -> list[bytes | None]:
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def _milliseconds(column: pa.Array) -> list[int]:
    if pa.types.is_timestamp(column.type):
        # Towards the past, so that a moment before 1970 is not taken for one after.
        floor = pc.floor_temporal(column, 1, unit="millisecond")
        column = floor.cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.int64())
    earliest = pc.min(column).as_py()
    if earliest is not None and earliest < 0:
        raise InvalidArgument(f"a row has the timestamp {earliest} ms, before 1970, which a record cannot have")
    times: list[int] = column.fill_null(NO_TIME).to_pylist()
    return times


def _headers(column: pa.Array) -> list[Headers]:
    if column.null_count == len(column):
        return [[]] * len(column)
    rows: list[list[dict[str, Any]] | None] = column.to_pylist()
    found = [[(header["key"], header["value"]) for header in headers] if headers else [] for headers in rows]
    if any(name is None for headers in found for name, _ in headers):
        raise InvalidArgument("a header has no key (null); every header of a record has a name")
    return found
