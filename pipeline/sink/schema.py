"""Mapping of a data frame's columns to the fields of records, when a query is planned.

    value       string or binary, required; null is a tombstone
    key         string or binary
    headers     array<struct<key: string, value: binary>>
    timestamp   timestamp, or bigint: milliseconds; null: the time at which the write began
    topic       string, unless the option names one for all rows
    partition   int; null: by the key, or by the content of a row without one

`offset`, `timestampType` and `date`, which sources and archives of this package have, are ignored; any other column is
refused, so that no data is dropped silently. Names of columns are not case-sensitive, as in Spark."""

import re
from typing import Final

from pyspark.sql.types import StructType

from raftlog.errors import InvalidArgument
from raftlog.pipeline.sink.columns import Columns

IGNORED: Final = frozenset({"offset", "timestamptype", "date"})
_BYTES: Final = (("string", "binary"), "string or binary")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_ALLOWED: Final = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": ((_HEADERS,), _HEADERS),
    "timestamp": (("timestamp", "bigint"), "timestamp, or bigint (milliseconds)"),
    "topic": (("string",), "string"),
    "partition": (("int",), "int"),
}
"""Types that a column may have, and how errors name them."""
_COLLATION: Final = re.compile(r" collate \w+")
"""Suffix of a string type that sets the collation; it does not change the bytes of strings."""


def find_columns(schema: StructType, topic: str | None) -> Columns:
    """Return the columns of a schema; `topic` is the option of that name.

    Raises `InvalidArgument` for a column that no record has, or of another type."""
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        name = field.name.lower()
        if name in IGNORED:
            continue
        if name not in _ALLOWED or name in found:
            raise InvalidArgument(
                f"the column {field.name} cannot be written, or occurs twice; records are made of the columns "
                f"{', '.join(_ALLOWED)}, and offset, timestampType and date are left out: select these"
            )
        types, wanted = _ALLOWED[name]
        kind = field.dataType.simpleString()
        if _COLLATION.sub("", kind) not in types:
            raise InvalidArgument(f"the column {field.name} has the type {kind}; it can be {wanted}: cast it")
        found[name] = number
    if "value" not in found:
        raise InvalidArgument("there is no column value, which is what is written; select one (string or binary)")
    if topic is None and "topic" not in found:
        raise InvalidArgument("the topic to write to is missing: give the option topic, or a column topic")
    if topic is not None:
        found.pop("topic", None)
    return Columns(**found)
