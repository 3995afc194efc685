"""Reader of growing topics in micro-batches. Created by `RaftlogDataSource`.

Spark has one reader in a process beside the driver while the query runs, and requests the end of the next micro-batch
from it. For the tasks it creates further readers, which only read. So the connection to brokers is opened at the first
request.

Invariants: the splits of a micro-batch follow from its two positions alone, so that each attempt reads the same
records; offsets of successive positions never decrease."""

import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from raftlog.client import BrokerClient
from raftlog.errors import InvalidArgument
from raftlog.pipeline.brokers.connection import BrokerConnection
from raftlog.pipeline.brokers.fetcher import read_rows
from raftlog.pipeline.brokers.micro_batch import UNLIMITED, Targets, check_subscribed, choose_batch_end
from raftlog.pipeline.brokers.plan import (
    ClusterLayout,
    EarlierOffsets,
    PartitionLog,
    make_split,
    read_layout,
    starting_offsets,
)
from raftlog.pipeline.brokers.settings import ReadSettings
from raftlog.pipeline.brokers.split import BrokerSplit, divide
from raftlog.pipeline.brokers.stream_offsets import StreamOffset, ranges_between
from raftlog.pipeline.plain_errors import hide_stack_traces

IDLE_PAUSE_S: Final = 0.1
Json = dict[str, Any]


@hide_stack_traces
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a streaming query; not thread-safe, as Spark makes one call at a time."""

    def __init__(self, settings: ReadSettings) -> None:
        """Create a reader that connects at the first request."""
        self._settings = settings
        self._brokers: BrokerConnection | None = None
        self._initial: Json | None = None
        self._there: ClusterLayout | None = None
        """Latest layout: for addresses of leaders, and for Spark's reports."""
        self._targets: Targets | None = None
        self._idle_until = 0.0

    # offsets

    def initialOffset(self) -> Json:  # noqa: N802 – the names are Spark's
        """Return the position at which a new query starts, as JSON; raises the errors of `BatchReader.partitions`."""
        if self._initial is None:
            self._initial = self._connection().ask(self._find_start).as_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of rows in each batch: by `max_offsets_per_trigger`, or none."""
        rows_max = self._settings.max_offsets_per_trigger
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return the position at which the next micro-batch ends, as JSON.

        Raises `CheckpointMismatch`, `DataLost`, and `Unavailable` when brokers do not answer in time."""
        begin = StreamOffset.from_json(start)
        check_subscribed(begin, self._settings.topics)
        self._pause_if_idle()
        end = choose_batch_end(
            begin,
            self._refresh_layout(begin, linearizable=False).logs,
            _parse_limit(limit),
            fail_on_data_loss=self._settings.fail_on_data_loss,
            targets=self._targets,
        )
        if end is not begin:
            return end.as_json()
        self._idle_until = time.monotonic() + IDLE_PAUSE_S
        return start

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the present ends of all partitions as the end of the query."""
        self._targets = {log.place: log for log in self._refresh_layout(StreamOffset(), linearizable=True).logs}

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Return the ends of all partitions in the latest layout; None before the first layout."""
        if self._there is None:
            return None
        logs = self._there.logs
        return StreamOffset({log.topic: log.topic_id for log in logs}, {log.place: log.end for log in logs}).as_json()

    # rows

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return the splits of a micro-batch. Raises `CheckpointMismatch`."""
        begin, until = StreamOffset.from_json(start), StreamOffset.from_json(end)
        check_subscribed(until, self._settings.topics)
        return list(divide(list(self._make_splits(begin, until)), self._settings.min_partitions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split; called by Spark in a task."""
        return read_rows(partition)

    def stop(self) -> None:
        """Close the connection to the brokers."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    # requests

    def _connection(self) -> BrokerConnection:
        """Return the connection to the brokers; open it at the first use."""
        if self._brokers is None:
            self._brokers = BrokerConnection(self._settings.bootstrap)
        return self._brokers

    def _refresh_layout(self, known: StreamOffset, *, linearizable: bool) -> ClusterLayout:
        """Ask the brokers for the layout; `known` is the stream's position."""
        settings, seen = self._settings, EarlierOffsets(known.ids, known.offsets)
        self._there = self._connection().ask(
            lambda client: read_layout(
                client,
                settings.bootstrap,
                settings.topics,
                settings.timeout_s,
                seen=seen,
                linearizable=linearizable,
            )
        )
        return self._there

    def _pause_if_idle(self) -> None:
        """Wait, so that an idle stream makes ten requests per second; Spark would make a hundred."""
        time.sleep(max(0.0, self._idle_until - time.monotonic()))

    async def _find_start(self, client: BrokerClient) -> StreamOffset:
        """Return the position at which a new query begins, by the options."""
        settings = self._settings
        there = self._there = await read_layout(client, settings.bootstrap, settings.topics, settings.timeout_s)
        offsets = await starting_offsets(client, settings, there.logs)
        return StreamOffset({log.topic: log.topic_id for log in there.logs}, offsets, is_initial=True)

    def _make_splits(self, begin: StreamOffset, until: StreamOffset) -> Iterator[BrokerSplit]:
        """Yield a split for each partition with offsets between two positions."""
        there = self._there or ClusterLayout([], self._settings.bootstrap)
        known = {log.place: log for log in there.logs}
        for place, first, end in ranges_between(begin, until):
            log = known.get(place)
            leader = None if log is None else log.leader
            wanted = PartitionLog(place.topic, until.ids[place.topic], place.partition, first, end, leader)
            yield make_split(self._settings, there.addresses, wanted)


def _parse_limit(limit: ReadLimit) -> int:
    """Return the maximum number of rows. Raises `InvalidArgument` for another kind of limit."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows
    if isinstance(limit, ReadAllAvailable):
        return UNLIMITED
    raise InvalidArgument(f"a stream of topics is limited by maxOffsetsPerTrigger, and not by {limit}")
