"""Adapter of librdkafka, by `confluent_kafka`.

Callbacks of producers run in the event loop, which polls them. Each consumer has a thread of its own, in which its
blocking calls run one after another."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

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
from raftlog.errors import InvalidArgument, OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition

POLL_S: Final = 0.005
PURGE_S: Final = 0.5
NO_GROUP: Final = "readers"
"""Group of consumers that never commit, because the library requires a group."""
RECORDS_MAX: Final = 2000
_NEVER_SENT: Final = frozenset((KafkaError._PURGE_QUEUE, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC))
_METADATA_MAGIC: Final = b"CGMDv2:"
"""Prefix of librdkafka's group metadata; generation, group and member id follow."""

T = TypeVar("T")


class LibrdkafkaProducer:
    """Producer of librdkafka behind the interface `RecordProducer`."""

    def __init__(self, settings: Mapping[str, Any], *, sends_once: bool) -> None:
        """Create a producer; `sends_once` is whether it sends each record at most once."""
        self._producer = Producer(dict(settings))
        self._sends_once = sends_once
        self._loop = asyncio.get_running_loop()
        self._polling = self._loop.create_task(self._poll())

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> Awaitable[DeliveredOffset]:
        """Queue a record, and return an awaitable of its offset. Raises `Unavailable` if it was not accepted."""
        delivery: asyncio.Future[DeliveredOffset] = self._loop.create_future()
        where: dict[str, Any] = {} if partition is None else {"partition": partition}
        try:
            self._producer.produce(
                topic, value, key, headers=list(headers), on_delivery=partial(self._on_delivery, delivery), **where
            )
        except (BufferError, KafkaException) as error:
            raise Unavailable(f"not accepted: {error}") from error
        return delivery

    def _on_delivery(self, delivery: "asyncio.Future[DeliveredOffset]", error: KafkaError | None, message: Any) -> None:
        """Complete a delivery with the offset of the record, or with the error that its outcome requires."""
        if delivery.done():
            return
        if error is None and message.offset() is None:
            delivery.set_exception(OutcomeUnknown("stored, at an offset without an answer"))
        elif error is None:
            delivery.set_result(DeliveredOffset(Offset(message.offset())))
        elif self._sends_once and error.code() in _NEVER_SENT:
            delivery.set_exception(Unavailable(str(error)))
        else:
            delivery.set_exception(send_error(error.code(), str(error), was_sent_once=self._sends_once))

    async def _poll(self) -> None:
        """Run the callbacks of deliveries every `POLL_S` seconds, until cancelled."""
        while True:
            self._producer.poll(0)
            await asyncio.sleep(POLL_S)

    async def _wait_empty(self, until: float) -> None:
        """Wait until no record is queued or in flight, at most until `until` by the loop's clock."""
        while len(self._producer) and self._loop.time() < until:  # noqa: ASYNC110 - the library has no event for it
            await asyncio.sleep(POLL_S)

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait up to `timeout_s` seconds (default: `CLOSE_S`) for deliveries, then drop the open ones."""
        until = self._loop.time() + (CLOSE_S if timeout_s is None else timeout_s)
        await self._wait_empty(until)
        self._producer.purge()
        await self._wait_empty(self._loop.time() + PURGE_S)
        self._polling.cancel()


class LibrdkafkaConsumer:
    """Base of consumers; each has its own thread."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Create a consumer with a thread for its blocking calls."""
        self._consumer = Consumer(dict(settings))
        self._thread = ThreadPoolExecutor(1, "consumer")
        self._loop = asyncio.get_running_loop()

    async def _call(self, work: Callable[[], T]) -> T:
        """Run a blocking call in the consumer's thread. Raises `Unavailable`."""
        try:
            return await self._loop.run_in_executor(self._thread, work)
        except KafkaException as error:
            raise Unavailable(str(error)) from error

    def _consume(self, timeout_ms: int) -> list[ConsumedRecord]:
        """Return the next records, at most `RECORDS_MAX`; empty if none arrives within the timeout.

        Raises `KafkaException` if there are only errors."""
        messages = self._consumer.consume(RECORDS_MAX, timeout_ms / 1000)
        errors = [message.error() for message in messages if message.error() is not None]
        found = [_convert_record(message) for message in messages if message.error() is None]
        if errors and not found:
            raise KafkaException(errors[0])
        return found

    async def committed(self, places: Sequence[TopicPartition], timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets; partitions without one are omitted. Raises `Unavailable`."""
        wanted = [KafkaPartition(*place) for place in places]
        found = await self._call(lambda: self._consumer.committed(wanted, timeout_ms / 1000))
        if failed := [each.error for each in found if each.error is not None]:
            raise Unavailable(str(failed[0]))
        return {TopicPartition(each.topic, each.partition): Offset(each.offset) for each in found if each.offset >= 0}

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets synchronously. Raises `KafkaException`."""
        rows = [KafkaPartition(*place, offset) for place, offset in offsets.items()]
        done = self._consumer.commit(offsets=rows, asynchronous=False)
        if failed := [each.error for each in done or () if each.error is not None]:
            raise KafkaException(failed[0])

    async def _try_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets. After any failure the outcome is unknown, since the library repeats the request."""
        try:
            await self._call(partial(self._commit, offsets))
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from error

    async def close(self) -> None:
        """Leave the group and close the connections, within `CLOSE_S` seconds."""
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._call(self._consumer.close)
        self._thread.shutdown(wait=False)


class LibrdkafkaAssigned(LibrdkafkaConsumer):
    """Consumer of librdkafka behind `AssignedConsumer`, which seeks only if its position is not the requested one."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._at: tuple[TopicPartition, int] | None = None

    async def fetch(self, place: TopicPartition, offset: int, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return the next records of a partition from `offset` on; empty after the timeout. Raises `Unavailable`."""
        at, self._at = self._at, None
        found = await self._call(partial(self._fetch, place, offset, timeout_ms, is_there=at == (place, offset)))
        self._at = place, found[-1].offset + 1 if found else offset
        return found

    def _fetch(self, place: TopicPartition, offset: int, timeout_ms: int, *, is_there: bool) -> list[ConsumedRecord]:
        """Consume the partition, after a seek unless the consumer `is_there`, at this offset; drop other records."""
        if not is_there:
            self._consumer.assign([KafkaPartition(*place, offset)])
        found = self._consume(timeout_ms)
        return [each for each in found if (each.topic, each.partition) == place]

    async def offsets(self, place: TopicPartition, timeout_ms: int) -> tuple[int, int]:
        """Return the first and end offset of a partition. Raises `Unavailable`."""
        wanted = KafkaPartition(*place)
        found = await self._call(lambda: self._consumer.get_watermark_offsets(wanted, timeout_ms / 1000))
        if found is None:
            raise Unavailable("no offsets within the timeout")
        return found

    async def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit offsets of the group, without a member."""
        await self._try_commit(offsets)


class LibrdkafkaSubscribed(LibrdkafkaConsumer):
    """Consumer of librdkafka behind the interface `SubscribedConsumer`."""

    def __init__(self, settings: Mapping[str, Any], topics: Sequence[str]) -> None:
        super().__init__(settings)
        self._topics = list(topics)

    async def __aenter__(self) -> Self:
        await self._call(lambda: self._consumer.subscribe(self._topics))
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def poll(self, *, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return the next records; empty if none arrives within the timeout. Raises `Unavailable`."""
        return await self._call(partial(self._consume, timeout_ms))


class LibrdkafkaMember(LibrdkafkaConsumer):
    """Consumer of librdkafka behind `MemberConsumer`. Rebalances happen only inside of polls, never during a commit."""

    def __init__(self, settings: Mapping[str, Any], topics: Sequence[str], on_assigned: OnAssigned) -> None:
        super().__init__(settings)
        self._topics, self._on_assigned = list(topics), on_assigned
        self._owned: set[TopicPartition] = set()

    async def start(self) -> None:
        """Subscribe to the topics; the library joins the group with the first poll."""
        await self._call(
            lambda: self._consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )
        )

    def _on_assign(self, _consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Add the partitions to the owned ones, and report these in the event loop; called in the consumer's thread."""
        self._owned |= {TopicPartition(each.topic, each.partition) for each in partitions}
        self._loop.call_soon_threadsafe(self._on_assigned, self.identity(), tuple(sorted(self._owned)))

    def _on_revoke(self, _consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Remove the partitions from the owned ones; called in the consumer's thread."""
        self._owned -= {TopicPartition(each.topic, each.partition) for each in partitions}

    def identity(self) -> MemberIdentity:
        """Return the member id and generation, parsed from the library's group metadata."""
        content = bytes(self._consumer.consumer_group_metadata())
        if not content.startswith(_METADATA_MAGIC):
            raise InvalidArgument(f"group metadata of an unknown form: {content!r}")
        rest = content[len(_METADATA_MAGIC) :]
        _group, member, *_ = rest[4:].split(b"\0")
        return MemberIdentity(member.decode(), int.from_bytes(rest[:4], "little", signed=True))

    async def poll(self, timeout_ms: int) -> Sequence[ConsumedRecord]:
        """Return the next records; empty if none arrives within the timeout. Raises `Unavailable`."""
        return await self._call(partial(self._consume, timeout_ms))

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets under the member's identity."""
        await self._try_commit(offsets)


class Librdkafka:
    """Factory of librdkafka's clients, with the interface `KafkaLibrary`."""

    can_send_once: Final = True
    strategies: Final = ("range", "roundrobin", "cooperative-sticky")

    def __init__(self, bootstrap: str) -> None:
        self._common = common_settings(bootstrap)

    def new_producer(self, times: ProducerTimes) -> LibrdkafkaProducer:
        """Return an idempotent producer that retries until the delivery timeout."""
        settings = {
            **self._common,
            "enable.idempotence": True,
            "linger.ms": times.linger_ms,
            "request.timeout.ms": times.request_timeout_ms,
            "message.timeout.ms": times.delivery_timeout_ms,
        }
        return LibrdkafkaProducer(settings, sends_once=False)

    def new_plain_producer(self, settings: PlainSettings) -> LibrdkafkaProducer:
        """Return a producer without retries."""
        found = {
            **self._common,
            "acks": settings.acks,
            "message.send.max.retries": 0,
            "request.timeout.ms": settings.timeout_ms,
            "message.timeout.ms": settings.timeout_ms,
            "compression.type": "lz4" if settings.is_compressed else "none",
        }
        return LibrdkafkaProducer(found, sends_once=True)

    def _consumer_settings(self, group: str, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a consumer without automatic commits; `more` overrides them."""
        return {**self._common, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", **more}

    def new_assigned(self, group: str, places: Sequence[TopicPartition]) -> LibrdkafkaAssigned:
        """Return a reader or, with a group, a client for the group's offsets; `places` is not needed."""
        return LibrdkafkaAssigned(
            self._consumer_settings(group or NO_GROUP, {"auto.offset.reset": "error", "fetch.wait.max.ms": 200})
        )

    def new_consumer(
        self, topics: Sequence[str], group: str, session_timeout_ms: int, wait_ms: int
    ) -> LibrdkafkaSubscribed:
        """Return a group member that commits automatically every 500 ms."""
        more = {
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 500,
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": session_timeout_ms // 4,
            "max.poll.interval.ms": 3 * session_timeout_ms,
            "fetch.wait.max.ms": wait_ms,
        }
        return LibrdkafkaSubscribed(self._consumer_settings(group, more), topics)

    def new_member(self, settings: MemberSettings, on_assigned: OnAssigned) -> LibrdkafkaMember:
        """Return a group member without automatic commits."""
        more = {
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.session_timeout_ms // 4,
            "max.poll.interval.ms": settings.poll_interval_ms_max,
            "partition.assignment.strategy": settings.strategy,
            **({} if settings.instance is None else {"group.instance.id": settings.instance}),
        }
        return LibrdkafkaMember(self._consumer_settings(settings.group, more), settings.topics, on_assigned)


def common_settings(bootstrap: str) -> dict[str, Any]:
    """Return the settings of every client."""
    return {"bootstrap.servers": bootstrap, "log_level": 2, "reconnect.backoff.max.ms": 1000}


def _convert_record(message: Any) -> ConsumedRecord:
    """Return the record of a message of the library."""
    return ConsumedRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        list(message.headers() or ()),
    )
