"""Synchronous clients, for programs without an event loop: producers, `Consumer` and `BrokerClient`.

    from raftlog.client.sync import Consumer, Producer

    with Producer("127.0.0.1:8082") as producer:
        print(producer.send_and_wait("orders", b"value", key=b"alice").offset)

They take the arguments and raise the errors of those in `raftlog.client`, which run in an event loop in a thread of
their own. Any thread may use a producer or a broker client; one thread at a time uses a consumer.
"""

from asyncio import shield, wrap_future
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, Literal, Self, Unpack

from raftlog import client as asynchronous
from raftlog.client.consumers.consumed_offsets import ConsumedOffsets, OffsetsOfGroup
from raftlog.client.consumers.consumer_settings import ConsumerRecord, GroupConsumerOptions
from raftlog.client.loop_thread import C, LoopThread, P, ThreadedClient, closing_call, loop_call, waiting_call
from raftlog.client.producers.delivery import Delivered
from raftlog.client.producers.producer_settings import ProducerOptions
from raftlog.client.producers.transactional_producer import TRANSACTION_TIMEOUT_MS
from raftlog.client.serializers import Deserializer, K, Serializer, V
from raftlog.records import NewRecord
from raftlog.types import TopicPartition

__all__ = ["BrokerClient", "Consumer", "Delivery", "Producer", "TransactionalProducer"]


class Delivery:
    """Record that was sent, and its result."""

    def __init__(self, delivery: asynchronous.Delivery, thread: LoopThread) -> None:
        self._delivery, self._thread = delivery, thread

    @property
    def outcome(self) -> Literal["pending", "done", "failed", "unknown"]:
        """State of the record now."""
        return self._delivery.outcome

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Wait until the record is stored, and return its partition and offset.

        Raises the reason why it is not stored, or may not be, and `TimeoutError` while it is pending."""

        async def wait_for_delivery() -> Delivered:
            """Wait for the result in the event loop."""
            return await self._delivery

        return (
            self._delivery.result() if self.outcome != "pending" else self._thread.call(wait_for_delivery(), timeout_s)
        )


def _accepting_call(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, asynchronous.Delivery]],
) -> Callable[Concatenate[ThreadedClient[C], P], Delivery]:
    """Wrap a coroutine function that takes a record as a call that waits only until the record is accepted."""
    call = waiting_call(method)

    @wraps(method)
    def send(self: ThreadedClient[C], /, *args: P.args, **named: P.kwargs) -> Delivery:
        """Accept a record; return its delivery."""
        return Delivery(call(self, *args, **named), self._thread)

    return send


class Producer(ThreadedClient["asynchronous.Producer[K, V]"], Generic[K, V]):
    """`raftlog.client.Producer` for synchronous programs."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Start the producer's thread; raise `InvalidArgument`. docs/CLIENT.md describes each setting."""
        super().__init__(
            "raftlog-producer",
            lambda: asynchronous.Producer(
                bootstrap, key_serializer=key_serializer, value_serializer=value_serializer, **options
            ),
        )

    send = _accepting_call(asynchronous.Producer.send)
    send_and_wait = waiting_call(asynchronous.Producer.send_and_wait)
    flush = waiting_call(asynchronous.Producer.flush)
    close = closing_call(asynchronous.Producer.close)

    def send_batch(self, topic: str, partition: int, records: Sequence[NewRecord | bytes]) -> list[Delivery]:
        """Accept many records of one partition, bytes or `NewRecord`s, as one batch or several.

        Return one delivery for each batch, that of its last record."""
        deliveries = self._thread.call(self._client.send_batch(topic, partition, records))
        return [Delivery(delivery, self._thread) for delivery in deliveries]


class TransactionalProducer(Producer[K, V]):
    """`raftlog.client.TransactionalProducer` for synchronous programs."""

    _client: "asynchronous.TransactionalProducer[K, V]"

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Start the producer's thread; raise `InvalidArgument`. docs/CLIENT.md describes each setting."""
        ThreadedClient.__init__(
            self,
            "raftlog-producer",
            lambda: asynchronous.TransactionalProducer(
                bootstrap,
                transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                **options,
            ),
        )

    def transaction(self, consumer: "Consumer[Any, Any] | None" = None) -> AbstractContextManager[None]:
        """Return a context manager for one transaction: see `raftlog.client.TransactionalProducer.transaction`."""
        source = None if consumer is None else _ThreadedOffsets(consumer.consumed_offsets(), consumer.thread)
        return _ThreadedTransaction(self._client.transaction_of(source), self._thread)


