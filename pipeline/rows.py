"""Schema of records as rows, for Spark and for Arrow, shared by all readers of the pipeline.

Names and order are those of Spark's Kafka source, except that a record's place (topic, partition, offset) comes first.
`timestampType` is 0 for the time at which a client made the record and 1 for the time at which it was appended. A
record without a timestamp has null there, and so has one whose timestamp Spark cannot hold (after the year 294246). A
record without headers has null, not an empty array. Both schemas describe the same; Spark compares them for equality.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from raftlog.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCHEMA: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
"""Spark's DDL."""
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ARROW_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
"""`SCHEMA` for Arrow."""


def check_schema(schema: "StructType") -> None:
    """Raise `InvalidArgument` unless a schema given to `.schema(…)` is `SCHEMA`."""
    columns = ",".join(column.replace(" ", ":", 1) for column in SCHEMA.split(", "))
    if schema.simpleString() != f"struct<{columns}>":
        raise InvalidArgument(f"rows have the columns {SCHEMA}; leave .schema(…) out, and select from these")
