"""Adapter of aiokafka.

Its idempotent producers retry requests without end, and the others may store a record twice. So all producers here are
idempotent. Clients connect with their first request, and retry until a broker answers."""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Self, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, OutOfOrderSequenceNumber

from jepsen.workloads.adapters.library import (
    CLOSE_S,
    ConsumedRecord,
    DeliveredOffset,
    MemberIdentity,
    MemberSettings,
    OnAssigned,
    PlainSettings,
    send_error,
)
from jepsen.workloads.adapters.port import ProducerTimes
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition

START_S: Final = 5.0
REQUEST_MS: Final = 3_000
BATCH_MS: Final = 15_000
"""Time after which a batch expires; if it was sent before, its sequences are missing, and later batches are refused."""
_ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
_RECORDS_MAX: Final = 2000

T = TypeVar("T")


class AioProducer:
    """Producer of aiokafka behind the interface `RecordProducer`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Create a producer that starts with its first record; `settings` are those of `AIOKafkaProducer`."""
        self._settings = settings
        self._starting: asyncio.Task[AIOKafkaProducer] | None = None
        self._deliveries: set[asyncio.Future[DeliveredOffset]] = set()
        self._is_broken = False
        """Whether a batch with a sequence has expired: the library sends later batches, which are then refused."""

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> Awaitable[DeliveredOffset]:
        """Send a record, and return an awaitable of its offset. Raises `Unavailable` if the record was not accepted."""
        if self._is_broken:
            raise Unavailable("the producer lost a batch, and every later one is out of order")
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        try:
            producer = await asyncio.shield(self._starting)
            accepted = await producer.send(topic, value, key, partition=partition, headers=list(headers) or None)
        except KafkaError as error:
            raise Unavailable(f"not accepted: {error!r}") from error
        delivery: asyncio.Future[DeliveredOffset] = asyncio.get_running_loop().create_future()
        self._deliveries.add(delivery)
        accepted.add_done_callback(partial(self._complete, delivery))
        delivery.add_done_callback(self._deliveries.discard)
        return delivery

    async def _start(self) -> AIOKafkaProducer:
        """Start the library's producer. Raises `Unavailable` after `START_S` seconds, and `KafkaError`."""
        producer = AIOKafkaProducer(**self._settings)
        try:
            async with asyncio.timeout(START_S):
                await producer.start()
        except TimeoutError as error:
            await close_producer(producer)
            raise Unavailable("no producer id within the timeout") from error
        except (KafkaError, asyncio.CancelledError):
            await close_producer(producer)
            raise
        return producer

    def _complete(self, delivery: "asyncio.Future[DeliveredOffset]", accepted: "asyncio.Future[Any]") -> None:
        """Complete a delivery by the library's future `accepted`; after a missing sequence the producer is broken."""
        if not accepted.cancelled() and isinstance(accepted.exception(), OutOfOrderSequenceNumber):
            self._is_broken = True
        _complete(delivery, accepted)

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait up to `timeout_s` seconds (default: `CLOSE_S`) for deliveries, then close the connections.

        Open deliveries raise `OutcomeUnknown`. The library's `stop` is not used, because it would go on sending."""
        starting = self._starting
        if starting is None or not starting.done() or starting.cancelled() or starting.exception() is not None:
            if starting is not None:
                starting.cancel()
                await asyncio.wait([starting])
            return
        if self._deliveries:
            await asyncio.wait(self._deliveries, timeout=CLOSE_S if timeout_s is None else timeout_s)
        await close_producer(starting.result())
        for delivery in list(self._deliveries):
            if not delivery.done():
                delivery.set_exception(OutcomeUnknown("the producer was closed"))


async def close_producer(producer: AIOKafkaProducer) -> None:
    """Close the connections of a producer, started or not; `stop` would send its unsent records first."""
    with suppress(TimeoutError, KafkaError):
        async with asyncio.timeout(CLOSE_S):
            if producer._sender is not None:
                await producer._sender.close()
            await producer.client.close()
    producer._closed = True


