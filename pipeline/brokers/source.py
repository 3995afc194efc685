"""What Spark loads as the data source `raftlog`: `spark.read.format("raftlog")`, `readStream`, `write`, `writeStream`.

Options, guarantees and errors are in docs/PIPELINE.md. Spark makes one for every use, in the driver's process or in one
beside it, and pickles it; so it holds its options and nothing else.
"""

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from raftlog.pipeline.brokers.batch import BatchReader
from raftlog.pipeline.brokers.settings import batch_settings, stream_settings
from raftlog.pipeline.brokers.stream import StreamReader
from raftlog.pipeline.plain_errors import plain_errors
from raftlog.pipeline.rows import SCHEMA, check_schema


@plain_errors
class RaftlogDataSource(DataSource):
    """Topics of a cluster that runs. `spark.dataSource.register(RaftlogDataSource)` makes it known."""

    @classmethod
    def name(cls) -> str:
        return "raftlog"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        return BatchReader(batch_settings(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 – Spark's name
        check_schema(schema)
        return StreamReader(stream_settings(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from raftlog.pipeline.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 – Spark's name
        from raftlog.pipeline.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)
