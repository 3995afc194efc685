"""`HandlerLoop`: calls a handler for each record of a consumer group, with retries and a dead-letter topic.

    async def bill(record: ConsumerRecord) -> None: ...

    async with HandlerLoop(BROKERS, "orders", group="billing", handler=bill, dead_letter_topic="orders-dead") as loop:
        await loop.run()

Records are handled at least once. Up to `concurrency` handlers run at a time; `order` determines which records wait for
each other. An offset is committed when all records before it are handled or stored as dead letters. Partitions are
given up in a rebalance only when their handlers have ended.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import Final, Generic, Literal, TypeAlias, Unpack

from raftlog.backoff import Backoff
from raftlog.client.consumers.consumer import Consumer
from raftlog.client.consumers.consumer_settings import ConsumerOptions, ConsumerRecord, RebalanceListener
from raftlog.client.consumers.conversion import Conversion
from raftlog.client.consumers.dead_letters import DeadLetters
from raftlog.client.consumers.handled_offsets import HandledOffsets
from raftlog.client.outage import PAUSE_S_MIN
from raftlog.client.producers.producer import Producer
from raftlog.client.serializers import DeserializationFailed, Deserializer, K, V
from raftlog.context import AsyncClosedAtExit
from raftlog.errors import (
    InvalidArgument,
    OutcomeUnknown,
    RaftlogError,
    RequestError,
    StaleGeneration,
    Unavailable,
    UnknownMember,
)
from raftlog.types import TopicPartition

Order: TypeAlias = Literal["key", "partition", "none"]
ORDERS: Final = ("key", "partition", "none")
_POLL_MS: Final = 200
_log = logging.getLogger("raftlog.client")


class RejectRecord(Exception):
    """Error that a handler raises to make the record a dead letter at once, without another attempt."""


class HandlerFailed(RequestError):
    """Record that failed in all attempts, in a loop without a dead-letter topic; its offset is not committed.

    The handler's last error is the `__cause__`."""

    def __init__(self, record: ConsumerRecord, attempts: int, error: BaseException) -> None:
        """Describe the record for which all attempts failed, the last one with `error`."""
        self.partition = TopicPartition(record.topic, record.partition)
        self.offset = record.offset
        super().__init__(
            f"{self.partition} offset {record.offset}: the handler failed {attempts} times, last with "
            f"{type(error).__name__}: {error}; set dead_letter_topic to continue with the next records"
        )


