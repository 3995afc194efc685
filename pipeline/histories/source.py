"""The data source through which pieces of histories become rows; for `judging` alone, as Spark has no other way from
Arrow batches of a Python function to a DataFrame that does without pandas.

Its one option is the pieces as JSON, bundled into tasks; its schema is that of `parts`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from raftlog.pipeline.histories.files import Piece, packed
from raftlog.pipeline.histories.parts import SCHEMA, batches_of

TASKS: Final = "tasks"


class PiecesDataSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return "raftlog-history-pieces"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "PiecesReader":
        return PiecesReader(self.options)


class Bundle(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(None)
        self.pieces = pieces


class PiecesReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._tasks = json.loads(options[TASKS])

    def partitions(self) -> list[InputPartition]:
        return [Bundle(tuple(Piece(*piece) for piece in task)) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Bundle), partition
        return batches_of(partition.pieces)


def parts_of_pieces(spark: SparkSession, pieces: Sequence[Piece]) -> DataFrame:
    """The parts of all entries of the pieces; one task per bundle of them."""
    spark.dataSource.register(PiecesDataSource)
    return spark.read.format(PiecesDataSource.name()).option(TASKS, json.dumps(packed(pieces))).load()
