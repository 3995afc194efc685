"""Reading topics as they are now, as a DataFrame. Made by `RaftlogDataSource`; Spark asks for the splits in a process
of its own beside the driver, and reads each in a task."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from raftlog.client import BrokerClient
from raftlog.errors import InvalidArgument
from raftlog.pipeline.brokers.connection import BrokerConnection
from raftlog.pipeline.brokers.plan import layout, planned
from raftlog.pipeline.brokers.reading import read_split
from raftlog.pipeline.brokers.settings import ReadSettings
from raftlog.pipeline.brokers.split import BrokerSplit, divided
from raftlog.pipeline.plain_errors import plain_errors


@plain_errors
class BatchReader(DataSourceReader):
    """What is at the `latest` offset is fixed when the splits are made."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        """Raises `InvalidArgument`, `UnknownTopic`, `DataLost`, and `Unavailable` when brokers do not answer in
        time."""
        with BrokerConnection(self._settings.bootstrap) as brokers:
            splits = brokers.ask(self._plan)
        return list(divided(splits, self._settings.min_partitions))

    async def _plan(self, client: BrokerClient) -> list[BrokerSplit]:
        settings = self._settings
        there = await layout(client, settings.bootstrap, settings.topics, settings.patience_s)
        if not there.logs:
            raise InvalidArgument(f"there are no {settings.topics}; internal topics are none of them")
        return await planned(client, settings, there)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_in(partition)


def rows_in(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Where nothing was planned Spark makes an empty partition of its own."""
    return read_split(partition) if isinstance(partition, BrokerSplit) else iter(())
