"""`Consumer`: records of topics, alone or sharing the partitions with the other members of a consumer group.

    async with Consumer(["127.0.0.1:8082"], "orders", group="billing") as consumer:
        async for record in consumer:
            bill(record.value)

Partitions are prefetched from their leaders. A call for the next records marks the earlier ones as processed, and they
are committed from then on (at least once): after 100 of them, or 500 ms. The group is joined, left and rejoined inside
`poll` and iteration only, so that the application works on no partition while it changes hands; therefore it must call
one of them again within `rebalance_timeout_ms`.

Not thread-safe, and one task polls at a time. All other methods may be called concurrently."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, Unpack

from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.assignment import AssignedPartitions
from raftlog.client.consumers.commits import Commits
from raftlog.client.consumers.consumed_offsets import ConsumedOffsets
from raftlog.client.consumers.consumer_settings import (
    ConsumerRecord,
    ConsumerSettings,
    GroupConsumerOptions,
    RebalanceListener,
)
from raftlog.client.consumers.conversion import Conversion
from raftlog.client.consumers.fetcher import PartitionFetcher
from raftlog.client.consumers.handed_records import HandedRecords
from raftlog.client.consumers.start_positions import AtTimestamp, FromEnd, Start, to_partition
from raftlog.client.group_answers import CommittedOffset
from raftlog.client.metadata import Metadata
from raftlog.client.serializers import Deserializer, K, V
from raftlog.client.topic_names import check_names
from raftlog.errors import InvalidArgument, LogClosed, UnknownPartition
from raftlog.types import Offset, TopicPartition

Place: TypeAlias = TopicPartition | tuple[str, int]
"""Partition; a plain pair of topic and number is accepted as well."""
Offsets: TypeAlias = Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
Starts: TypeAlias = Mapping[TopicPartition, int | None] | Mapping[tuple[str, int], int | None]
"""Start offset of each partition; None: the committed offset, or `auto_offset_reset`."""

POLL_MS = 1_000


class Consumer(Generic[K, V]):
    """Consumer for asyncio, created inside a running event loop.

    Keys and values of its records are the results of the deserializers, bytes by default."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *topics: str,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        where: Callable[[ConsumerRecord[K, V]], object] | None = None,
        **options: Unpack[GroupConsumerOptions],
    ) -> None:
        """Check the settings, and subscribe to the topics, if any. Raises `InvalidArgument`.

        docs/CLIENT.md describes each setting."""
        subscribed = check_names(topics)
        settings = self.settings = ConsumerSettings(**options)
        self._client = BrokerClient(bootstrap)
        self._metadata = Metadata(self._client, settings.metadata_refresh_s)
        self._fetcher = PartitionFetcher(self._client, settings, self._metadata.refresh_soon)
        self._handed = HandedRecords(self._fetcher.readings)
        self._commits: Commits | None = None
        if settings.group is not None:
            self._commits = Commits(self._client, settings.group, self._handed.processed)
        self._assigned_partitions = AssignedPartitions(
            self._client, self._metadata, settings, self._fetcher, self._handed, self._commits
        )
        self._consumed: ConsumedOffsets | None = None
        self._conversion = Conversion(key_deserializer, value_deserializer, where)
        self._is_closed = False
        if subscribed:
            self.subscribe(subscribed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the consumer; after a block without an error its last records count as processed."""
        if error is None:
            self._handed.last_handed = ()  # the block has processed them
        await self.close()

    # subscription and assignment

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics (one str is one topic), or those whose whole names match `pattern`.

        In a group the consumer reads its assigned share, otherwise every partition. Raises `InvalidArgument`."""
        self._assigned_partitions.subscribe(check_names(topics), pattern, listener)

    async def assign(self, partitions: Iterable[Place] | Starts) -> None:
        """Read exactly these partitions, from the given offsets or the committed offsets of the group.

        The consumer is then no member of the group. Partitions that it reads already continue. Raises
        `InvalidArgument`."""
        given: Mapping[Any, int | None] = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions)
        await self._assigned_partitions.assign(
            {to_partition(topic_partition): None if at is None else Offset(at) for topic_partition, at in given.items()}
        )

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that are read at present."""
        return frozenset(self._fetcher.readings)

    # records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record; wait until there is one."""
        handed = self._handed
        while True:
            while not handed.buffered:
                taken = await self._take_fetched(self.settings.max_poll_records, time.monotonic() + POLL_MS / 1000)
                handed.buffered.extend(taken)
            if found := self._convert_buffered(1):
                return found[0]

    async def poll(self, max_records: int | None = None, timeout_ms: int = POLL_MS) -> list[ConsumerRecord[K, V]]:
        """Return up to `max_records` records, each partition's in order; none if none arrive within `timeout_ms`.

        `max_records` is by default the setting `max_poll_records`. Raises `OffsetOutOfRange` if `auto_offset_reset` is
        error, `DeserializationFailed`, `FencedInstance`, `Unavailable` after `give_up_after_s` without an answer, and
        other errors that prevent reading. After an error it can be called again."""
        count = max_records or self.settings.max_poll_records
        ends_at = time.monotonic() + timeout_ms / 1000
        while True:
            if self._handed.buffered:
                self._count_processed()
            else:
                taken = await self._take_fetched(count, ends_at)
                if self._conversion.is_identity:
                    self._handed.last_handed = taken
                    return taken  # type: ignore[return-value]  # K and V are bytes
                self._handed.buffered.extend(taken)
            records = self._convert_buffered(count)
            if records or time.monotonic() >= ends_at:
                return records

    def _convert_buffered(self, count: int) -> list[ConsumerRecord[K, V]]:
        """Convert up to `count` records from `buffered`, until one fails; raise the error if it is the first."""
        handed = self._handed
        if self._conversion.is_identity:
            handed.last_handed = records = handed.take_buffered(count)
            return records  # type: ignore[return-value]  # K and V are bytes
        converted: list[ConsumerRecord[K, V]] = []
        given: list[ConsumerRecord] = []
        try:
            while handed.buffered and len(given) < count:
                record = self._conversion.apply(handed.buffered[0])
                raw = handed.buffered.popleft()
                if record is not None:
                    converted.append(record)
                    given.append(raw)
        except Exception:  # of the deserializer or the filter; the record is the next one
            if not given:
                raise
        handed.last_handed = given
        return converted

    async def _take_fetched(self, count: int, ends_at: float) -> list[ConsumerRecord]:
        """Return up to `count` fetched records; wait for the first until `ends_at` (monotonic seconds)."""
        self._count_processed()
        await asyncio.sleep(0)  # lets the fetches run, even if the caller polls without pause
        arrived = self._fetcher.arrived
        while True:
            if self._is_closed:
                raise LogClosed("the consumer is closed")
            arrived.clear()
            if await self._assigned_partitions.wait_for_assignment(ends_at):
                if self._consumed is not None:
                    self._consumed.check_generation()
                records = self._fetcher.take(count)
                await self._assigned_partitions.notify_resets()
                if records:
                    if self._consumed is not None:
                        self._consumed.record(records)
                    return records
            left_s = ends_at - time.monotonic()
            if left_s <= 0:
                return []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await arrived.wait()

    def _count_processed(self) -> None:
        """Mark the records that the last `poll` returned as processed; they are committed automatically."""
        done, self._handed.last_handed = len(self._handed.last_handed), ()
        if self._commits is not None and self.settings.auto_commit:
            interval_s = self.settings.auto_commit_interval_ms / 1000
            self._commits.count_processed(done, self.settings.auto_commit_records, interval_s)

    # positions

    async def position(self, partition: Place) -> Offset:
        """Return the offset of the next record to hand out.

        Raises the error that prevents its lookup, and `UnknownPartition` if the partition is not assigned."""
        topic_partition = to_partition(partition)
        if topic_partition not in self._fetcher.readings:
            raise UnknownPartition(f"{topic_partition} is not assigned to this consumer")
        reading = self._fetcher.readings[topic_partition]
        await reading.located.wait()
        if reading.position is None and reading.error is not None:
            raise reading.error
        return self._handed.handed_out()[topic_partition]

    # Seeks and pauses are plain calls. For a partition that is not assigned they apply at its assignment.

    def seek(self, partition: Place, offset: int) -> None:
        """Continue at an offset; if the log does not hold it, `auto_offset_reset` decides. Raises `InvalidArgument`."""
        if offset < 0:
            raise InvalidArgument(f"{partition}: {offset} is no offset; seek_from_end() counts from the end")
        self._seek((partition,), Offset(offset))

    def seek_to_beginning(self, *partitions: Place) -> None:
        """Continue at the first record of these partitions, or of all."""
        self._seek(partitions, "earliest")

    def seek_to_end(self, *partitions: Place) -> None:
        """Continue with new records only. The end is looked up by the next poll, or by `position`."""
        self._seek(partitions, "latest")

    def seek_from_end(self, count: int, *partitions: Place) -> None:
        """Continue `count` offsets before the end, or at the first record if fewer are there."""
        if count < 0:
            raise InvalidArgument(f"{count} offsets before the end is after it; give 0 or more")
        self._seek(partitions, FromEnd(count))

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: Place) -> None:
        """Continue at the first record with this timestamp or a later one, or at the end."""
        self._seek(partitions, AtTimestamp(timestamp_ms))

    def pause(self, *partitions: Place) -> None:
        """Hand out no records of these partitions, or of all, until `resume`; the membership continues."""
        self._pause(partitions, True)

    def resume(self, *partitions: Place) -> None:
        """Hand out records of these partitions, or of all, again."""
        self._pause(partitions, False)

    # offsets

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit the offsets after the records handed out, or the given offsets.

        Raises `UnknownMember`, `StaleGeneration` and `RebalanceInProgress` when the group rebalanced without this
        member; a lost answer is `OutcomeUnknown`."""
        commits = self._require_commits()
        given: Mapping[Any, int] = self._handed.handed_out() if offsets is None else offsets
        await commits.commit(
            {to_partition(topic_partition): Offset(offset) for topic_partition, offset in given.items()}
        )

    async def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of the group, from all its members."""
        self._require_commits()
        assert self.settings.group is not None, "there is a group"
        return await self._client.groups.committed(self.settings.group)

    def consumed_offsets(self) -> ConsumedOffsets:
        """Return the offsets for a transaction. Raises `InvalidArgument` without a group, and with `auto_commit`."""
        commits = self._require_commits()
        if self.settings.auto_commit:
            raise InvalidArgument("a transaction commits the offsets: make the consumer with auto_commit=False")
        assert self.settings.group is not None, "there is a group"
        if self._consumed is None:
            self._consumed = ConsumedOffsets(self.settings.group, commits, self._handed, self.seek)
        return self._consumed

    async def close(self) -> None:
        """Commit processed records (with `auto_commit`), leave the group, and close."""
        if self._is_closed:
            return
        self._is_closed = True
        self._fetcher.arrived.set()
        try:
            await self._assigned_partitions.close()
        finally:
            await self._fetcher.end(list(self._fetcher.readings))
            if self._commits is not None:
                await self._commits.close()
            await self._metadata.close()
            await self._client.close()

    def _require_commits(self) -> Commits:
        """Return the commits of the group; raise `InvalidArgument` without a group."""
        if self._commits is None:
            raise InvalidArgument("without a group nothing is committed: make the consumer with group=…")
        return self._commits

    def _seek(self, partitions: Sequence[Place], start: Start) -> None:
        """Set the start of these partitions, or of all; of those not assigned yet, for their assignment."""
        assigned, others = self._split_by_assignment(partitions)
        for topic_partition in assigned:
            self._handed.forget(topic_partition)
            self._fetcher.seek(topic_partition, start)
        if others or not assigned:
            self._fetcher.pending.seek(others, start)

    def _pause(self, partitions: Sequence[Place], is_paused: bool) -> None:
        """Pause or resume these partitions, or all; those not assigned yet, from their assignment on."""
        assigned, others = self._split_by_assignment(partitions)
        for topic_partition in assigned:
            self._fetcher.pause(topic_partition, is_paused)
        if others or not assigned:
            self._fetcher.pending.pause(others, is_paused)

    def _split_by_assignment(self, partitions: Sequence[Place]) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Split these partitions (if none are given: all) into those that are assigned now, and the others."""
        readings = self._fetcher.readings
        topic_partitions = [to_partition(each) for each in partitions] if partitions else list(readings)
        return [topic_partition for topic_partition in topic_partitions if topic_partition in readings], [
            topic_partition for topic_partition in topic_partitions if topic_partition not in readings
        ]
