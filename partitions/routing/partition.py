"""Partition of a topic as any node sees it: its leader, and the produce calls to it.

`replica` is this node's own, when it has one. Only the queue holds records. Made by `Topics` for every
partition of every topic; the queue is made with the first record. Called by the broker."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from uuid import UUID

from raftlog.errors import InvalidArgument, NotLeader, RaftlogError, RecordTooLarge
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.produce.compacted import check_stored_keys, missing_key_error
from raftlog.partitions.produce.pending import NO_PRODUCERS, Pending, build_sequenced, copied_error, record_size
from raftlog.partitions.produce.produce_queue import ProduceQueue
from raftlog.partitions.produce.timestamps import check_batch_timestamps, check_record_timestamps
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.replica.errors import damaged_error
from raftlog.partitions.replica.traced_append import append_traced
from raftlog.partitions.results import Acks, Produced, ProducerSequence
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.settings import BrokerSettings
from raftlog.raft import ReplicaId
from raftlog.records import HEADER_SIZE, NewRecord, validate_client_batches
from raftlog.runtime.slices import run_in_slices
from raftlog.runtime.tracing.spans import Span
from raftlog.topic_config import TopicConfig
from raftlog.types import Buffer, NodeId, Offset

CALL_BYTES_MAX = 24 * 1024 * 1024
"""Largest produce call to one partition: it travels to the leader in one frame."""

CALL_PRODUCERS_MAX = 1_000
"""Idempotent producers in one call."""


CALL_BATCHES_MAX = 10_000
"""Maximum number of batches in one call: each costs a few microseconds at every step."""


class Shared:
    """Settings and services shared by all partitions of a broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        router: PartitionRouter,
        counters: Counters,
        wall_ms: Callable[[], int],
        check_ids: Callable[[str, Collection[int], Deadline], Awaitable[None]],
    ) -> None:
        """Store the services; `check_ids` raises for a producer id that the controller never allocated."""
        self.settings, self.router, self.counters, self.wall_ms = settings, router, counters, wall_ms
        self.check_ids = check_ids
        self.budget = Budget(settings.broker_pending_bytes_max, "this broker")
        self.opening = asyncio.Lock()
        """Lock for the decompression of batches from clients, one call after another."""


