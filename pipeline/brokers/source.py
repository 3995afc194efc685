"""Data source `raftlog` for Spark: `spark.read.format("raftlog")`, `readStream`, `write`, `writeStream`.

Options, guarantees and errors are in docs/PIPELINE.md. Spark creates a data source for every use, in the driver's
process or in a process beside it, and pickles it; so it has no state except its options."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from raftlog.client import BrokerClient
from raftlog.errors import InvalidArgument
from raftlog.pipeline.brokers.connection import BrokerConnection
from raftlog.pipeline.brokers.fetcher import read_rows
from raftlog.pipeline.brokers.plan import plan_splits, read_layout
from raftlog.pipeline.brokers.settings import ReadSettings, batch_settings, stream_settings
from raftlog.pipeline.brokers.split import BrokerSplit, divide
from raftlog.pipeline.brokers.stream import StreamReader
from raftlog.pipeline.plain_errors import hide_stack_traces
from raftlog.pipeline.rows import SCHEMA, check_schema


@hide_stack_traces
class RaftlogDataSource(DataSource):
    """Data source of topics of a running cluster; register it with `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        return "raftlog"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query. Raises `InvalidArgument` for another schema or wrong options."""
        check_schema(schema)
        return BatchReader(batch_settings(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 – Spark's name
        """Return the reader of a streaming query. Raises `InvalidArgument` for another schema or wrong options."""
        check_schema(schema)
        return StreamReader(stream_settings(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a batch query."""
        from raftlog.pipeline.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 – Spark's name
        """Return the writer of a streaming query."""
        from raftlog.pipeline.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)


@hide_stack_traces
class BatchReader(DataSourceReader):
    """Reader of a batch query: the topics as they are when Spark requests the splits.

    Spark calls it in a process beside the driver."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        """Return the splits, by calling the brokers.

        Raises `InvalidArgument`, `UnknownTopic`, `DataLost`, and `Unavailable` when brokers do not answer in time."""
        with BrokerConnection(self._settings.bootstrap) as brokers:
            splits = brokers.ask(self._plan)
        return list(divide(splits, self._settings.min_partitions))

    async def _plan(self, client: BrokerClient) -> list[BrokerSplit]:
        """Return the splits of all wanted topics. Raises `InvalidArgument` if no topic matches."""
        settings = self._settings
        there = await read_layout(client, settings.bootstrap, settings.topics, settings.timeout_s)
        if not there.logs:
            raise InvalidArgument(f"there are no {settings.topics}; internal topics are none of them")
        return await plan_splits(client, settings, there)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split; called by Spark in a task."""
        return read_rows(partition)
