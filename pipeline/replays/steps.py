"""Data source of one step of a replay: each archived partition is the Spark partition with the same number.

`read_step` registers it with Spark, only for replays. Unlike Spark's own reader of Parquet it keeps the order of
offsets, and reads only one partition in a task. A partition without rows in the step is an empty Spark partition."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from raftlog.pipeline.archives.files import files_at
from raftlog.pipeline.archives.manifest import ArchivedFile
from raftlog.pipeline.archives.parquet import read_in_order
from raftlog.pipeline.archives.reader import files_of
from raftlog.pipeline.archives.state import read_settled
from raftlog.pipeline.replays.rounds import Range
from raftlog.pipeline.rows import ARROW_SCHEMA, SCHEMA

NAME: Final = "raftlog-archive-step"


def read_step(spark: SparkSession, uri: str, topic: str, ranges: Sequence[Range], partitions: int) -> DataFrame:
    """Return the rows of these ranges of a topic as a data frame, with the columns of the data sources."""
    spark.dataSource.register(ArchiveStepSource)
    options = {"uri": uri, "topic": topic, "ranges": json.dumps(ranges), "partitions": str(partitions)}
    return spark.read.format(NAME).options(**options).load()


class ArchiveStepSource(DataSource):
    """Spark data source that reads the rows of one step of a replay from the archive."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "StepReader":
        return StepReader(dict(self.options))


class _StepPart(NamedTuple):
    """Input of one task: a range of offsets, and the archived files with these offsets."""

    range: Range
    archived: tuple[ArchivedFile, ...]


class StepReader(DataSourceReader):
    """Reader of one step; called by Spark."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Parse the options of a step: archive, topic, offset ranges, and number of partitions."""
        self._uri, self._topic = options["uri"], options["topic"]
        self._ranges = [Range(*each) for each in json.loads(options["ranges"])]
        self._count = int(options["partitions"])

    def partitions(self) -> list[InputPartition]:
        """Return one Spark partition per partition of the archive. Raises `ArchiveDamaged`."""
        files = files_at(self._uri)
        archived = files_of(files, read_settled(files), [self._topic])
        wanted = {each.partition: each for each in self._ranges}
        return [
            InputPartition(_make_part(wanted.get(partition) or Range(partition, 0, 0), archived))
            for partition in range(self._count)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, sorted by offset. Raises `ArchiveDamaged`."""
        (number, start, end), archived = partition.value
        for rows in read_in_order(files_at(self._uri), archived, start, end):
            place = [
                pa.repeat(pa.scalar(self._topic, pa.string()), rows.num_rows),
                pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows),
            ]
            yield pa.RecordBatch.from_arrays([*place, *rows.columns], schema=ARROW_SCHEMA)


def _make_part(wanted: Range, archived: Sequence[ArchivedFile]) -> _StepPart:
    """Return a range together with the files that contain offsets of it."""
    inside = (file for file in archived if file.partition == wanted.partition)
    return _StepPart(wanted, tuple(file for file in inside if file.first < wanted.end and file.last >= wanted.start))
