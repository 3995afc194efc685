"""One poll: fetches from several partitions within bounds, and waits while there are too few bytes.

    stored bytes of an answer ≤ stored_bytes_max, or one batch;   bytes of keys and values ≤ max_bytes, or one record

First all partitions are fetched without waiting, some at a time; then some of the empty ones are fetched with a
short wait, until records arrive, the time is up, or the poll is interrupted. A partition without a leader delays the
others only briefly. Nothing is kept after the answer. Called by instances."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from raftlog.errors import OffsetOutOfRange, RaftlogError, Unavailable, UndecodableBatch
from raftlog.partitions.consumers.positions import FetchPosition
from raftlog.partitions.consumers.taken_records import TakenRecords, take_records
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import Fetched
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.runtime.slices import Slices
from raftlog.types import Offset, OffsetRange, TopicPartition

_ASKED_AT_ONCE = 4
"""Concurrent fetches; each returns at least one batch, so this many batches may exceed the bounds in memory."""
_FRAMING_BYTES = 1024
"""Allowance for headers of batches and records, on top of the bytes of an answer."""
_WAITING_AT_ONCE = 64
"""Partitions that are fetched with a wait at the same time."""
_WAIT_S = 0.5
"""Longest wait at a leader, which is not notified when the poll has ended."""
_SLOW_FETCH_S = 0.2
"""Wait for the slowest of the concurrent fetches; longer than a fetch from a reachable leader takes."""
_LEAST_ANSWER_S = 0.5
"""Minimum time that leaders get to answer, even when the poll asks for no wait."""


class RecordReader(Protocol):
    """Interface through which instances read records: the broker implements it."""

    async def fetch(
        self, topic: str, partition: int, offset: int, *, max_bytes: int, min_bytes: int, deadline: Deadline
    ) -> Fetched:
        """Fetch batches of a partition from `offset` on, and wait for `min_bytes` until the deadline."""
        ...

    async def offsets(
        self, topic: str, partition: int, *, linearizable: bool = False, deadline: Deadline
    ) -> OffsetRange:
        """Return the first and end offset of a partition."""
        ...

    async def offset_for_timestamp(
        self, topic: str, partition: int, timestamp_ms: int, *, deadline: Deadline
    ) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first record with the timestamp or a later one; None without one."""
        ...


class PollLimits(NamedTuple):
    """Limits of one poll, in bytes. `opener` decompresses batches."""

    min_bytes: int
    max_bytes: int
    stored_bytes_max: int
    opener: BatchOpener


class Polled(NamedTuple):
    """Records to deliver, in this order, and errors of the partitions that could not be read."""

    taken: list[tuple[TopicPartition, TakenRecords]]
    failed: dict[TopicPartition, RaftlogError]


