"""Attempt of one task: writes the rows of a Spark partition, as Arrow batches, to their topics.

The caller's thread reads rows; an event loop in another thread sends them, to many partitions at once. The rows in
memory are bounded by `BUFFER_BYTES_MAX`: above it the caller waits, and partitions with most waiting rows are sent
first."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple, Self, TypeVar

import pyarrow as pa

from raftlog.client import BrokerClient
from raftlog.client.loop_thread import LoopThread
from raftlog.client.outage import Outage
from raftlog.errors import InvalidArgument, UnknownTopic
from raftlog.pipeline.errors import WriteForgotten
from raftlog.pipeline.sink.columns import Columns, Slice
from raftlog.pipeline.sink.identity import WriteIdentity
from raftlog.pipeline.sink.lane import SinkLane
from raftlog.pipeline.sink.marks import EpochStart, Marks, Recorder
from raftlog.pipeline.sink.partitioner import RowPartitioner, group_by_topic
from raftlog.pipeline.sink.sender import LaneSender
from raftlog.pipeline.sink.settings import SinkSettings
from raftlog.types import Offset, TopicPartition

BUFFER_BYTES_MAX: Final = 32 << 20
BATCHES_UNDER_WAY_MAX: Final = 16
_HEADER_ROOM: Final = 1 << 10
"""Bytes of `max.message.bytes` that are reserved for a batch's header and for incompressible data."""

PORTIONS_A_SECOND: Final = 10
_EXPIRATION_MS: Final = 86_400_000
"""Expiration of idle producers that is assumed if a broker of an older release does not report it."""

_FLUSH_S: Final = 1.0
_LEASE_S_MIN: Final = 1.0
"""Minimum of `_Topic.lease_s`: a scan and a send need some time."""

T = TypeVar("T")


class AttemptOutcome(NamedTuple):
    """Result of an attempt of a task: `ends` are the offsets after its records, by partition.

    `rows` is 0 if the epoch was complete before."""

    rows: int
    ends: dict[TopicPartition, int]


def write_rows(
    batches: Iterable[pa.RecordBatch], columns: Columns, settings: SinkSettings, identity: WriteIdentity, run: str
) -> AttemptOutcome:
    """Write all rows, each once, even if another attempt with the same identity has written some of them.

    `run` is the id of the driver's execution. Raises `InvalidArgument` and `UnknownTopic` for rows that cannot be
    written, `WriteForgotten`, `InputChanged`, and errors of brokers after `deliveryTimeoutMs`; written rows stay."""
    with LoopThread("raftlog-sink") as thread:
        writer = thread.submit(_Writer.open(settings, identity, run)).result()
        try:
            if writer.is_done:
                for _ in batches:
                    pass  # Spark's writer of our input ends only with its end
                return AttemptOutcome(0, {})
            pace = _Pace(settings.records_per_second)
            for batch in batches:
                for some in columns.slices(batch):
                    for part in pace.parts(some):
                        thread.submit(writer.add_rows(part)).result()
            return thread.submit(writer.finish()).result()
        finally:
            thread.submit(writer.close()).result()


