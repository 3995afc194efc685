"""Writers that Spark calls: `commit` and `abort` on the driver, `write` in each task.

In a streaming query the epoch of a write is the micro-batch, and its name the id in the query's checkpoint. A batch
write has the name that its caller gave, or a unique one, and epoch 0 unless the caller divides it into steps. Spark
pickles writers."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from raftlog.client import BrokerClient
from raftlog.errors import InvalidArgument, OutcomeUnknown, UnknownGroup
from raftlog.pipeline.plain_errors import hide_stack_traces
from raftlog.pipeline.sink.attempt import write_rows
from raftlog.pipeline.sink.columns import Columns
from raftlog.pipeline.sink.identity import WriteIdentity
from raftlog.pipeline.sink.marks import Recorder
from raftlog.pipeline.sink.schema import find_columns
from raftlog.pipeline.sink.settings import SinkSettings, sink_settings
from raftlog.types import TopicPartition

_EPOCH = "streaming.sql.batchId"
_QUERY = "sql.streaming.queryId"
"""Local properties that Spark sets for the tasks of a micro-batch."""
_log = logging.getLogger("raftlog.pipeline")


@dataclass(frozen=True)
class WrittenTask(WriterCommitMessage):
    """Result of a task, which Spark passes to the driver."""

    write_id: str
    epoch: int
    rows: int
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Write:
    """Context shared by all tasks of one write or micro-batch."""

    settings: SinkSettings
    columns: Columns
    run: str

    def run_task(self, batches: Iterator[pa.RecordBatch], identity: WriteIdentity) -> WrittenTask:
        """Write the rows of a task; return its result for the driver."""
        outcome = write_rows(batches, self.columns, self.settings, identity, self.run)
        return WrittenTask(identity.write_id, identity.epoch, outcome.rows, outcome.ends)

    def record(self, messages: Sequence[WrittenTask], *, keep: bool) -> None:
        """Record that every task is complete; without `keep`, delete the record, because the write is not repeated."""
        asyncio.run(self._record(messages[0].write_id, messages[0].epoch, messages, keep))

    async def _record(self, write_id: str, epoch: int, messages: Sequence[WrittenTask], keep: bool) -> None:
        """Record or delete the progress of a write, on the brokers."""
        ends: dict[TopicPartition, int] = {}
        for message in messages:
            for place, end in message.ends.items():
                ends[place] = max(end, ends.get(place, 0))
        topics = {place.topic for place in ends} | ({self.settings.topic} if self.settings.topic else set())
        async with BrokerClient(self.settings.bootstrap) as client:
            recorder = Recorder(client, write_id)
            outage = self.settings.outage("recording that a write is done")
            if keep:
                await outage.repeat(lambda: recorder.finish(epoch, ends, topics))
            elif ends:
                # Records that remain expire after --offsets-retention-ms.
                with contextlib.suppress(UnknownGroup, OutcomeUnknown):
                    await outage.repeat(lambda: client.groups.delete(recorder.group))


@hide_stack_traces
class BatchWriter(DataSourceArrowWriter):
    """Writer of a batch query; called by Spark."""

    def __init__(self, write: _Write, write_id: str) -> None:
        self._write, self._write_id = write, write_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenTask:
        """Write the rows of a task; called in a worker."""
        identity = WriteIdentity(self._write_id, _task_context().partitionId(), self._write.settings.write_epoch)
        return self._write.run_task(iterator, identity)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Record the write as complete; called on the driver."""
        done = _completed_tasks(messages)
        if done:
            self._warn_if_repeated(done)
            self._write.record(done, keep=self._write.settings.write_id is not None)

    def _warn_if_repeated(self, messages: Sequence[WrittenTask]) -> None:
        """Warn that nothing was written or compared, if this write name was used before."""
        settings = self._write.settings
        if settings.write_id is None or any(message.ends for message in messages):
            return
        recorded = recorded_epoch(settings.bootstrap, settings.write_id, settings.delivery_timeout_ms)
        if recorded is not None and recorded >= settings.write_epoch:
            _log.warning(
                "the write %s (writeEpoch %d) was done before, and nothing is written now, whatever the rows are: a "
                "writeId is the name of one write",
                settings.write_id,
                settings.write_epoch,
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Warn that the write failed, and how to repeat it."""
        name = self._write.settings.write_id
        again = (
            "write again with the same writeId and the same rows: only what is missing will be added"
            if name is not None
            else "to repeat it without doubling them it would have needed the option writeId"
        )
        _log.warning("the write failed, and written records stay: %s; %s", _summary(messages), again)


@hide_stack_traces
class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of a streaming query; called by Spark."""

    def __init__(self, write: _Write) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenTask:
        """Write the rows of a task of a micro-batch; called in a worker. Raises `InvalidArgument`."""
        context = _task_context()
        query, epoch = context.getLocalProperty(_QUERY), context.getLocalProperty(_EPOCH)
        if not query or epoch is None:
            raise InvalidArgument(
                f"Spark does not name the micro-batch ({_QUERY}, {_EPOCH}); the sink raftlog runs in "
                "micro-batches, not in continuous mode"
            )
        return self._write.run_task(iterator, WriteIdentity(query, context.partitionId(), int(epoch)))

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Record the micro-batch as complete; called on the driver."""
        done = _completed_tasks(messages)
        if done:
            assert all(message.epoch == batch_id for message in done), f"tasks of another micro-batch than {batch_id}"
            self._write.record(done, keep=True)

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Warn that the micro-batch failed."""
        _log.warning(
            "micro-batch %d failed, and written records stay: %s; restarted from its checkpoint, the query adds the "
            "missing ones",
            batch_id,
            _summary(messages),
        )


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the writer for `DataSource.writer`. Raises `InvalidArgument` for unusable options and columns."""
    write = _plan_write(options, schema, overwrite, is_stream=False)
    return BatchWriter(write, write.settings.write_id or write.run)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer for `DataSource.streamWriter`. Raises `InvalidArgument`.

    `overwrite`: the output mode is `complete`."""
    return StreamWriter(_plan_write(options, schema, overwrite, is_stream=True))


def recorded_epoch(bootstrap: Sequence[str], write_id: str, timeout_ms: int = 120_000) -> int | None:
    """Return the newest step (`writeEpoch`) of a named write that is recorded as complete; None if none is."""

    async def ask() -> int:
        """Return the newest complete epoch of the write."""
        async with BrokerClient(bootstrap) as client:
            settings = SinkSettings(bootstrap, delivery_timeout_ms=timeout_ms)
            outage = settings.outage(f"reading what is recorded of the write {write_id}")
            return (await outage.repeat(Recorder(client, write_id).read)).newest_complete()

    done = asyncio.run(ask())
    return None if done < 0 else done


def _plan_write(options: Mapping[str, str], schema: StructType, overwrite: bool, *, is_stream: bool) -> _Write:
    """Check options and schema, and return the context of the tasks. Raises `InvalidArgument`."""
    settings = sink_settings(options, is_stream=is_stream)
    if overwrite:
        raise InvalidArgument(
            'a log is appended to, and nothing in it is replaced: write with mode("append"), or in a stream with '
            'outputMode("append") or "update"'
        )
    return _Write(settings, find_columns(schema, settings.topic), uuid.uuid4().hex)


def _task_context() -> Any:
    """Return Spark's context of the running task."""
    context = TaskContext.get()
    assert context is not None, "rows are written in tasks"
    return context


def _completed_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenTask]:
    """Return the results of the tasks that ended."""
    return [message for message in messages if isinstance(message, WrittenTask)]


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return a sentence with the numbers of records and tasks, for a warning."""
    done = _completed_tasks(messages)
    places = sorted({str(place) for message in done for place in message.ends})
    named = f" in {', '.join(places[:10])}{', …' if len(places) > 10 else ''}" if places else ""
    rows = sum(message.rows for message in done)
    return (
        f"{rows} records of {len(done)} tasks that ended{named}, and an unknown number of {len(messages) - len(done)} "
        "others"
    )