class Partition:
    """Partition as this node sees it, wherever its leader is: produce queue, replica here if any, settings."""

    __slots__ = (
        "_closed_because",
        "_queue",
        "_record_bytes_max",
        "_shared",
        "assigned",
        "checks_records",
        "config",
        "failed",
        "group_id",
        "hint",
        "name",
        "number",
        "replica",
        "topic_id",
    )

    def __init__(
        self,
        shared: Shared,
        topic: str,
        topic_id: UUID,
        number: int,
        group_id: UUID,
        assigned: Sequence[ReplicaId],
        config: TopicConfig,
    ) -> None:
        """Describe partition `number` of a topic; `group_id` is the id of its Raft group."""
        self.name = f"{topic}/{number}"
        self.topic_id, self.number, self.group_id = topic_id, number, group_id
        self.assigned = assigned
        """Assigned replicas, the preferred leader first."""
        self.replica: Replica | None = None
        self.hint: NodeId | None = None
        """Last known leader; only without a replica here."""
        self.failed: NodeId | None = None
        """Node that was asked last and does not lead or did not answer; only without a replica here."""
        self._shared = shared
        self._queue: ProduceQueue | None = None
        self._closed_because: RaftlogError | None = None
        self.reconfigure(config)

    # producing

    async def enqueue_records(
        self, records: Sequence[NewRecord], acks: Acks, deadline: Deadline
    ) -> "asyncio.Future[int] | None":
        """Queue the records; the future gets their first offset, None with `acks=0`.

        Raises errors if nothing is queued."""
        if self.checks_records:
            self.check_records(records)
        total = 0
        for record in records:
            size = record_size(record)
            if size > self._record_bytes_max:
                raise self._too_large_error(size)
            total += size
        return (await self._enqueue(self._make_pending(records, (), len(records), total, acks, deadline))).future

    def try_queue_record(self, records: Sequence[NewRecord], acks: Acks, deadline: Deadline) -> Pending | None:
        """Queue the only record of a call; None if there is no room. Raises errors if nothing is queued."""
        if self.checks_records:
            self.check_records(records)
        size = record_size(records[0])
        if size > self._record_bytes_max:
            raise self._too_large_error(size)
        pending = self._make_pending(records, (), 1, size, acks, deadline)
        queue = self._queue
        if queue is None:
            queue = self.queue
        return pending if queue.try_add(pending) else None

    async def enqueue_batches(
        self, batches: Sequence[bytearray], count: int, acks: Acks, deadline: Deadline
    ) -> "asyncio.Future[int] | None":
        """Queue `count` records in batches that were built here; the future gets their first offset."""
        size = sum(map(len, batches))
        return (await self._enqueue(self._make_pending((), batches, count, size, acks, deadline))).future

    async def produce_batches(self, body: Buffer, acks: Acks, deadline: Deadline) -> Produced:
        """Append a client's batches unchanged, all or nothing; a writable body is stamped in place."""
        checked = validate_client_batches(body, self.config.max_message_bytes, CALL_BATCHES_MAX)
        check_batch_timestamps(self.name, self.config, checked, self._shared.wall_ms)
        if self.config.is_compacted:
            limit, turn = self.config.max_message_bytes, self._shared.opening
            await check_stored_keys(self.name, checked, limit, turn, deadline)
        batches = [batch if isinstance(batch, bytearray) else bytearray(batch) for _, batch in checked]
        count = sum(header.record_count for header, _ in checked)
        producers = frozenset(header.producer_id for header, _ in checked if header.producer_id >= 0)
        if producers:
            if len(producers) > CALL_PRODUCERS_MAX:
                raise InvalidArgument(
                    f"{self.name}: one request has batches of {len(producers)} producers; the limit is "
                    f"{CALL_PRODUCERS_MAX}; nothing was appended; send them in several requests"
                )
            await self._shared.check_ids(self.name, producers, deadline)
        pending = self._make_pending((), batches, count, len(body), acks, deadline, producers)
        return await self._wait_for_result(await self._enqueue(pending))

    async def produce_sequenced(
        self, records: Sequence[NewRecord], producer: ProducerSequence, acks: Acks, deadline: Deadline
    ) -> Produced:
        """Append records of an idempotent producer, as one batch."""
        batch = await self.build_sequenced(records, producer)
        producers = frozenset((producer.producer_id,))
        await self._shared.check_ids(self.name, producers, deadline)
        pending = self._make_pending((), [batch], len(records), len(batch), acks, deadline, producers)
        return await self._wait_for_result(await self._enqueue(pending))

    async def build_sequenced(
        self, records: Sequence[NewRecord], producer: ProducerSequence, *, is_transactional: bool = False
    ) -> bytearray:
        """Return the batch of an idempotent producer's records.

        Raises `MissingKey`, `InvalidTimestamp`, `InvalidArgument` and `RecordTooLarge`."""
        self.check_records(records)
        now_ms = self._shared.wall_ms()
        batch = await run_in_slices(
            build_sequenced(records, producer, now_ms, self._check_batch, is_transactional=is_transactional)
        )
        self._check_batch(len(batch))
        return batch

    async def _wait_for_result(self, pending: Pending) -> Produced:
        """Wait until a queued call is appended, and return its offsets; all -1 without acknowledgement."""
        if pending.future is None:
            return Produced(Offset(-1), Offset(-1), 0, Offset(-1))
        base = await pending.future
        # The result of this append: another one may have been appended since.
        appended = pending.appended
        assert appended is not None, f"{self.name}: a call was resolved without an append"
        after = appended.next_offset if pending.producers else base + pending.count
        return Produced(
            Offset(base), Offset(after), appended.leader_epoch, appended.high_watermark, appended.is_duplicate
        )

    def _check_batch(self, size: int) -> None:
        """Raise `RecordTooLarge` for a batch above `max.message.bytes`."""
        if size > self.config.max_message_bytes:
            raise RecordTooLarge(
                f"{self.name}: the records of an idempotent producer's call are one batch, of {size} bytes here; "
                f"max.message.bytes is {self.config.max_message_bytes}; send fewer records at once"
            )

    def check_records(self, records: Sequence[NewRecord]) -> None:
        """Raise `MissingKey` for a record without a key in a compacted topic, `InvalidTimestamp` outside of its bounds.

        Neither is possible unless `checks_records`."""
        config = self.config
        if config.is_compacted and any(record.key is None for record in records):
            raise missing_key_error(self.name)
        if config.bounds_timestamps:
            check_record_timestamps(self.name, config, records, self._shared.wall_ms())

    def check_size(self, size: int) -> None:
        """Raise `RecordTooLarge` for a record of this size (`record_size`) above the limit."""
        if size > self._record_bytes_max:
            raise self._too_large_error(size)

    def _too_large_error(self, size: int) -> RecordTooLarge:
        """Return the error for a record that exceeds the topic's limit."""
        return RecordTooLarge(
            f"{self.name}: a record of about {size} bytes does not fit max.message.bytes="
            f"{self.config.max_message_bytes}; send a smaller record, or raise the setting of the topic"
        )

    async def _enqueue(self, pending: Pending) -> Pending:
        """Queue a call, waiting for room in the queue."""
        if not self.queue.try_add(pending):
            await self.queue.add_when_room(pending)
        return pending

    def _make_pending(
        self,
        records: Sequence[NewRecord],
        batches: Sequence[bytearray],
        count: int,
        size: int,
        acks: Acks,
        deadline: Deadline,
        producers: frozenset[int] = NO_PRODUCERS,
    ) -> Pending:
        """Return a call to queue. Raises `RecordTooLarge`, and the cause if the partition is closed."""
        if size > CALL_BYTES_MAX:
            raise RecordTooLarge(
                f"{self.name}: one call has {size} bytes; the limit is {CALL_BYTES_MAX}; send them in several calls"
            )
        if self._closed_because is not None:
            raise copied_error(self._closed_because)
        future = asyncio.get_running_loop().create_future() if acks else None
        return Pending(records, batches, count, size, acks, deadline, future, producers)

    @property
    def queue(self) -> ProduceQueue:
        """Queue of the partition's produce calls, made at the first use."""
        queue = self._queue
        if queue is None:
            shared = self._shared
            budgets = (Budget(shared.settings.partition_pending_bytes_max, self.name), shared.budget)
            queue = self._queue = ProduceQueue(self, budgets, shared.counters, shared.wall_ms)
        return queue

    # methods for the queue

    @property
    def batch_bytes_max(self) -> int:
        """Largest batch that is built from single records."""
        return min(self._shared.settings.accumulate_bytes_max, self.config.max_message_bytes)

    def no_leader_error(self) -> RaftlogError | None:
        """Return the error with which an append fails at once without a leader; None if there is one."""
        replica, router = self.replica, self._shared.router
        leader = router.leader_of(self)
        if replica is not None and leader == router.me:
            return None
        if replica is not None and leader is None and replica.is_damaged:
            return None if replica.is_alone and replica.group.damage is not None else replica.damaged_error()
        if replica is None and leader is None and len(self.assigned) == 1 and (lost := router.lost_end(self)):
            return damaged_error(self.name, lost, is_alone=True)
        if leader is None or leader == router.me:
            return NotLeader(f"{self.name}: no leader is known")
        return None

    @property
    def leader(self) -> NodeId | None:
        """Node that leads, as known here; None if it is unknown."""
        return self._shared.router.leader_of(self)

    def append(
        self, batches: Sequence[bytearray], acks: Acks, deadline: Deadline, span: Span | None = None
    ) -> "asyncio.Future[ReplicaAppended]":
        """Append batches here or forward them to the leader; the future raises `NotLeader` without one."""
        router = self._shared.router
        leader = router.leader_of(self)
        replica = self.replica
        if replica is not None and leader in (None, router.me):
            if span is not None:
                return append_traced(replica, batches, acks, span)
            return replica.append(batches, acks)  # without a leader it fails with the reason
        loop = asyncio.get_running_loop()
        if leader is None or leader == router.me:
            future: asyncio.Future[ReplicaAppended] = loop.create_future()
            future.set_exception(NotLeader(f"{self.name}: no leader is known"))
            return future
        return loop.create_task(router.produce(leader, self, batches, acks, deadline, span))

    async def wait_for_leader_change(self, deadline: Deadline) -> None:
        """Wait until the leader may have changed, for a bounded time."""
        await self._shared.router.wait_for_leader_change(self, deadline)

    # changes

    def reconfigure(self, config: TopicConfig) -> None:
        """Use these settings from now on."""
        self.config = config
        self.checks_records = config.is_compacted or config.bounds_timestamps
        self._record_bytes_max = config.max_message_bytes - HEADER_SIZE
        if self.replica is not None:
            self.replica.reconfigure(config)

    def close(self, why: RaftlogError) -> None:
        """Fail the queued calls with `why` (topic deleted, process stops); none of them happened."""
        self._closed_because = why
        if self._queue is not None:
            self._queue.close(why)
        if self.replica is not None:
            self.replica.close()
