"""Which columns of a data frame make a record; decided when a query is planned, before anything is written.

    value       string or binary, must be there; null is a record without value
    key         string or binary
    headers     array<struct<key: string, value: binary>>
    timestamp   timestamp, or bigint: milliseconds; null: the time at which the write began
    topic       string, unless the option says one for all rows
    partition   int; null: by the key, or by the content of a row without one

`offset`, `timestampType` and `date`, which sources and archives of this package give, are left out; any other column is
refused, so that nothing is dropped in silence. Names are compared as Spark does, in any case.
"""

from collections.abc import Callable
from typing import Final

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
from raftlog.pipeline.sink.columns import Columns

IGNORED: Final = frozenset({"offset", "timestamptype", "date"})
_BYTES: Final = (BinaryType, StringType)


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