class _ThreadedTransaction(AbstractContextManager[None]):
    """Context manager that runs a transaction in the thread of its producer."""

    def __init__(self, transaction: AbstractAsyncContextManager[None], thread: LoopThread) -> None:
        self._transaction, self._thread = transaction, thread

    def __enter__(self) -> None:
        async def enter() -> None:
            """Begin the transaction in the event loop."""
            await self._transaction.__aenter__()

        self._thread.call(enter())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit the transaction, or abort it after an error."""

        async def leave() -> None:
            """End the transaction in the event loop."""
            await self._transaction.__aexit__(kind, error, trace)

        self._thread.call(leave())


class _ThreadedOffsets:
    """Adapter that gives a transaction the offsets of a consumer in another thread.

    The calls that end a transaction are not cancelled, so that consumer and producer agree on its outcome."""

    def __init__(self, offsets: ConsumedOffsets, thread: LoopThread) -> None:
        self._offsets, self._thread = offsets, thread

    async def begin(self) -> None:
        """Begin a transaction in the consumer's loop."""
        await wrap_future(self._thread.submit(self._offsets.begin()))

    async def collect(self) -> OffsetsOfGroup:
        """Return the offsets to commit, from the consumer's loop."""
        return await wrap_future(self._thread.submit(self._offsets.collect()))

    async def set_committed(self, offsets: OffsetsOfGroup) -> None:
        """Record the committed offsets in the consumer's loop, even if this call is cancelled."""
        await shield(wrap_future(self._thread.submit(self._offsets.set_committed(offsets))))

    async def rewind(self) -> None:
        """Reset the positions in the consumer's loop, even if this call is cancelled."""
        await shield(wrap_future(self._thread.submit(self._offsets.rewind())))


class Consumer(ThreadedClient["asynchronous.Consumer[K, V]"], Generic[K, V]):
    """`raftlog.client.Consumer` for synchronous programs.

    Rebalance listeners are coroutines, called in the client's thread."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *topics: str,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        where: Callable[[ConsumerRecord[K, V]], object] | None = None,
        **options: Unpack[GroupConsumerOptions],
    ) -> None:
        """Start the consumer's thread; raise `InvalidArgument`. docs/CLIENT.md describes each setting."""
        super().__init__(
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

    def __iter__(self) -> Self:
        return self

    __next__ = waiting_call(asynchronous.Consumer.__anext__)
    poll = waiting_call(asynchronous.Consumer.poll)
    subscribe = loop_call(asynchronous.Consumer.subscribe)
    assign = waiting_call(asynchronous.Consumer.assign)
    position = waiting_call(asynchronous.Consumer.position)
    seek = loop_call(asynchronous.Consumer.seek)
    seek_to_beginning = loop_call(asynchronous.Consumer.seek_to_beginning)
    seek_to_end = loop_call(asynchronous.Consumer.seek_to_end)
    seek_from_end = loop_call(asynchronous.Consumer.seek_from_end)
    seek_to_timestamp = loop_call(asynchronous.Consumer.seek_to_timestamp)
    pause = loop_call(asynchronous.Consumer.pause)
    resume = loop_call(asynchronous.Consumer.resume)
    commit = waiting_call(asynchronous.Consumer.commit)
    committed = waiting_call(asynchronous.Consumer.committed)
    consumed_offsets = loop_call(asynchronous.Consumer.consumed_offsets)
    close = closing_call(asynchronous.Consumer.close)

    @property
    def thread(self) -> LoopThread:
        """Thread of the consumer, for a transaction."""
        return self._thread

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that are read at present."""
        return self._client.assignment


class BrokerClient(ThreadedClient[asynchronous.BrokerClient]):
    """Topics, offsets and the cluster's state, synchronously; `raftlog.client.BrokerClient` has the full API."""

    def __init__(self, bootstrap: str | Sequence[str]) -> None:
        """Start the client's thread; raise `InvalidArgument`."""
        super().__init__("raftlog-client", lambda: asynchronous.BrokerClient(bootstrap))

    brokers = waiting_call(asynchronous.BrokerClient.brokers)
    health = waiting_call(asynchronous.BrokerClient.health)
    topics = waiting_call(asynchronous.BrokerClient.topics)
    describe_topic = waiting_call(asynchronous.BrokerClient.describe_topic)
    create_topic = waiting_call(asynchronous.BrokerClient.create_topic)
    create_partitions = waiting_call(asynchronous.BrokerClient.create_partitions)
    alter_topic_config = waiting_call(asynchronous.BrokerClient.alter_topic_config)
    delete_topic = waiting_call(asynchronous.BrokerClient.delete_topic)
    offsets = waiting_call(asynchronous.BrokerClient.offsets)
    close = closing_call(asynchronous.BrokerClient.close)
