"""Options, columns and partitions of a write: checked and chosen before the first write."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from raftlog.errors import InvalidArgument
from raftlog.pipeline.rows import HEADERS_TYPE
from raftlog.pipeline.sink.columns import SLICE_ROWS_MAX, Columns, Slice
from raftlog.pipeline.sink.partitioner import RowPartitioner, group_by_topic
from raftlog.pipeline.sink.rows import NO_TIME, Rows
from raftlog.pipeline.sink.schema import find_columns
from raftlog.pipeline.sink.settings import SinkSettings, sink_settings
from raftlog.pipeline.sink.writers import batch_writer, stream_writer
from raftlog.records import Compression
from raftlog.records.partitioner import PARTITIONERS, Partitioner

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SOURCE = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("headers", HEADERS)
    .add("date", DateType())
)
PLACE = {"bootstrap": "127.0.0.1:8082", "topic": "orders"}


def test_rows_of_a_source_or_an_archive_can_be_written_unchanged() -> None:
    assert find_columns(SOURCE, "copy") == Columns(value=6, key=5, headers=7, timestamp=3, topic=None, partition=1)
    assert find_columns(SOURCE, None).topic == 0
    assert find_columns(StructType().add("VALUE", StringType()).add("timestamp", LongType()), "t").timestamp == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType().add("value", StringType()).add("extra", StringType()), "column extra cannot be written"),
        (StructType().add("value", LongType()), "column value has the type bigint; it can be string or binary"),
        (StructType().add("value", StringType()).add("Value", StringType()), "occurs twice"),
        (StructType().add("key", StringType()), "no column value"),
        (StructType().add("value", StringType()).add("headers", ArrayType(StringType())), "headers has the type"),
        (StructType().add("value", StringType()).add("timestamp", StringType()), "milliseconds"),
        (StructType().add("value", StringType()).add("partition", LongType()), "partition has the type bigint"),
    ],
)
def test_other_columns_are_refused(schema: StructType, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        find_columns(schema, "orders")


def test_rows_need_a_topic() -> None:
    with pytest.raises(InvalidArgument, match="the option topic, or a column topic"):
        find_columns(StructType().add("value", StringType()), None)


def test_options_become_settings() -> None:
    given = {
        "batchbytes": "64k",
        "compression": "ZSTD",
        "recordsPerSecondPerTask": "0.5",
        "writeId": "n",
        "writeEpoch": "3",
    }
    settings = sink_settings({**PLACE, **given, "path": "ignored"}, is_stream=False)
    assert settings == SinkSettings(
        ("127.0.0.1:8082",), "orders", "n", 3, Compression.ZSTD, 65_536, records_per_second=0.5
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": "a"}, "did you mean topic?"),
        ({"compression": "lzo"}, "one of none, gzip, snappy, lz4, zstd"),
        ({"recordsPerSecondPerTask": "nan"}, "a number from 0.001"),
        ({"writeId": "a/b"}, "without a slash"),
        ({"writeEpoch": "1"}, "give writeId"),
        ({"keyPartitioner": "random"}, "one of murmur2, crc32"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        sink_settings({**PLACE, **given}, is_stream=False)


def test_writes_only_append_and_streams_have_their_own_ids() -> None:
    value = StructType().add("value", StringType())
    with pytest.raises(InvalidArgument, match="nothing in it is replaced"):
        batch_writer(PLACE, value, True)
    with pytest.raises(InvalidArgument, match="id in its checkpoint"):
        stream_writer({**PLACE, "writeId": "n"}, value, False)
    for writer in (batch_writer(PLACE, value, False), stream_writer(PLACE, value, False)):
        assert type(pickle.loads(pickle.dumps(writer))) is type(writer)


def test_rows_are_processed_in_bounded_slices() -> None:
    count = 2 * SLICE_ROWS_MAX + 1
    small = pa.record_batch({"value": pa.array([b""] * count)})
    assert [len(some.rows) for some in Columns(value=0).slices(small)] == [SLICE_ROWS_MAX, SLICE_ROWS_MAX, 1]
    large = pa.record_batch({"value": pa.array([bytes(3 << 20)] * 3)})
    assert [len(some.rows) for some in Columns(value=0).slices(large)] == [1, 1, 1]


def test_absent_values_differ_from_empty_ones() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array([None, ""], pa.large_string()),
            "timestamp": pa.array([None, 1_999], pa.timestamp("us", tz="UTC")),
            "headers": pa.array([None, []], HEADERS_TYPE),
        }
    )
    [some] = Columns(value=0, timestamp=1, headers=2).slices(batch)
    assert some.rows == Rows([NO_TIME, 1], [None, None], [None, b""], [[], []])
    assert some.rows.with_default_time(7).timestamps == [7, 1]
    nameless = pa.record_batch(
        {"value": pa.array([b""]), "headers": pa.array([[{"key": None, "value": b""}]], HEADERS_TYPE)}
    )
    with pytest.raises(InvalidArgument, match="a header has no key"):
        list(Columns(value=0, headers=1).slices(nameless))


def test_the_partition_of_a_row_does_not_depend_on_earlier_rows() -> None:
    keys = [b"key-%d" % number for number in range(50)]
    contents = [(number, key if number % 2 else None, b"v", []) for number, key in enumerate(keys)]
    forward = partitions_of(Rows.from_contents(contents))
    assert forward == partitions_of(Rows.from_contents(reversed(contents)))
    kafka = Partitioner(PARTITIONERS["murmur2"], 5)
    assert all(forward[content[0]] == kafka.choose(content[1]) for content in contents if content[1] is not None)
    without_key = [forward[content[0]] for content in contents if content[1] is None]
    assert len(set(without_key)) == 5, "rows without a key are spread"


def partitions_of(rows: Rows) -> dict[int, int]:
    found = RowPartitioner("murmur2").group_by_partition("t", Slice(rows), 5)
    return {timestamp: place.partition for place, some in found.items() for timestamp in some.timestamps}


def test_columns_can_name_topic_and_partition() -> None:
    rows = Rows.from_contents((number, b"k", b"", []) for number in range(4))
    some = Slice(rows, ["a", "b", "a", "b"], [2, None, 0, 7])
    by_name = group_by_topic(some, None)
    assert {name: (part.rows.timestamps, part.partitions) for name, part in by_name.items()} == {
        "a": ([0, 2], [2, 0]),
        "b": ([1, 3], [None, 7]),
    }
    assert group_by_topic(some, "c") == {"c": some}
    named = RowPartitioner("murmur2").group_by_partition("a", by_name["a"], 3)
    assert {place.partition: part.timestamps for place, part in named.items()} == {2: [0], 0: [2]}
    with pytest.raises(InvalidArgument, match="the partition -1 of topic a"):
        RowPartitioner("murmur2").group_by_partition("a", Slice(rows, None, [0, 0, 0, -1]), 3)