class Poll:
    """One poll of an instance: fetches from several partitions; used once."""

    def __init__(self, reader: RecordReader, limits: PollLimits, until: Deadline, interrupted: asyncio.Event) -> None:
        """Prepare a poll that ends at the deadline `until`, or once `interrupted` is set."""
        self._reader, self._limits, self._until, self._interrupted = reader, limits, until, interrupted
        self._loop = asyncio.get_running_loop()
        self._taken: list[tuple[TopicPartition, TakenRecords]] = []
        self._failed: dict[TopicPartition, RaftlogError] = {}
        self._size = self._stored = 0
        self._asked: dict[asyncio.Task[Fetched], FetchPosition] = {}
        self._dropped: list[asyncio.Task[Fetched]] = []
        """Cancelled fetches, to be awaited at the end."""

    async def run(self, positions: Sequence[FetchPosition]) -> Polled:
        """Fetch from these positions, in this order, until enough bytes arrived, an interruption, or the deadline."""
        try:
            await self._fetch_at_once(positions)
            await self._fetch_later(positions)
        finally:
            self._cancel_fetches()
            await asyncio.gather(*self._dropped, return_exceptions=True)
        return Polled(self._taken, self._failed)

    @property
    def _is_over(self) -> bool:
        """Whether the poll must end: it was interrupted, or its time is over."""
        return self._interrupted.is_set() or self._loop.time() >= self._until

    @property
    def _is_full(self) -> bool:
        """Whether the answer has reached a limit of bytes."""
        return self._size >= self._limits.max_bytes or self._stored >= self._limits.stored_bytes_max

    @property
    def _has_enough(self) -> bool:
        """Whether the poll may end without waiting for more records."""
        return self._is_full or (bool(self._taken) and self._size >= self._limits.min_bytes)

    @property
    def _needs_decision(self) -> bool:
        """Whether an error has to be resolved by the client or the reset policy, since waiting does not help."""
        return any(isinstance(error, OffsetOutOfRange | UndecodableBatch) for error in self._failed.values())

    # without waiting

    async def _fetch_at_once(self, positions: Sequence[FetchPosition]) -> None:
        """Fetch from all partitions without waiting for records, some partitions at a time."""
        answer_deadline = Deadline(max(self._until, self._loop.time() + _LEAST_ANSWER_S))
        left = list(reversed(positions))
        while left and not self._is_full and not self._interrupted.is_set() and self._loop.time() < answer_deadline:
            some = [left.pop() for _ in range(min(_ASKED_AT_ONCE, len(left)))]
            begun = {self._begin_fetch(position, 0, answer_deadline, share=len(some)) for position in some}
            soon = Deadline(min(answer_deadline, self._loop.time() + _SLOW_FETCH_S))
            while not begun.isdisjoint(self._asked) and not self._interrupted.is_set() and self._loop.time() < soon:
                await self._process_fetches(soon)
        answer_deadline = Deadline(min(answer_deadline, self._loop.time() + _LEAST_ANSWER_S))
        while (
            self._asked and not self._taken and not self._interrupted.is_set() and self._loop.time() < answer_deadline
        ):
            await self._process_fetches(answer_deadline)  # some leaders are not found yet
        for partition, _ in self._asked.values():
            self._failed[partition] = Unavailable(f"{partition}: its leader did not answer in time")
        self._cancel_fetches()

    # waiting

    async def _fetch_later(self, positions: Sequence[FetchPosition]) -> None:
        """Wait for records of the partitions that had none, some partitions at a time."""
        quiet = [position for position in positions if self._may_have_records(position.partition)]
        while not self._has_enough and not self._is_over and not self._needs_decision:
            now = self._loop.time()
            slice_end = Deadline(min(self._until, now + _WAIT_S))
            some = quiet[:_WAITING_AT_ONCE]
            for position in some:
                self._begin_fetch(position, 1, slice_end, share=len(some))
            while not self._has_enough and not self._is_over and self._loop.time() < slice_end:
                await self._process_fetches(slice_end)
            self._cancel_fetches()
            quiet = [position for position in quiet[len(some) :] + some if self._may_have_records(position.partition)]

    def _may_have_records(self, partition: TopicPartition) -> bool:
        """Return whether the partition has delivered nothing yet and has no permanent error."""
        failed = self._failed.get(partition)
        is_hopeless = failed is not None and not isinstance(failed, Unavailable)
        return not is_hopeless and all(partition != taken for taken, _ in self._taken)

    # fetches

    def _cancel_fetches(self) -> None:
        """Cancel all fetches; they are awaited at the end of the poll."""
        for task in self._asked:
            task.cancel()
        self._dropped += self._asked
        self._asked.clear()

    def _begin_fetch(
        self, position: FetchPosition, min_bytes: int, deadline: Deadline, *, share: int
    ) -> asyncio.Task[Fetched]:
        """Start a fetch from a position, with its `share` of the remaining bytes of the answer."""
        (topic, number), offset = position
        room = max(1, min(self._limits.stored_bytes_max - self._stored, 2 * self._room + _FRAMING_BYTES) // share)
        fetching = self._reader.fetch(topic, number, offset, max_bytes=room, min_bytes=min_bytes, deadline=deadline)
        task = self._loop.create_task(fetching, name=f"poll {position.partition}")
        self._asked[task] = position
        return task

    @property
    def _room(self) -> int:
        """Number of bytes that the answer may still get."""
        return max(0, self._limits.max_bytes - self._size)

    async def _process_fetches(self, until: Deadline) -> None:
        """Process completed fetches; return once at least one has completed, at the deadline, or at an interruption."""
        interruption = self._loop.create_task(self._interrupted.wait())
        try:
            left_s = until - self._loop.time()
            await asyncio.wait((*self._asked, interruption), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            slices = Slices()
            for task, position in [(task, self._asked[task]) for task in self._asked if task.done()]:
                del self._asked[task]
                await self._take_records(position, task)
                await slices.pause_if_over()
        finally:
            interruption.cancel()

    async def _take_records(self, position: FetchPosition, task: "asyncio.Task[Fetched]") -> None:
        """Add the records of a completed fetch to the answer, up to the remaining room; record an error."""
        try:
            fetched = task.result()
            if not fetched.batches or (self._taken and self._is_full):
                return
            is_first = not any(taken.records for _, taken in self._taken)
            taken = await take_records(
                fetched.batches, position.offset, self._room, self._limits.opener, at_least_one=is_first
            )
        except UndecodableBatch as error:
            self._failed[position.partition] = error.located_at(position.partition)
            return
        except RaftlogError as error:
            self._failed[position.partition] = error
            return
        if taken.end > position.offset:
            self._failed.pop(position.partition, None)
            self._taken.append((position.partition, taken))
            self._size += taken.size
            self._stored += taken.stored_bytes
