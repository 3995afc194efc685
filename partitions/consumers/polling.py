"""One poll: what there is in several partitions, fetched within bounds, and waited for when that is too little.

    stored bytes of an answer ≤ stored_bytes_max, or one batch;   bytes of keys and values ≤ max_bytes, or one record

First all partitions are asked for what is there, some at a time; then some of those that had nothing are asked to wait,
each for a short time, until something comes, the time is up, or the poll is interrupted. A partition without a leader
holds up the others only briefly. Nothing is kept beyond the answer. Called by instances.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from raftlog.errors import OffsetOutOfRange, RaftlogError, Unavailable, UndecodableBatch
from raftlog.partitions.consumers.positions import FetchPosition
from raftlog.partitions.consumers.taking import Taken, take
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import Fetched
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.types import Offset, OffsetRange, TopicPartition

_ASKED_AT_ONCE = 4
"""Each answers a batch at least, however little is wanted; so this many batches may be in memory too much."""
_FRAMING_BYTES = 1024
"""Headers of batches and records come on top of what an answer may have."""
_WAITING_AT_ONCE = 64
_WAIT_S = 0.5
"""A leader is asked to wait no longer than this: it is not told when nobody waits any more."""
_STRAGGLER_S = 0.2
"""Longer than it takes to ask a leader that is there."""
_HONEST_S = 0.5
"""Even a poll that does not want to wait gives leaders so long to answer."""


class RecordReader(Protocol):
    """What an instance reads through: the broker."""

    async def fetch(
        self, topic: str, partition: int, offset: int, *, max_bytes: int, min_bytes: int, deadline: Deadline
    ) -> Fetched: ...

    async def offsets(
        self, topic: str, partition: int, *, linearizable: bool = False, deadline: Deadline
    ) -> OffsetRange: ...

    async def offset_for_timestamp(
        self, topic: str, partition: int, timestamp_ms: int, *, deadline: Deadline
    ) -> tuple[Offset, int] | None: ...


class PollLimits(NamedTuple):
    """In bytes; see the module. `opener` opens compressed batches."""

    min_bytes: int
    max_bytes: int
    stored_bytes_max: int
    opener: BatchOpener


class Polled(NamedTuple):
    """What is to be delivered, in this order, and which partitions could not be asked."""

    taken: list[tuple[TopicPartition, Taken]]
    failed: dict[TopicPartition, RaftlogError]


class Poll:
    """Used once."""

    def __init__(self, reader: RecordReader, limits: PollLimits, until: Deadline, interrupted: asyncio.Event) -> None:
        self._reader, self._limits, self._until, self._interrupted = reader, limits, until, interrupted
        self._loop = asyncio.get_running_loop()
        self._taken: list[tuple[TopicPartition, Taken]] = []
        self._failed: dict[TopicPartition, RaftlogError] = {}
        self._size = self._stored = 0
        self._asked: dict[asyncio.Task[Fetched], FetchPosition] = {}
        self._dropped: list[asyncio.Task[Fetched]] = []
        """Nobody wants their answers any more."""

    async def run(self, standings: Sequence[FetchPosition]) -> Polled:
        """Ask these, the first first."""
        try:
            await self._look(standings)
            await self._wait(standings)
        finally:
            self._drop()
            await asyncio.gather(*self._dropped, return_exceptions=True)
        return Polled(self._taken, self._failed)

    @property
    def _is_over(self) -> bool:
        return self._interrupted.is_set() or self._loop.time() >= self._until

    @property
    def _is_full(self) -> bool:
        return self._size >= self._limits.max_bytes or self._stored >= self._limits.stored_bytes_max

    @property
    def _is_enough(self) -> bool:
        return self._is_full or (bool(self._taken) and self._size >= self._limits.min_bytes)

    @property
    def _has_to_be_told(self) -> bool:
        """Something that the client, or the reset policy, has to decide, which does not get better by waiting."""
        return any(isinstance(error, OffsetOutOfRange | UndecodableBatch) for error in self._failed.values())

    # what is there

    async def _look(self, standings: Sequence[FetchPosition]) -> None:
        honest = Deadline(max(self._until, self._loop.time() + _HONEST_S))
        left = list(reversed(standings))
        while left and not self._is_full and not self._interrupted.is_set() and self._loop.time() < honest:
            some = [left.pop() for _ in range(min(_ASKED_AT_ONCE, len(left)))]
            wave = {self._ask(standing, 0, honest, share=len(some)) for standing in some}
            soon = Deadline(min(honest, self._loop.time() + _STRAGGLER_S))
            while not wave.isdisjoint(self._asked) and not self._interrupted.is_set() and self._loop.time() < soon:
                await self._answers(soon)
        honest = Deadline(min(honest, self._loop.time() + _HONEST_S))
        while self._asked and not self._taken and not self._interrupted.is_set() and self._loop.time() < honest:
            await self._answers(honest)  # some leaders are looked for
        for partition, _ in self._asked.values():
            self._failed[partition] = Unavailable(f"{partition}: its leader did not answer in time")
        self._drop()

    # what comes

    async def _wait(self, standings: Sequence[FetchPosition]) -> None:
        quiet = [standing for standing in standings if self._may_come(standing.partition)]
        while not self._is_enough and not self._is_over and not self._has_to_be_told:
            now = self._loop.time()
            slice_end = Deadline(min(self._until, now + _WAIT_S))
            some = quiet[:_WAITING_AT_ONCE]
            for standing in some:
                self._ask(standing, 1, slice_end, share=len(some))
            while not self._is_enough and not self._is_over and self._loop.time() < slice_end:
                await self._answers(slice_end)
            self._drop()
            quiet = [standing for standing in quiet[len(some) :] + some if self._may_come(standing.partition)]

    def _may_come(self, partition: TopicPartition) -> bool:
        """Nothing is taken of it yet; where it could not be read, it may be possible soon."""
        failed = self._failed.get(partition)
        is_hopeless = failed is not None and not isinstance(failed, Unavailable)
        return not is_hopeless and all(partition != taken for taken, _ in self._taken)

    # asking

    def _drop(self) -> None:
        for task in self._asked:
            task.cancel()
        self._dropped += self._asked
        self._asked.clear()

    def _ask(self, standing: FetchPosition, min_bytes: int, deadline: Deadline, *, share: int) -> asyncio.Task[Fetched]:
        (topic, number), offset = standing
        room = max(1, min(self._limits.stored_bytes_max - self._stored, 2 * self._room + _FRAMING_BYTES) // share)
        fetching = self._reader.fetch(topic, number, offset, max_bytes=room, min_bytes=min_bytes, deadline=deadline)
        task = self._loop.create_task(fetching, name=f"poll {standing.partition}")
        self._asked[task] = standing
        return task

    @property
    def _room(self) -> int:
        return max(0, self._limits.max_bytes - self._size)

    async def _answers(self, until: Deadline) -> None:
        """Take the answers that come first, unless it is then, or the poll is interrupted, before."""
        interruption = self._loop.create_task(self._interrupted.wait())
        try:
            left_s = until - self._loop.time()
            await asyncio.wait((*self._asked, interruption), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            for task, standing in [(task, self._asked[task]) for task in self._asked if task.done()]:
                del self._asked[task]
                await self._answered(standing, task)
        finally:
            interruption.cancel()

    async def _answered(self, standing: FetchPosition, task: "asyncio.Task[Fetched]") -> None:
        """What does not fit is left where it is."""
        try:
            fetched = task.result()
            if not fetched.batches or (self._taken and self._is_full):
                return
            is_first = not any(taken.records for _, taken in self._taken)
            taken = await take(fetched.batches, standing.offset, self._room, self._limits.opener, at_least_one=is_first)
        except UndecodableBatch as error:
            self._failed[standing.partition] = error.at(standing.partition)
            return
        except RaftlogError as error:
            self._failed[standing.partition] = error
            return
        if taken.end > standing.offset:
            self._failed.pop(standing.partition, None)
            self._taken.append((standing.partition, taken))
            self._size += taken.size
            self._stored += taken.stored_bytes
