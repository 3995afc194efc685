"""Schema of records as rows, for Spark and for Arrow, shared by all readers of the pipeline.

Names and order are those of Spark's Kafka source, except that topic, partition and offset come first. `timestampType`
is 0 if a client set the timestamp, and 1 if it is the time of the append. `timestamp` is null for a record without a
timestamp, and for one after the year 294246, which Spark cannot represent. `headers` is null for a record without
headers. `SCHEMA` and `ARROW_SCHEMA` must have the same columns, because Spark compares them."""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from raftlog.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCHEMA: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
"""Schema of the rows in Spark's DDL."""
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
