"""Fetching for a `Consumer`: a task for each partition fetches from its leader.

The next answer is fetched while the records of the last one are handed out; a partition holds at most one answer
besides the one in flight, and together they are bounded by `prefetch_bytes` (a broker returns a single batch whatever
its size). Temporary errors are retried after 50 ms, with pauses that grow to 5 s. An offset outside the log is handled
as `auto_offset_reset` sets, and is never skipped silently."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final

from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.consumer_settings import ConsumerRecord, ConsumerSettings
from raftlog.client.consumers.fetched_records import FetchedRecords
from raftlog.client.consumers.start_positions import AtTimestamp, FromEnd, PendingStarts, Reset, Start
from raftlog.client.outage import Outage
from raftlog.errors import (
    OffsetOutOfRange,
    OutcomeUnknown,
    RaftlogError,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
)
from raftlog.types import Offset, TopicPartition

FETCH_BYTES_MIN: Final = 16 * 1024
_log = logging.getLogger("raftlog.client")

ResetNote = tuple[TopicPartition, OffsetOutOfRange, Offset]


class PartitionFetcher:
    """Fetcher of all assigned partitions. `arrived` is set when there may be records or an error to take."""

    def __init__(self, client: BrokerClient, settings: ConsumerSettings, on_stale: Callable[[], None]) -> None:
        """Fetch no partition yet; `on_stale` is called when metadata turns out to be stale."""
        self._client, self._settings, self._on_stale = client, settings, on_stale
        self.readings: dict[TopicPartition, FetchedRecords] = {}
        self.arrived = asyncio.Event()
        self.resets: deque[ResetNote] = deque()
        """Resets that the listener was not called for yet."""
        self.pending = PendingStarts()
        self._waits_for_topics = settings.group is not None

    # partitions

    def begin(self, positions: Mapping[TopicPartition, Offset | None], reset: Reset | None = None) -> None:
        """Read these partitions as well, from known positions; `reset` overrides `auto_offset_reset`."""
        for topic_partition, (start, is_paused) in self.pending.take(positions).items():
            first = positions[topic_partition] if start is None else start
            reset_to = reset or self._settings.auto_offset_reset
            self.readings[topic_partition] = FetchedRecords(topic_partition, reset_to if first is None else first)
            self._start(self.readings[topic_partition])
            if is_paused:
                self.pause(topic_partition, True)

    async def end(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Stop reading these partitions, and discard their fetched records."""
        tasks = [
            reading.task
            for topic_partition in topic_partitions
            if (reading := self.readings.pop(topic_partition, None)) and reading.task
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def seek(self, topic_partition: TopicPartition, start: Start) -> None:
        """Continue reading a partition at `start`."""
        reading = self.readings[topic_partition]
        if reading.task is not None:
            reading.task.cancel()
        reading.restart(start)
        self._start(reading)

    def pause(self, topic_partition: TopicPartition, is_paused: bool) -> None:
        """Return no records of a partition while it is paused; fetched records stay."""
        self.readings[topic_partition].is_paused = is_paused
        self._make_room(self.readings[topic_partition])
        self.arrived.set()

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return fetched records, each partition's in order; raise an error that is due."""
        taken: list[ConsumerRecord] = []
        for topic_partition, reading in list(self.readings.items()):
            if reading.is_paused:
                continue
            records = reading.take(count - len(taken))
            self._make_room(reading)
            if not records and not taken and reading.error is not None:
                raise self._take_error(reading)
            if records:
                taken += records
                self.readings[topic_partition] = self.readings.pop(
                    topic_partition
                )  # other partitions, and their errors, get the next turn
            if len(taken) >= count:
                break
        return taken

    # below

    def _start(self, reading: FetchedRecords) -> None:
        reading.task = asyncio.create_task(self._read(reading))

    def _take_error(self, reading: FetchedRecords) -> RaftlogError:
        """Return the error of a partition; after a temporary error continue to read, other errors last until a seek."""
        error = reading.error
        assert error is not None, "there is an error"
        if self._is_temporary(error):
            reading.error = None
            self._start(reading)
        return error

    def _fail(self, reading: FetchedRecords, error: RaftlogError) -> None:
        """Record an error of a partition, which the next poll raises."""
        reading.fail(error)
        self.arrived.set()

    def _make_room(self, reading: FetchedRecords) -> None:
        """Allow the next fetch of a partition, unless it is paused or an earlier answer waits to be returned."""
        if reading.is_paused or reading.held_bytes >= self._fetch_bytes():
            reading.room.clear()
        else:
            reading.room.set()

    def _fetch_bytes(self) -> int:
        """Return the size of one fetch, so that all partitions together stay within `prefetch_bytes`."""
        share = self._settings.prefetch_bytes // (2 * max(1, len(self.readings)))
        return min(self._settings.fetch_bytes, max(FETCH_BYTES_MIN, share))

    async def _read(self, reading: FetchedRecords) -> None:
        """Fetch one partition until it fails with a lasting error; retry temporary ones."""
        outage = Outage(f"records of {reading.topic_partition}", self._settings.give_up_after_s)
        while reading.error is None:
            try:
                if reading.position is None:
                    reading.begin_at(await self._find_offset(reading.topic_partition, reading.start))
                if not reading.room.is_set():
                    await reading.room.wait()
                await self._fetch(reading)
                outage.end()
            except OffsetOutOfRange as error:
                self._handle_out_of_range(reading, error)
            except RaftlogError as error:
                if not self._is_temporary(error):
                    self._fail(reading, error)
                    return
                self._on_stale()
                try:
                    await outage.pause(error)
                except RaftlogError:
                    self._fail(reading, error)

    async def _fetch(self, reading: FetchedRecords) -> None:
        """Fetch the next batches of one partition, and wake the consumer if there are any."""
        offset = reading.next_fetch
        assert offset is not None, "it is known where to read"
        topic, partition = reading.topic_partition
        fetched = await self._client.fetch_batches(
            topic,
            partition,
            offset,
            timeout_ms=self._settings.fetch_wait_ms,
            max_bytes=self._fetch_bytes(),
            isolation=self._settings.isolation,
        )
        reading.accept(fetched)
        self._make_room(reading)
        if fetched.body:
            self.arrived.set()

    async def _find_offset(self, topic_partition: TopicPartition, start: Start) -> Offset:
        """Return the offset of a start position. Raises `OffsetOutOfRange` for the reset `error`."""
        if isinstance(start, AtTimestamp):
            found = await self._client.offset_for_timestamp(
                *topic_partition, start.timestamp_ms, isolation=self._settings.isolation
            )
            if found is not None:
                return found[0]
        first, end = await self._client.offsets(*topic_partition, isolation=self._settings.isolation)
        if start == "error":
            error = OffsetOutOfRange(-1, first, end)
            error.args = ("there is no committed offset, and auto_offset_reset is error: seek to an offset",)
            raise error
        if isinstance(start, FromEnd):
            return Offset(max(first, end - start.offsets))
        if isinstance(start, int):
            return start
        return first if start == "earliest" else end

    def _handle_out_of_range(self, reading: FetchedRecords, error: OffsetOutOfRange) -> None:
        """Continue at the start or end of the log, or record the error, as `auto_offset_reset` sets."""
        error.args = (f"{reading.topic_partition}: {error}",)
        if self._settings.auto_offset_reset == "error":
            reading.fail(error)
        else:
            to = error.first if self._settings.auto_offset_reset == "earliest" else error.end
            _log.warning("%s; reading continues at offset %d", error, to)
            reading.continue_at(to)
            self.resets.append((reading.topic_partition, error, to))
        self.arrived.set()

    def _is_temporary(self, error: RaftlogError) -> bool:
        """Return whether to retry after the error.

        A group member also waits for an unknown topic, until the group rebalances; after `assign` the error is final.
        """
        if isinstance(error, UnknownTopic | UnknownPartition):
            return self._waits_for_topics
        return isinstance(error, Unavailable | OutcomeUnknown)