def _complete(delivery: "asyncio.Future[DeliveredOffset]", accepted: "asyncio.Future[Any]") -> None:
    """Complete `delivery` with the outcome of the library's future, unless its sender was cancelled."""
    error = None if accepted.cancelled() else accepted.exception()
    if delivery.done():
        return
    if accepted.cancelled():
        delivery.set_exception(OutcomeUnknown("the producer was closed"))
    elif isinstance(error, KafkaError):
        delivery.set_exception(send_error(getattr(error, "errno", 0), repr(error), was_sent_once=False))
    elif error is not None:
        delivery.set_exception(error)
    elif accepted.result() is None or accepted.result().offset < 0:
        delivery.set_exception(OutcomeUnknown("stored, at an offset without an answer"))
    else:
        delivery.set_result(DeliveredOffset(Offset(accepted.result().offset)))


class AioConsumer:
    """Base of consumers, which start at their first use."""

    def __init__(self, topics: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Create a consumer that starts with its first request; `settings` are those of `AIOKafkaConsumer`."""
        self._topics, self._settings = topics, settings
        self._places: list[KafkaPartition] = []
        """Partitions to assign at the start, paused so that nothing is fetched; empty if the consumer subscribes."""
        self._created: AIOKafkaConsumer | None = None
        """Consumer that was created last; its start may be pending or have failed."""
        self._running: AIOKafkaConsumer | None = None
        """Consumer that has started and is not closed."""
        self._starting = asyncio.Lock()

    async def _ensure_started(self, listener: ConsumerRebalanceListener | None = None) -> AIOKafkaConsumer:
        """Return the consumer, started if necessary. Raises `Unavailable` without a broker."""
        async with self._starting:
            return self._running or await self._start(listener)

    async def _start(self, listener: ConsumerRebalanceListener | None) -> AIOKafkaConsumer:
        """Create and start the library's consumer, subscribed to the topics or with the partitions assigned.

        Raises `Unavailable` after `START_S` seconds."""
        consumer = self._created = AIOKafkaConsumer(**self._settings)
        if self._topics:
            consumer.subscribe(list(self._topics), listener=listener)
        if self._places:
            consumer.assign(self._places)
            consumer.pause(*self._places)
        try:
            async with asyncio.timeout(START_S):
                await consumer.start()
        except (KafkaError, TimeoutError) as error:
            await _stop_consumer(consumer)
            raise Unavailable(f"not started: {error!r}") from error
        except asyncio.CancelledError:
            await _stop_consumer(consumer)
            raise
        self._running = consumer
        return consumer

    async def _call(self, work: Coroutine[Any, Any, T], timeout_ms: int) -> T:
        """Await a call of the library. Raises `Unavailable` for its errors, and after the timeout."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await work
        except (KafkaError, TimeoutError) as error:
            raise Unavailable(repr(error)) from error

    async def _poll(self, consumer: AIOKafkaConsumer, timeout_ms: int) -> list[ConsumedRecord]:
        """Return the next records of all assigned partitions, at most `_RECORDS_MAX`. Raises `Unavailable`."""
        try:
            found = await consumer.getmany(timeout_ms=timeout_ms, max_records=_RECORDS_MAX)
        except KafkaError as error:
            raise Unavailable(repr(error)) from error
        return [_convert_record(each) for records in found.values() for each in records]

    async def _committed(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets of partitions; those without one are omitted. Raises `Unavailable`."""
        consumer = await self._ensure_started()
        found = {}
        for place in places:
            offset = await self._call(consumer.committed(KafkaPartition(*place)), timeout_ms)
            if offset is not None:
                found[place] = Offset(offset)
        return found

    async def _commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit offsets. After any failure the outcome is unknown, since the library repeats the request."""
        consumer = await self._ensure_started()
        rows = {KafkaPartition(*place): offset for place, offset in offsets.items()}
        # A cancelled commit would leave a request behind whose error nothing awaits.
        commit = asyncio.create_task(consumer.commit(rows))
        commit.add_done_callback(_retrieve_exception)
        await asyncio.wait((commit,), timeout=timeout_ms / 1000)
        if not commit.done():
            raise OutcomeUnknown("no answer in time")
        error = commit.exception()
        if isinstance(error, KafkaError):
            raise OutcomeUnknown(repr(error)) from error
        if error is not None:
            raise error

    async def close(self) -> None:
        """Leave the group and close the connections, if the consumer has started."""
        if self._running is not None:
            await _stop_consumer(self._running)
            self._running = None


class AioAssigned(AioConsumer):
    """Consumer of aiokafka behind `AssignedConsumer`, which seeks only if its position is not the requested one.

    The partitions of a consumer with a group are assigned only once, because aiokafka loses the group's coordinator
    when the assignment changes during a request."""

    def __init__(self, settings: Mapping[str, Any], places: Sequence[TopicPartition]) -> None:
        """Create a consumer; with a group, `places` are the partitions that are assigned at its start."""
        super().__init__((), settings)
        self._places = [KafkaPartition(*place) for place in places]
        self._at: tuple[TopicPartition, int] | None = None

    async def fetch(self, place: TopicPartition, offset: int, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return the next records of a partition from `offset` on; empty after the timeout. Raises `Unavailable`."""
        at, self._at = self._at, None
        consumer = await self._ensure_started()
        if at != (place, offset):
            consumer.assign([KafkaPartition(*place)])
            consumer.seek(KafkaPartition(*place), offset)
        found = await self._poll(consumer, timeout_ms)
        self._at = place, found[-1].offset + 1 if found else offset
        return found

    async def offsets(self, place: TopicPartition, timeout_ms: int) -> tuple[int, int]:
        """Return the first and end offset of a partition. Raises `Unavailable`."""
        consumer, wanted = await self._ensure_started(), KafkaPartition(*place)
        start = await self._call(consumer.beginning_offsets([wanted]), timeout_ms)
        end = await self._call(consumer.end_offsets([wanted]), timeout_ms)
        return start[wanted], end[wanted]

    async def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit offsets of the group, without a member. Raises `Unavailable` or `OutcomeUnknown`."""
        await self._commit(offsets, timeout_ms)

    async def committed(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets; partitions without one are omitted. Raises `Unavailable`."""
        return await self._committed(places, timeout_ms)


class AioSubscribed(AioConsumer):
    """Consumer of aiokafka behind the interface `SubscribedConsumer`."""

    async def __aenter__(self) -> Self:
        await self._ensure_started()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def poll(self, *, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return the next records; empty if none arrives within the timeout. Raises `Unavailable`."""
        return await self._poll(await self._ensure_started(), timeout_ms)


class AioMember(AioConsumer, ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Consumer of aiokafka behind the interface `MemberConsumer`. A rebalance waits for the end of a commit."""

    def __init__(self, topics: Sequence[str], settings: Mapping[str, Any], on_assigned: OnAssigned) -> None:
        """Create a group member that starts with `start`; `on_assigned` is called after each assignment."""
        super().__init__(topics, settings)
        self._on_assigned = on_assigned
        self._committing = asyncio.Lock()

    async def start(self) -> None:
        """Start the consumer, which joins the group. Raises `Unavailable`."""
        await self._ensure_started(self)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Wait until a running commit has ended."""
        async with self._committing:
            return

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Report the new assignment with the member's identity."""
        self._on_assigned(self.identity(), tuple(sorted(TopicPartition(*each) for each in assigned)))

    def identity(self) -> MemberIdentity:
        """Return the member id and generation; an empty id and -1 before the first start."""
        coordinator = None if self._created is None else self._created._coordinator
        return MemberIdentity("", -1) if coordinator is None else _member_identity(coordinator)

    async def poll(self, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return the next records; empty if none arrives within the timeout. Raises `Unavailable`."""
        return await self._poll(await self._ensure_started(self), timeout_ms)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets under the member's identity; a rebalance waits until the commit has ended."""
        async with self._committing:
            await self._commit(offsets, REQUEST_MS)

    async def committed(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets; partitions without one are omitted. Raises `Unavailable`."""
        return await self._committed(places, timeout_ms)


class Aiokafka:
    """Factory of aiokafka's clients, with the interface `KafkaLibrary`."""

    can_send_once: Final = False
    strategies: Final = tuple(_ASSIGNORS)

    def __init__(self, bootstrap: str) -> None:
        self._common = common_settings(bootstrap)

    def new_producer(self, times: ProducerTimes) -> AioProducer:
        """Return an idempotent producer that retries until the delivery timeout."""
        more = {"linger_ms": times.linger_ms, "request_timeout_ms": times.delivery_timeout_ms}
        return AioProducer({**self._common, "enable_idempotence": True, **more})

    def new_plain_producer(self, settings: PlainSettings) -> AioProducer:
        """Return an idempotent producer for plain sends: the library cannot send only once (see module)."""
        return AioProducer(
            {
                **self._common,
                "enable_idempotence": True,
                "request_timeout_ms": BATCH_MS,
                "compression_type": "lz4" if settings.is_compressed else None,
            }
        )

    def _consumer_settings(self, group: str | None, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a consumer without automatic commits; `more` overrides them."""
        own = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        return {**self._common, **own, **more}

    def new_assigned(self, group: str, places: Sequence[TopicPartition]) -> AioAssigned:
        """Return a reader if `group` is empty, else a client for the group's offsets in the partitions `places`."""
        is_reader = not group
        reset = "none" if is_reader else "earliest"
        more = {"auto_offset_reset": reset, "fetch_max_wait_ms": 200, "isolation_level": "read_committed"}
        return AioAssigned(self._consumer_settings(group or None, more), () if is_reader else places)

    def new_consumer(self, topics: Sequence[str], group: str, session_timeout_ms: int, wait_ms: int) -> AioSubscribed:
        """Return a group member that commits automatically every 500 ms."""
        more = {
            "enable_auto_commit": True,
            "auto_commit_interval_ms": 500,
            **_session_settings(session_timeout_ms, 3 * session_timeout_ms),
            "fetch_max_wait_ms": wait_ms,
        }
        return AioSubscribed(topics, self._consumer_settings(group, more))

    def new_member(self, settings: MemberSettings, on_assigned: OnAssigned) -> AioMember:
        """Return a group member without automatic commits."""
        more = {
            **_session_settings(settings.session_timeout_ms, settings.poll_interval_ms_max),
            "partition_assignment_strategy": (_ASSIGNORS[settings.strategy],),
            "group_instance_id": settings.instance,
        }
        return AioMember(settings.topics, self._consumer_settings(settings.group, more), on_assigned)


def common_settings(bootstrap: str) -> dict[str, Any]:
    """Return the settings of every client."""
    return {"bootstrap_servers": bootstrap, "request_timeout_ms": REQUEST_MS, "metadata_max_age_ms": 5_000}


def _session_settings(session_timeout_ms: int, poll_interval_ms_max: int) -> dict[str, int]:
    """Return the library's timeouts of a group member."""
    return {
        "session_timeout_ms": session_timeout_ms,
        "heartbeat_interval_ms": session_timeout_ms // 4,
        "max_poll_interval_ms": poll_interval_ms_max,
        "rebalance_timeout_ms": poll_interval_ms_max,
    }


def _member_identity(coordinator: Any) -> MemberIdentity:
    """Return the member id and generation of the library's group coordinator object."""
    return MemberIdentity(str(coordinator.member_id), int(coordinator.generation))


def _convert_record(record: Any) -> ConsumedRecord:
    """Return the record of the library as `ConsumedRecord`."""
    return ConsumedRecord(
        record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, list(record.headers)
    )


def _retrieve_exception(done: "asyncio.Task[None]") -> None:
    """Retrieve the exception of a task that may not be awaited any more, so that it is not logged."""
    if not done.cancelled():
        done.exception()


async def _stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop the consumer within `CLOSE_S` seconds; ignore its errors."""
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await consumer.stop()