class _Writer:
    """Writer of one task's rows to brokers, on the event loop; created by `open`."""

    def __init__(
        self, client: BrokerClient, settings: SinkSettings, identity: WriteIdentity, run: "_Run", marks: Marks
    ) -> None:
        """Prepare to write one run's rows (`run`) of an epoch; `marks` are the marks of earlier attempts."""
        self._client, self._settings, self._identity, self._mine, self._marks = client, settings, identity, run, marks
        self.is_done = marks.newest_complete() >= identity.epoch
        """Whether every row of the epoch is stored already."""
        self._placing = RowPartitioner(settings.key_partitioner)
        self._topics: dict[str, _Topic] = {}
        self._sendings: dict[TopicPartition, LaneSender] = {}
        self._slots = asyncio.Semaphore(BATCHES_UNDER_WAY_MAX)
        self._flush_at_s = time.monotonic() + _FLUSH_S
        """Time at which batches are sent even if they are not full, for a write that a rate limit slows down."""
        self._failure: BaseException | None = None
        self._has_ended = asyncio.Event()
        """Set when a sender has ended since the last wait."""

    @classmethod
    async def open(cls, settings: SinkSettings, identity: WriteIdentity, run: str) -> Self:
        """Connect, and read the record of the write. Raises `WriteForgotten` and `InvalidArgument`."""
        client = BrokerClient(settings.bootstrap)
        try:
            outage = settings.outage("beginning to write")
            await outage.repeat(client.find_all_brokers)
            recorder = Recorder(client, identity.write_id)
            marks = await outage.repeat(recorder.read)
            if not settings.accepts_missing_record:
                recorder.check_missing(marks, identity.epoch)
            if (
                settings.write_id is not None
                and settings.topic is not None
                and marks.newest_complete() >= identity.epoch
            ):
                recorder.check_topic(marks, settings.topic)
            return cls(client, settings, identity, _Run(run, recorder, outage), marks)
        except BaseException:
            await client.close()
            raise

    async def close(self) -> None:
        """Cancel all senders and close the client."""
        tasks = [sending.task for sending in self._sendings.values() if sending.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    # rows

    async def add_rows(self, new_rows: Slice) -> None:
        """Add rows to send; wait while too many bytes are not stored. Raises the error that ended the attempt."""
        for name, part in group_by_topic(new_rows, self._settings.topic).items():
            topic = self._topics.get(name) or await self._begin_topic(name)
            timed = part._replace(rows=part.rows.with_default_time(topic.beginning.ms))
            for place, rows in self._placing.group_by_partition(name, timed, topic.beginning.partitions).items():
                sending = self._sendings.get(place) or await self._open_lane(place, topic)
                sending.lane.add(rows)
                self._start_sender(sending)
        if self._settings.records_per_second is not None and time.monotonic() >= self._flush_at_s:
            self._flush_all()
        await asyncio.sleep(0)
        while self._failure is None and (held := self._held_bytes()) > BUFFER_BYTES_MAX:
            self._has_ended.clear()
            self._flush_largest(held - BUFFER_BYTES_MAX // 2)
            await self._has_ended.wait()
        self._raise_failure()

    def _held_bytes(self) -> int:
        """Return the bytes of rows that are not known to be stored."""
        return sum(sending.lane.waiting_bytes for sending in self._sendings.values())

    def _flush_all(self) -> None:
        """Send all waiting rows, also in batches that are not full."""
        self._flush_at_s = time.monotonic() + _FLUSH_S
        for sending in self._sendings.values():
            sending.flush = True
            self._start_sender(sending)

    def _flush_largest(self, wanted_bytes: int) -> None:
        """Send the waiting rows of the partitions that have most, until `wanted_bytes` of rows are being sent."""
        for sending in sorted(self._sendings.values(), key=lambda each: -each.lane.waiting_bytes):
            if wanted_bytes <= 0:
                return
            wanted_bytes -= sending.lane.waiting_bytes
            sending.flush = True
            self._start_sender(sending)

    def _start_sender(self, sending: LaneSender) -> None:
        """Start the sender of a partition, unless it runs or has nothing to do."""
        if sending.task is None and sending.lane.next(flush=sending.flush) is not None:
            sending.task = asyncio.get_running_loop().create_task(sending.run())
            sending.task.add_done_callback(partial(self._on_sender_end, sending))

    def _on_sender_end(self, sending: LaneSender, task: asyncio.Task[None]) -> None:
        """Record the error of a sender that ended; without an error, start it again if there are rows to send."""
        sending.task = None
        self._has_ended.set()
        if task.cancelled():
            return
        self._failure = self._failure or task.exception()
        if self._failure is None:
            self._start_sender(sending)  # rows may have come since it had nothing to do

    def _raise_failure(self) -> None:
        """Raise the error that ended a sender, if there is one."""
        if self._failure is not None:
            raise self._failure

    async def finish(self) -> AttemptOutcome:
        """Send all remaining rows, and return the result."""
        self._flush_all()
        while self._failure is None and any(sending.task is not None for sending in self._sendings.values()):
            self._has_ended.clear()
            await self._has_ended.wait()
        self._raise_failure()
        for sending in self._sendings.values():
            await sending.check_no_surplus()
        lanes = [sending.lane for sending in self._sendings.values()]
        assert not any(lane.waiting_bytes for lane in lanes), "a write ends when every row is stored"
        return AttemptOutcome(sum(lane.rows_done for lane in lanes), {lane.place: lane.known_to for lane in lanes})

    # topics and partitions

    async def _begin_topic(self, name: str) -> "_Topic":
        """Begin the epoch in a topic. Raises `UnknownTopic`."""
        mine, epoch = self._mine, self._identity.epoch
        try:
            described = await mine.outage.repeat(lambda: self._client.describe_topic(name))
        except UnknownTopic as error:
            raise UnknownTopic(
                f"{error}; a write creates no topics: raftlog topic create {name} --partitions N"
            ) from None
        found = self._marks.start_of_epoch(name, epoch)
        if found is None:
            wanted = EpochStart(mine.name, time.time_ns() // 1_000_000, described.partitions)
            self._marks = await mine.outage.repeat(lambda: mine.recorder.begin(name, epoch, wanted, self._marks))
            found = self._marks.start_of_epoch(name, epoch)
        if found is None:
            raise WriteForgotten(
                f"{name}: micro-batch {epoch} of this write was completed by another attempt while this one began, "
                "which is obsolete now"
            )
        configs = described.configs
        expiration_s = int(configs.get("producer.id.expiration.ms", _EXPIRATION_MS)) / 1000
        lease_s = max(_LEASE_S_MIN, expiration_s / 2)
        topic = _Topic(found, described.partitions, int(configs["max.message.bytes"]), lease_s)
        self._topics[name] = topic
        return topic

    async def _open_lane(self, place: TopicPartition, topic: "_Topic") -> LaneSender:
        """Return the sender of a partition. Raises `InvalidArgument` if the partition does not exist."""
        if place.partition >= max(topic.partitions, topic.beginning.partitions):
            raise InvalidArgument(
                f"a row names the partition {place}, and the topic has {topic.partitions} partitions; without the "
                "column partition rows go by their key"
            )
        age_s = time.time() - topic.beginning.ms / 1000
        lane = SinkLane(
            place,
            self._identity,
            self._marks.complete_below(place) or Offset(0),
            max(1, min(self._settings.batch_bytes, topic.max_message_bytes * 63 // 64 - _HEADER_ROOM)),
            must_scan=topic.beginning.run != self._mine.name,
            is_old=age_s > topic.lease_s,
            accepts_missing=self._settings.accepts_missing_record,
        )
        sending = LaneSender(self._client, lane, self._settings, topic.lease_s, self._slots)
        self._sendings[place] = sending
        return sending


class _Run(NamedTuple):
    """One execution of the driver: its identity, and the objects that its attempts share."""

    name: str
    recorder: Recorder
    outage: Outage


class _Topic(NamedTuple):
    """Topic to which an attempt writes."""

    beginning: EpochStart
    partitions: int
    """Number of partitions now."""
    max_message_bytes: int
    lease_s: float
    """Half of the time after which a partition forgets an idle producer."""


class _Pace:
    """Divider of rows into portions, released at a maximum rate."""

    def __init__(self, records_per_second: float | None) -> None:
        """Limit the rate of records per second; None: no limit."""
        self._rate = records_per_second
        self._began_s, self._count = time.monotonic(), 0

    def parts(self, rows: Slice) -> Iterator[Slice]:
        """Yield rows in portions, each when the rate permits it; blocks in between."""
        if self._rate is None:
            yield rows
            return
        size = max(1, int(self._rate / PORTIONS_A_SECOND))
        for start in range(0, len(rows.rows), size):
            part = rows.slice(start, start + size)
            ahead_s = self._count / self._rate - (time.monotonic() - self._began_s)
            if ahead_s > 0:
                time.sleep(ahead_s)
            self._count += len(part.rows)
            yield part