class _Partition:
    """Progress of the handlers in one assignment of a partition, unused after the partition is revoked."""

    def __init__(self) -> None:
        self.progress = HandledOffsets()
        self.lanes: dict[Hashable, deque[ConsumerRecord]] = {}
        """Records handled one after another, by their shared key or partition. A lane exists while its task runs."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_ending = asyncio.Event()
        """Set when no further attempts begin."""


class HandlerLoop(AsyncClosedAtExit, Generic[K, V]):
    """Member of a consumer group that calls `handler` for each record, created inside a running event loop.

    `handler` is a coroutine function, or a plain function, which runs in a thread."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *topics: str,
        group: str,
        handler: Callable[[ConsumerRecord[K, V]], Awaitable[object] | object],
        order: Order = "key",
        concurrency: int = 16,
        attempts: int = 5,
        retry_pause_s_max: float = 10.0,
        dead_letter_topic: str | None = None,
        pending_records: int = 500,
        commit_interval_ms: int = 500,
        stop_timeout_s: float = 20.0,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        where: Callable[[ConsumerRecord[K, V]], object] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Set up the loop; raise `InvalidArgument`. docs/client/handlers.md describes each setting."""
        if order not in ORDERS:
            raise InvalidArgument(f"order is {order!r}; it can be {', '.join(ORDERS)}")
        for name, value in (
            ("concurrency", concurrency),
            ("attempts", attempts),
            ("pending_records", pending_records),
            ("commit_interval_ms", commit_interval_ms),
        ):
            if value < 1:
                raise InvalidArgument(f"{name} is {value}; it has to be at least 1")
        if not callable(handler):
            raise InvalidArgument(f"handler is {type(handler).__name__}; it has to be a function of a record")
        self._handler = handler
        self._order, self._attempts, self._retry_pause_s_max = order, attempts, retry_pause_s_max
        self._pending_max, self._commit_interval_s = pending_records, commit_interval_ms / 1000
        self._stop_timeout_s = stop_timeout_s
        self._conversion = Conversion(key_deserializer, value_deserializer, where)
        self._slots = asyncio.Semaphore(concurrency)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._pending = 0
        self._changed = asyncio.Event()
        """Set when a record is finished, when one fails, and by `stop`."""
        self._failure: BaseException | None = None
        self._is_stopping = self._is_paused = False
        self._consumer = Consumer(bootstrap, group=group, auto_commit=False, **options)
        revoke_timeout_s = min(stop_timeout_s, self._consumer.settings.rebalance_timeout_ms / 2000)
        self._consumer.subscribe(topics, listener=_HandlerRebalances(self._give_up, revoke_timeout_s))
        self._producer = Producer(bootstrap) if dead_letter_topic is not None else None
        self._dead_letters: DeadLetters | None = None
        if self._producer is not None and dead_letter_topic is not None:
            self._dead_letters = DeadLetters(self._producer, dead_letter_topic)

    async def run(self) -> None:
        """Handle records until `stop`, then wait for the running handlers. It can be called again.

        Raises `HandlerFailed`, the error of storing a dead letter, and the errors of `Consumer.poll`."""
        self._is_stopping, self._failure = False, None
        committing = asyncio.create_task(self._commit_on_time())
        try:
            while not self._is_stopping and self._failure is None:
                await self._receive()
            await self._end_handlers(list(self._partitions), self._stop_timeout_s)
        finally:
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
            await self._end_handlers(list(self._partitions), 0.0)
            await self._commit(list(self._partitions))
            self._rewind()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Make `run` return once the running handlers have ended; begin no other records."""
        self._is_stopping = True
        self._changed.set()

    async def close(self) -> None:
        """Leave the group and end. Called after `run`, or while no task runs it."""
        self.stop()
        try:
            await self._consumer.close()
        finally:
            if self._producer is not None:
                await self._producer.close()

    # receiving

    async def _receive(self) -> None:
        """Poll once and start handlers; pause the consumer while too many records are pending."""
        self._changed.clear()
        room = self._pending_max - self._pending
        is_full = room <= 0
        if is_full != self._is_paused:
            self._is_paused = is_full
            self._consumer.pause() if is_full else self._consumer.resume()
        # Polling a paused consumer keeps the membership alive; newly assigned partitions are not paused.
        count = min(max(1, room), self._consumer.settings.max_poll_records)
        for record in await self._consumer.poll(count, 1 if is_full else _POLL_MS):
            self._begin(record)
        if is_full and self._pending >= self._pending_max:
            await _wait_until(self._changed, _POLL_MS / 1000)

    def _begin(self, record: ConsumerRecord) -> None:
        """Queue a record behind the records that must be handled before it; start a task for this queue if none runs.

        Records of one partition or one key share a queue, as `order` sets."""
        topic_partition = TopicPartition(record.topic, record.partition)
        partition = self._partitions.setdefault(topic_partition, _Partition())
        partition.progress.begin(record.offset)
        self._pending += 1
        lane_of: Hashable = record.offset
        if self._order == "partition":
            lane_of = topic_partition
        elif self._order == "key" and record.key is not None:
            lane_of = record.key
        waiting = partition.lanes.get(lane_of)
        if waiting is not None:
            waiting.append(record)
            return
        waiting = partition.lanes[lane_of] = deque([record])
        task = asyncio.create_task(self._work(partition, lane_of, waiting))
        partition.tasks.add(task)
        task.add_done_callback(partition.tasks.discard)

    # handlers

    async def _work(self, partition: _Partition, lane_of: Hashable, waiting: deque[ConsumerRecord]) -> None:
        """Handle the records of the queue `waiting` in their order."""
        try:
            while waiting:
                record = waiting[0]
                if not await self._handle(record, partition.is_ending):
                    return
                waiting.popleft()
                partition.progress.finish(record.offset)
                self._pending -= 1
                self._changed.set()
        except Exception as error:  # noqa: BLE001 – raised by `run`
            if self._failure is None:
                self._failure = error
        finally:
            del partition.lanes[lane_of]
            self._pending -= len(waiting)
            self._changed.set()

    async def _handle(self, record: ConsumerRecord, is_ending: asyncio.Event) -> bool:
        """Call the handler until it succeeds; return False if the partition is given up first.

        After the last attempt the record becomes a dead letter; without a dead-letter topic raises `HandlerFailed`."""
        backoff = Backoff(PAUSE_S_MIN, self._retry_pause_s_max)
        attempt = 0
        while not is_ending.is_set():
            attempt += 1
            try:
                converted = self._conversion.apply(record)
                if converted is not None:
                    async with self._slots:
                        await self._call_handler(converted)
                return True
            except Exception as error:  # noqa: BLE001 – error of the user's code: retried, then a dead letter
                if attempt >= self._attempts or isinstance(error, RejectRecord | DeserializationFailed):
                    await self._reject(record, attempt, error)
                    return True
                topic_partition = f"{record.topic}-{record.partition} offset {record.offset}"
                _log.warning("%s: attempt %d of %d failed: %r", topic_partition, attempt, self._attempts, error)
            await _wait_until(is_ending, backoff.next_pause_s())
        return False

    async def _call_handler(self, record: ConsumerRecord[K, V]) -> None:
        """Call the handler, a plain function in a thread, and wait for its result."""
        is_async = inspect.iscoroutinefunction(self._handler)
        returned = self._handler(record) if is_async else await asyncio.to_thread(self._handler, record)
        if inspect.isawaitable(returned):
            await returned

    async def _reject(self, record: ConsumerRecord, attempts: int, error: Exception) -> None:
        """Store a failed record as a dead letter. Raises `HandlerFailed` without a dead-letter topic."""
        if self._dead_letters is None:
            raise HandlerFailed(record, attempts, error) from error
        offset = await self._dead_letters.store(record, attempts, error)
        _log.warning(
            "%s-%d offset %d is a dead letter, at offset %d of topic %s, after %d attempts: %r",
            record.topic,
            record.partition,
            record.offset,
            offset,
            self._dead_letters.topic,
            attempts,
            error,
        )

    async def _end_handlers(self, topic_partitions: Collection[TopicPartition], timeout_s: float) -> None:
        """Begin no more records of these partitions; wait for those that run, and cancel them after the timeout."""
        partitions = [
            self._partitions[topic_partition]
            for topic_partition in topic_partitions
            if topic_partition in self._partitions
        ]
        tasks = [task for partition in partitions for task in partition.tasks]
        for partition in partitions:
            partition.is_ending.set()
        if tasks and timeout_s > 0:
            await asyncio.wait(tasks, timeout=timeout_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # offsets

    async def _commit_on_time(self) -> None:
        """Commit finished records every commit interval, until the task is cancelled."""
        while True:
            await asyncio.sleep(self._commit_interval_s)
            await self._commit(list(self._partitions))

    async def _commit(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Commit finished records; after an error a later commit has them, or another member handles them again."""
        partitions = {
            topic_partition: self._partitions[topic_partition]
            for topic_partition in topic_partitions
            if topic_partition in self._partitions
        }
        positions = {
            topic_partition: partition.progress.find_offset_to_commit()
            for topic_partition, partition in partitions.items()
        }
        offsets = {topic_partition: offset for topic_partition, offset in positions.items() if offset is not None}
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except (Unavailable, OutcomeUnknown, UnknownMember, StaleGeneration) as error:
            _log.info("offsets are not committed for now: %s", error)
        except RaftlogError as error:
            _log.warning("offsets are not committed: %s", error)
        else:
            for topic_partition, offset in offsets.items():
                partitions[topic_partition].progress.set_committed(offset)

    def _rewind(self) -> None:
        """Seek back to received records that were not handled, for the next `run`."""
        for topic_partition in list(self._partitions):
            position = self._partitions.pop(topic_partition).progress.find_offset_to_resume()
            if position is not None and topic_partition in self._consumer.assignment:
                self._consumer.seek(topic_partition, position)

    async def _give_up(self, topic_partitions: Collection[TopicPartition], timeout_s: float) -> None:
        """End the handlers of partitions that the group revokes, and commit their finished records."""
        await self._end_handlers(topic_partitions, timeout_s)
        if timeout_s > 0:
            await self._commit(topic_partitions)
        for topic_partition in topic_partitions:
            self._partitions.pop(topic_partition, None)


class _HandlerRebalances(RebalanceListener):
    """Rebalance listener that calls `give_up(partitions, timeout_s)` to end the handlers of revoked partitions."""

    def __init__(
        self, give_up: Callable[[Collection[TopicPartition], float], Awaitable[None]], timeout_s: float
    ) -> None:
        """Prepare to give up partitions by `give_up`, within `timeout_s` seconds after a revocation."""
        self._give_up, self._timeout_s = give_up, timeout_s

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Let running handlers end for a while, and commit."""
        await self._give_up(partitions, self._timeout_s)

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Give the partitions up at once."""
        await self._give_up(partitions, 0.0)


async def _wait_until(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for the event, at most for `timeout_s` seconds."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
