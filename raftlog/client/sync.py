"""Synchronous clients: `Producer`, `Consumer` and `BrokerClient` for programs without an event loop.

    from raftlog.client.sync import Consumer, Producer

    with Producer("127.0.0.1:8082") as producer:
        print(producer.send_and_wait("orders", b"value", key=b"alice").offset)

They take the arguments and raise the errors of those in `raftlog.client`, which run in an event loop in a thread of
their own. Any thread may use a producer or a broker client; one thread at a time uses a consumer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Generic, Literal, Self, Unpack

from raftlog import client as asynchronous
from raftlog.client.consumers.consumer import POLL_MS, Offsets, Place, Starts
from raftlog.client.consumers.consumer_settings import ConsumerRecord, GroupConsumerOptions, RebalanceListener
from raftlog.client.group_answers import CommittedOffset
from raftlog.client.loop_thread import LoopThread, start_client
from raftlog.client.producers.delivery import Delivered
from raftlog.client.producers.producer_settings import ProducerOptions
from raftlog.client.serializers import Deserializer, K, Serializer, V
from raftlog.context import ClosedAtExit
from raftlog.records import NewRecord
from raftlog.types import Offset, OffsetRange, TopicPartition
from raftlog.values.brokers import BrokerDescription, ClusterHealth
from raftlog.values.topics import TopicDescription

__all__ = ["BrokerClient", "Consumer", "Delivery", "Producer"]


class Delivery:
    """A record that was sent, and its result."""

    def __init__(self, delivery: asynchronous.Delivery, thread: LoopThread) -> None:
        self._delivery, self._thread = delivery, thread

    @property
    def outcome(self) -> Literal["pending", "done", "failed", "unknown"]:
        """Its state now."""
        return self._delivery.outcome

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Wait, and return where the record is stored; raises why it is not, or may not be, and `TimeoutError` while it
        is pending."""

        async def delivered() -> Delivered:
            return await self._delivery

        return self._delivery.result() if self.outcome != "pending" else self._thread.call(delivered(), timeout_s)


