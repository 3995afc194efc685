"""Readers: follow a partition through any broker, and at times list its offsets.

Records that a reader received must stay: an offset that it has reached is never out of range, unless retention has
deleted the records below the log start. A recreated topic is another one, read from its start.
"""

from random import Random
from typing import Final, NamedTuple

from jepsen.checkers import Assign, Fetched, ListOffsets, OffsetRange, Poll
from jepsen.checkers.history import ASSIGN, LIST, POLL
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.workload.clients import RETRY_NS, Attempt, Client, KnownTopic, known_topic
from jepsen.simulation.brokers.workload.values import parse_value
from jepsen.simulation.network.links import MILLISECOND_NS
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import OffsetOutOfRange, RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.records import read_header, read_records
from raftlog.types import Offset, TopicPartition

POLL_NS: Final = 200 * MILLISECOND_NS
POLL_BYTES: Final = 8192


class Reader(Client):
    """Simulated client that reads one partition at a time, and sometimes changes to another."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        super().__init__(cluster, random)
        self.position = Offset(0)
        self._name = ""
        self._number = 0
        self._reads: TopicPartition | None = None

    def step(self) -> None:
        """Read on, or list the offsets; at times change to another partition."""
        if not self._name or self.random.random() < 0.05:
            self._name = self.random.choice(self.cluster.names)
            self._number = self.random.randrange(self.cluster.options.numbers_max)
        self.ask(self._list if self.random.random() < 0.25 else self._poll)

    def _topic(self, broker: Broker) -> KnownTopic | None:
        """Return the topic in the broker's metadata; None if it is missing or has no such partition."""
        topic = known_topic(broker, self._name)
        return topic if topic is not None and self._number < topic.partitions else None

    def _assign(self, partition: TopicPartition, offset: Offset) -> None:
        """Set the partition and the position, and record that."""
        self._reads, self.position = partition, offset
        self.recorder.ok(self.recorder.invoke(self.process, ASSIGN, Assign(((partition, offset),))))

    # polls

    async def _poll(self, attempt: Attempt, broker: Broker) -> None:
        """Fetch records from the position on, and record them."""
        topic, number = self._topic(broker), self._number  # the reader may go on before this one is answered
        if topic is None:
            self.finish(attempt, RETRY_NS)
            return
        partition = topic.partition(number)
        if partition != self._reads:
            self._assign(partition, Offset(0))
        position = self.position
        attempt.op = self.recorder.invoke(self.process, POLL, Poll())
        try:
            found = await broker.fetch(
                topic.name,
                number,
                position,
                max_bytes=POLL_BYTES,
                min_bytes=self.random.choice((0, 1)),
                deadline=attempt.deadline(),
            )
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_poll_error(attempt, partition, error)
            return
        fetched, after = decode(partition, found.batches, position)
        if fetched.offsets:
            self.watch.observe_end(topic.key(number), str(partition), Offset(fetched.offsets[-1] + 1))
        if self.is_answer_received(attempt):
            self.recorder.ok(attempt.op, Poll((fetched,) if fetched.offsets else ()))
            self.position = after
            self.finish(attempt, int(self.random.uniform(0.2, 1) * POLL_NS))

    def _on_poll_error(self, attempt: Attempt, partition: TopicPartition, error: RaftlogError) -> None:
        """Record a failed read; below the log start, go on from there.

        Raises `PropertyBroken` if an offset at or above the log start is out of range."""
        if isinstance(error, OffsetOutOfRange) and error.first <= self.position:
            numbers = {"partition": partition, "offset": self.position, "error": error}
            raise PropertyBroken("known-offset-out-of-range", {**numbers, "broker": attempt.machine.name})
        self.record_failure(attempt, error)
        if isinstance(error, OffsetOutOfRange):
            self._skip(partition, error)

    def _skip(self, partition: TopicPartition, error: OffsetOutOfRange) -> None:
        """Record the new log start under another process number, and continue at this offset."""
        asked = self.recorder.invoke(self.cluster.new_process(), LIST, ListOffsets())
        self.recorder.ok(asked, ListOffsets((OffsetRange(partition, error.first, error.end),)))
        self._assign(partition, error.first)

    # where it ends

    async def _list(self, attempt: Attempt, broker: Broker) -> None:
        """List the offsets of the partition, and record the end if the request was linearizable."""
        topic, number = self._topic(broker), self._number
        if topic is None:
            self.finish(attempt, RETRY_NS)
            return
        partition, is_linearizable = topic.partition(number), self.random.random() < 0.7
        if is_linearizable:
            attempt.op = self.recorder.invoke(self.process, LIST, ListOffsets(linearizable=True))
        try:
            found = await broker.offsets(topic.name, number, linearizable=is_linearizable, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self.record_failure(attempt, error)
            return
        self.watch.observe_end(topic.key(number), str(partition), found.end)
        if self.is_answer_received(attempt):
            if attempt.op is not None:
                ends = OffsetRange(partition, found.beginning, found.end)
                self.recorder.ok(attempt.op, ListOffsets((ends,), linearizable=True))
            self.finish(attempt, POLL_NS)


class Decoded(NamedTuple):
    """Result of a fetch; `next_offset` is the position of the next read, which may lie after removed records."""

    fetched: Fetched
    next_offset: Offset


def decode(partition: TopicPartition, batches: list[memoryview], position: Offset) -> Decoded:
    """Return the offsets and values from `position` on. The fetched batches may begin at a lower offset."""
    offsets, values = [], []
    for batch in batches:
        header = read_header(batch)
        for record in () if header.is_control else read_records(batch):
            if record.offset >= position:
                offsets.append(Offset(record.offset))
                values.append(parse_value(record))
    end = Offset(max(position, read_header(batches[-1]).next_offset)) if batches else position
    return Decoded(Fetched(partition, tuple(offsets), tuple(values)), end)
