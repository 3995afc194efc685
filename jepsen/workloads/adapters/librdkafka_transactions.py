"""Transactions of librdkafka, by `confluent_kafka`.

Blocking calls of a producer run in a thread of its own, and its deliveries are polled in the event loop."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from jepsen.workloads.adapters.library import ConsumedRecord
from jepsen.workloads.adapters.librdkafka import POLL_S, LibrdkafkaConsumer, common_settings
from jepsen.workloads.adapters.transactional import ChainConsumer, ChainSettings, TransactionSettings, abort_after
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition

_ATTEMPTS: Final = 3
"""Number of attempts of a call whose error can be retried."""
T = TypeVar("T")


class LibrdkafkaTransactional:
    """Transactional producer of librdkafka behind the interface `TransactionalProducer`."""

    def __init__(self, common: Mapping[str, Any], settings: TransactionSettings) -> None:
        """Create a transactional producer with the settings `common` of all clients.

        Its deliveries are polled from now on."""
        self._settings = settings
        self._configuration = {
            **common,
            "transactional.id": settings.transactional_id,
            "transaction.timeout.ms": settings.timeout_ms,
            "message.timeout.ms": settings.timeout_ms,
            "socket.timeout.ms": settings.request_ms,
            "linger.ms": 0,
        }
        self._producer = Producer(self._configuration)
        self._thread = ThreadPoolExecutor(1, "transactions")
        self._loop = asyncio.get_running_loop()
        self._polling = self._loop.create_task(self._poll())

    async def _poll(self) -> None:
        """Run the callbacks of deliveries every `POLL_S` seconds, until cancelled."""
        while True:
            self._producer.poll(0)
            await asyncio.sleep(POLL_S)

    async def _call(self, work: Callable[[], T]) -> T:
        """Run a blocking call in the producer's thread. Raises `KafkaException`."""
        return await self._loop.run_in_executor(self._thread, work)

    async def _try(self, work: Callable[[], None]) -> None:
        """Run a call that may be retried. Raises `Unavailable`."""
        for attempt in range(_ATTEMPTS):
            try:
                await self._call(work)
            except KafkaException as error:
                if attempt + 1 == _ATTEMPTS or not error.args[0].retriable():
                    raise Unavailable(str(error)) from error
            else:
                return

    async def start(self) -> None:
        """Initialize the transactional id, which fences earlier producers. Raises `Unavailable`."""
        await self._try(lambda: self._producer.init_transactions(self._settings.timeout_ms / 1000))

    async def begin(self, consumer: ChainConsumer | None = None) -> None:
        """Begin a transaction. Raises `Unavailable`."""
        await self._try(self._producer.begin_transaction)

    async def append(self, place: TopicPartition, value: bytes) -> Offset:
        """Append a record in the transaction and return its offset.

        Raises `Unavailable` if it was not accepted, and `OutcomeUnknown`."""
        delivery: asyncio.Future[Offset] = self._loop.create_future()
        try:
            self._producer.produce(
                place.topic, value, partition=place.partition, on_delivery=partial(self._on_delivery, delivery)
            )
        except (BufferError, KafkaException) as error:
            raise Unavailable(f"not accepted: {error}") from error
        return await delivery

    def _on_delivery(self, delivery: "asyncio.Future[Offset]", error: KafkaError | None, message: Any) -> None:
        """Complete an append with its offset, or with `OutcomeUnknown`."""
        if delivery.done():
            return
        if error is not None:
            delivery.set_exception(OutcomeUnknown(str(error)))
        elif message.offset() is None or message.offset() < 0:
            delivery.set_exception(OutcomeUnknown("stored, at an offset without an answer"))
        else:
            delivery.set_result(Offset(message.offset()))

    async def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: ChainConsumer) -> None:
        """Add the offsets to the transaction, for the member and generation of `consumer`."""
        assert isinstance(consumer, LibrdkafkaChainConsumer), consumer
        rows = [KafkaPartition(*place, offset) for place, offset in offsets.items()]
        group = consumer.group_metadata()
        timeout_s = self._settings.timeout_ms / 1000
        await self._try(lambda: self._producer.send_offsets_to_transaction(rows, group, timeout_s))

    async def commit(self) -> None:
        """Commit the transaction, with up to `_ATTEMPTS` attempts.

        Raises `Unavailable` if the transaction had to be aborted, and `OutcomeUnknown`."""
        for attempt in range(_ATTEMPTS):
            try:
                await self._call(lambda: self._producer.commit_transaction(self._settings.timeout_ms / 1000))
            except KafkaException as error:
                reason = error.args[0]
                if reason.txn_requires_abort():
                    await abort_after(self, error)
                if attempt + 1 == _ATTEMPTS or not reason.retriable():
                    raise OutcomeUnknown(str(error)) from error
            else:
                return

    async def abort(self) -> None:
        """Abort the transaction. Raises `Unavailable`."""
        await self._try(lambda: self._producer.abort_transaction(self._settings.timeout_ms / 1000))

    async def close(self) -> None:
        """Drop queued records and stop the threads; the open transaction is not ended."""
        self._producer.purge()
        self._producer.poll(0)
        self._polling.cancel()
        self._thread.shutdown(wait=False)


class LibrdkafkaChainConsumer(LibrdkafkaConsumer):
    """Group member of librdkafka behind `ChainConsumer`, which fences its commits by the group's generation."""

    def __init__(self, configuration: Mapping[str, Any], settings: ChainSettings) -> None:
        """Create a group member that reads only committed records; `configuration` has the other settings."""
        more = {
            "isolation.level": "read_committed",
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.session_timeout_ms // 4,
            "max.poll.interval.ms": 3 * settings.session_timeout_ms,
        }
        super().__init__({**configuration, **more})
        self._topic = settings.topic

    async def start(self) -> None:
        """Subscribe to the input topic; the library joins the group with the first poll."""
        await self._call(lambda: self._consumer.subscribe([self._topic]))

    def group_metadata(self) -> object:
        """Return the group's metadata, which names the member and its generation."""
        return self._consumer.consumer_group_metadata()

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        """Return the next committed records; empty if none arrives within the timeout."""
        return await self._call(partial(self._consume, timeout_ms))

    async def stable(self, timeout_ms: int) -> dict[TopicPartition, Offset | None]:
        """Return the committed offsets of all owned partitions, without pending ones."""
        places = await self._call(self._consumer.assignment)
        if not places:
            return {}
        found = await self._call(lambda: self._consumer.committed(places, timeout_ms / 1000))
        if failed := [each.error for each in found if each.error is not None]:
            raise Unavailable(str(failed[0]))
        return {
            TopicPartition(each.topic, each.partition): Offset(each.offset) if each.offset >= 0 else None
            for each in found
        }


class LibrdkafkaTransactions:
    """Factory of librdkafka's transactional clients, with the interface `TransactionalLibrary`."""

    names_members: Final = True

    def __init__(self, bootstrap: str) -> None:
        self._common = common_settings(bootstrap)

    def new_producer(self, settings: TransactionSettings) -> LibrdkafkaTransactional:
        return LibrdkafkaTransactional(self._common, settings)

    def new_consumer(self, settings: ChainSettings) -> LibrdkafkaChainConsumer:
        more = {"group.id": settings.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return LibrdkafkaChainConsumer({**self._common, **more}, settings)

    async def close(self) -> None:
        """Do nothing: producers and consumers share nothing."""