class Producer(Generic[K, V]):
    """`raftlog.client.Producer` for synchronous programs."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Raises `InvalidArgument`. docs/CLIENT.md describes each setting."""
        self._producer: asynchronous.Producer[K, V]
        self._thread, self._producer = start_client(
            "raftlog-producer",
            lambda: asynchronous.Producer(
                bootstrap, key_serializer=key_serializer, value_serializer=value_serializer, **options
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.call(self._producer.__aexit__(kind, error, trace))
        finally:
            self._thread.close()

    def send(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Take a record; waits only while the buffer is full. Raises what is wrong with the record."""
        sending = self._producer.send(
            topic, value, key, headers=headers, timestamp_ms=timestamp_ms, partition=partition
        )
        return Delivery(self._thread.call(sending), self._thread)

    def send_and_wait(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivered:
        """Send a record and return where it is stored; raises why it is not, or may not be."""
        return self._thread.call(
            self._producer.send_and_wait(
                topic, value, key, headers=headers, timestamp_ms=timestamp_ms, partition=partition
            )
        )

    def send_batch(self, topic: str, partition: int, records: Sequence[NewRecord | bytes]) -> list[Delivery]:
        """Take many records of one partition, bytes or `NewRecord`s; return the delivery of each last one."""
        deliveries = self._thread.call(self._producer.send_batch(topic, partition, records))
        return [Delivery(delivery, self._thread) for delivery in deliveries]

    def flush(self) -> None:
        """Wait until every record that was sent before has its result; raises the first failure whose delivery was not
        looked at."""
        self._thread.call(self._producer.flush())

    def close(self, timeout_s: float | None = None) -> None:
        """Flush and end, within `timeout_s` or the delivery timeout. Raises as `flush`."""
        try:
            self._thread.call(self._producer.close(timeout_s))
        finally:
            self._thread.close()


class Consumer(Generic[K, V]):
    """`raftlog.client.Consumer` for synchronous programs. Listeners of rebalances are coroutines, called in the
    client's thread."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *topics: str,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        where: Callable[[ConsumerRecord[K, V]], object] | None = None,
        **options: Unpack[GroupConsumerOptions],
    ) -> None:
        """Raises `InvalidArgument`. docs/CLIENT.md describes each setting."""
        self._consumer: asynchronous.Consumer[K, V]
        self._thread, self._consumer = start_client(
            "raftlog-consumer",
            lambda: asynchronous.Consumer(
                bootstrap,
                *topics,
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                where=where,
                **options,
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.call(self._consumer.__aexit__(kind, error, trace))
        finally:
            self._thread.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        return self._thread.call(self._consumer.__anext__())

    def poll(self, max_records: int | None = None, timeout_ms: int = POLL_MS) -> list[ConsumerRecord[K, V]]:
        """Return up to `max_records` records; none when none came within `timeout_ms`."""
        return self._thread.call(self._consumer.poll(max_records, timeout_ms))

    def subscribe(
        self, topics: str | Iterable[str] = (), *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Read these topics, or all whose whole names match `pattern`."""
        self._thread.create(lambda: self._consumer.subscribe(topics, pattern=pattern, listener=listener))

    def assign(self, partitions: Iterable[Place] | Starts) -> None:
        """Read exactly these partitions, from the offsets given or where the group has committed."""
        self._thread.call(self._consumer.assign(partitions))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that are read now."""
        return self._consumer.assignment

    def position(self, partition: Place) -> Offset:
        """Return the offset of the next record."""
        return self._thread.call(self._consumer.position(partition))

    def seek(self, partition: Place, offset: int) -> None:
        """Go on at an offset."""
        self._thread.create(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Place) -> None:
        """Go on at the first record of these partitions, or of all."""
        self._thread.create(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Place) -> None:
        """Go on with records that come from now on."""
        self._thread.create(lambda: self._consumer.seek_to_end(*partitions))

    def seek_from_end(self, count: int, *partitions: Place) -> None:
        """Go on so many offsets before the end."""
        self._thread.create(lambda: self._consumer.seek_from_end(count, *partitions))

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: Place) -> None:
        """Go on at the first record with this timestamp or a later one."""
        self._thread.create(lambda: self._consumer.seek_to_timestamp(timestamp_ms, *partitions))

    def pause(self, *partitions: Place) -> None:
        """Hand out nothing of these partitions, or of all, until `resume`."""
        self._thread.create(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: Place) -> None:
        """Hand out records of these partitions, or of all, again."""
        self._thread.create(lambda: self._consumer.resume(*partitions))

    def commit(self, offsets: Offsets | None = None) -> None:
        """Commit the records handed out, or these offsets."""
        self._thread.call(self._consumer.commit(offsets))

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets that the group has committed."""
        return self._thread.call(self._consumer.committed())

    def close(self) -> None:
        """Commit what is processed, leave the group, and end."""
        try:
            self._thread.call(self._consumer.close())
        finally:
            self._thread.close()


class BrokerClient(ClosedAtExit):
    """Topics, offsets and the cluster's state, synchronously. Everything else is in `raftlog.client.BrokerClient`."""

    def __init__(self, bootstrap: str | Sequence[str]) -> None:
        """Raises `InvalidArgument`."""
        self._thread, self._client = start_client("raftlog-client", lambda: asynchronous.BrokerClient(bootstrap))

    def brokers(self) -> list[BrokerDescription]:
        """Return all brokers of the cluster, by node id."""
        return self._thread.call(self._client.brokers())

    def health(self) -> ClusterHealth:
        """Return whether the cluster is healthy, and the reasons if it is not."""
        return self._thread.call(self._client.health())

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return self._thread.call(self._client.topics())

    def describe_topic(self, name: str) -> TopicDescription:
        """Return partitions with their replicas, and settings of a topic; raises `UnknownTopic`."""
        return self._thread.call(self._client.describe_topic(name))

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; raises `InvalidTopic`, `InvalidArgument` or `TopicExists`."""
        self._thread.call(self._client.create_topic(name, partitions, replication_factor, config))

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set settings, or reset them to their defaults where the value is None."""
        self._thread.call(self._client.alter_topic_config(name, changes))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        self._thread.call(self._client.delete_topic(name))

    def offsets(self, topic: str, partition: int) -> OffsetRange:
        """Return the first offset and the end offset of a partition."""
        return self._thread.call(self._client.offsets(topic, partition))

    def close(self) -> None:
        """End the client and its thread."""
        try:
            self._thread.call(self._client.close())
        finally:
            self._thread.close()
