"""Data source `raftlog-segments`: the same rows as `raftlog`, from files without a running broker.

    spark.read.format("raftlog-segments").load("/backup/broker-1,/backup/broker-2,/backup/broker-3")

Planning reads only indexes, headers and journals; tasks read the batches. Registered by `session.local_session`, or by
`spark.dataSource.register(raftlog.pipeline.RaftlogSegmentsDataSource)`. Batch only: files of a stopped process do not
grow.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import NAMES, SKIPS, Options, SourceOption, number, size, topic_choice
from raftlog.pipeline.plain_errors import hide_stack_traces
from raftlog.pipeline.positions import ending_positions, option_names, starting_positions
from raftlog.pipeline.rows import SCHEMA, check_schema
from raftlog.pipeline.segments.plan import plan_segments
from raftlog.pipeline.segments.reader import read_segment_split

NAME: Final = "raftlog-segments"
SPLIT_BYTES_MIN: Final = 1 << 20
SPLIT_BYTES_MAX: Final = 4 << 30
SPLITS_MAX: Final = 100_000
_FIELDS: Final = {
    "minPartitions": SourceOption("splits_min", number(1, SPLITS_MAX)),
    "splitBytes": SourceOption("split_bytes", size(SPLIT_BYTES_MIN, SPLIT_BYTES_MAX)),
    "onCorruption": SourceOption("skips_damage", SKIPS),
    "onUndecodable": SourceOption("skips_undecodable", SKIPS),
}
"""Options that are arguments of `plan_segments`."""
_OPTIONS: Final = {*_FIELDS, "path", "topics", "topicsPattern", *option_names("starting"), *option_names("ending")}


@hide_stack_traces
class RaftlogSegmentsDataSource(DataSource):
    """Data source of topics in the files of stopped brokers (options: docs/PIPELINE.md)."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "SegmentsReader":
        check_schema(schema)
        return SegmentsReader(Options(NAME, self.options, _OPTIONS))


@hide_stack_traces
class SegmentsReader(DataSourceReader):
    """Reader of one batch; the driver calls `partitions`, and tasks call `read`."""

    def __init__(self, options: Options) -> None:
        """Parse the options. Raises `InvalidArgument` for one that cannot be used."""
        self._paths = _paths(options)
        self._wanted = {
            "topics": topic_choice(options, is_needed=False),
            "starting": starting_positions(options),
            "ending": ending_positions(options),
            **options.fields(_FIELDS),
        }

    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits. Raises the errors of `plan_segments`."""
        return [InputPartition(split) for split in plan_segments(self._paths, **self._wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split. Raises the errors of `read_segment_split`."""
        yield from read_segment_split(partition.value)


def _paths(options: Options) -> tuple[str, ...]:
    """Return the paths of `load("a,b")`, or of `load(["a", "b"])`, which Spark passes as JSON."""
    if not options.has("paths"):
        return options.read("path", NAMES)
    given = orjson.loads(options.text("paths"))
    if not given or not all(isinstance(path, str) and path for path in given):
        raise InvalidArgument(f"the data source {NAME} is loaded from directories, not from {given!r}")
    return tuple(given)
