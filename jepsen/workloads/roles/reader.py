"""Readers: each follows partitions from its own positions, and polls through a random node each time.

At times a reader crashes during a poll, and another one continues at a lower offset. After a refusal because of
deleted records, a reader continues at the log start, as a program does that resets its offsets to the earliest.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Final

from jepsen.checkers.history import ASSIGN, POLL, Assign, Fetched, Poll
from jepsen.workloads.adapters.port import LogAccess
from jepsen.workloads.client.recording import HistoryWriter
from raftlog.errors import OffsetOutOfRange, RaftlogError
from raftlog.types import Offset, TopicPartition

ASSIGN_SHARE: Final = 0.01
"""Share of polls before which a reader goes back to an offset below its position."""
CRASH_SHARE: Final = 0.005
"""Share of steps in which a reader crashes, at a random time of up to `CRASH_S_MAX` seconds."""
CRASH_S_MAX: Final = 0.1
NEAR: Final = 2000
"""Largest number of records by which a reader usually goes back."""
FAR_SHARE: Final = 0.1
"""Share of these moves that may go back to the start: in a long test it takes too long to read all records often."""
MANY: Final = 20
POLLS_MAX: Final = 10
"""Number of polls in one step: an answer ends at the end of a segment, so one poll may not reach the log's end."""
WAITS_MS: Final = (0, 50, 200, 500)


class Reader:
    """Reader in one process of the history."""

    def __init__(
        self,
        access: LogAccess,
        history: HistoryWriter,
        process: int,
        positions: Mapping[TopicPartition, int],
        random: Random,
    ) -> None:
        """Set up the reader; `positions` are the offsets at which it begins."""
        self._access, self._history, self._process, self._random = access, history, process, random
        self._fetcher = access.fetcher()
        self.positions = dict(positions)
        self._turn: list[TopicPartition] = []
        self.assign()

    def assign(self) -> None:
        """Record an assignment of `positions` in the history; nothing is sent."""
        positions = tuple((place, Offset(offset)) for place, offset in self.positions.items())
        self._history.ok(self._history.invoke(self._process, ASSIGN, Assign(positions)))

    async def step(self) -> None:
        """Poll the next partition in turn through any node, and repeat while a poll returns many records."""
        if self._random.random() < CRASH_SHARE:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._random.uniform(0, CRASH_S_MAX)):
                    await self._step()
            self._history.crash(self._process)
            self._go_back()
        else:
            if self._random.random() < ASSIGN_SHARE:
                self._go_back()
            await self._step()

    def _go_back(self) -> None:
        """Go back in one partition to an offset that may have been committed, mostly a near one."""
        place = self._random.choice(list(self.positions))
        position = self.positions[place]
        lowest = 0 if self._random.random() < FAR_SHARE else max(0, position - NEAR)
        self.positions[place] = self._random.choice((lowest, self._random.randint(lowest, position)))
        self.assign()

    async def _step(self) -> None:
        """Poll the next partition, repeatedly while polls return many records.

        All partitions have a turn, in random order."""
        if not self._turn:
            self._turn = self._random.sample(list(self.positions), len(self.positions))
        place = self._turn.pop()
        for _ in range(POLLS_MAX):
            brought = await self.poll(self._access.draw_node(self._random), place, self._random.choice(WAITS_MS))
            if brought is None or brought < MANY:
                return

    async def poll(self, node: int, place: TopicPartition, wait_ms: int) -> int | None:
        """Poll and return the number of records; None on a failure, or if another topic has the name."""
        invocation = self._history.invoke(self._process, POLL, Poll(), node=node)
        try:
            found = await self._fetcher.fetch(node, place, self.positions[place], wait_ms)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error, partition=str(place), offset=self.positions[place])
            if isinstance(error, OffsetOutOfRange):
                self.positions[place] = error.first
                self.assign()
            return None
        brought = len(found.offsets)
        if not brought:
            self._history.ok(invocation, Poll())
        else:
            fetched = Fetched(found.place, tuple(found.offsets), tuple(found.values))
            self._history.ok(invocation, Poll((fetched,)), leader_epochs=found.epochs)
            self._history.polled += brought
        if found.place != place:
            return None
        self.positions[place] = found.next_offset
        return brought
