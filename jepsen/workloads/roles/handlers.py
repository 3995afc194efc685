"""Reads by `raftlog.client.HandlerLoop`: each call of a handler is one operation.

Some calls fail and are repeated, some take long. At times a `HandlerLoop` is stopped in an orderly way, or cancelled
while handlers run, and another one replaces it.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen.checkers.history import HANDLE, Handle
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import parse_record
from raftlog.client import ConsumerRecord, HandlerLoop
from raftlog.errors import RaftlogError
from raftlog.types import TopicPartition

GROUP: Final = "handlers"
CONCURRENCY: Final = 8
SESSION_TIMEOUT_MS: Final = 4_000
ATTEMPTS: Final = 1_000
"""Limit of attempts that no record reaches, so that no record becomes a dead letter."""
FAILURES: Final = 0.05
SLOW: Final = 0.02
SLOW_S: Final = 0.5
LIFE_S: Final = (8.0, 30.0)
_PAUSE_S: Final = 0.3


class Handlers:
    """Role of a group member that passes records to handler functions; when one stops, a new one follows."""

    def __init__(
        self,
        addresses: Sequence[str],
        history: HistoryWriter,
        processes: Sequence[int],
        topics: Sequence[str],
        random: Random,
    ) -> None:
        """Create the handlers; `processes` holds one process for each concurrent call."""
        self._addresses, self._history, self._processes = list(addresses), history, list(processes)
        self._topics, self._random = tuple(topics), random

    async def run(self, until_s: float) -> None:
        """Run group members with handlers, one after another, until `until_s` (event-loop time)."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            handlers = HandlerLoop(
                self._random.sample(self._addresses, len(self._addresses)),
                *self._topics,
                group=GROUP,
                handler=self._handle,
                concurrency=CONCURRENCY,
                attempts=ATTEMPTS,
                retry_pause_s_max=0.5,
                stop_timeout_s=1.0,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=3 * SESSION_TIMEOUT_MS,
                fetch_wait_ms=500,
            )
            try:
                async with handlers:
                    await self._run(handlers, min(until_s, loop.time() + self._random.uniform(*LIFE_S)))
            except RaftlogError:
                await asyncio.sleep(_PAUSE_S)

    async def _run(self, handlers: HandlerLoop, until_s: float) -> None:
        """Run handlers until `until_s` (event-loop time); then stop them in order or cancel them, by random choice."""
        running = asyncio.create_task(handlers.run())
        try:
            await asyncio.wait([running], timeout=max(0.0, until_s - asyncio.get_running_loop().time()))
            if self._random.random() < 0.5:
                handlers.stop()
                await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _handle(self, record: ConsumerRecord) -> None:
        """Handle a record as one operation, by random choice slowly or with an error."""
        process = self._processes.pop()
        key = "" if record.key is None else record.key.decode()
        place = TopicPartition(record.topic, record.partition)
        invocation = self._history.invoke(
            process,
            HANDLE,
            Handle(GROUP, place, key, record.offset, parse_record(record)),
        )
        try:
            if self._random.random() < SLOW:
                await asyncio.sleep(SLOW_S)
            if self._random.random() < FAILURES:
                self._history.info(invocation, "raised, as drawn")
                raise ConnectionError("as drawn")
            self._history.ok(invocation)
            self._history.polled += 1
        except asyncio.CancelledError:
            self._history.info(invocation, "cancelled")
            raise
        finally:
            self._processes.append(process)
