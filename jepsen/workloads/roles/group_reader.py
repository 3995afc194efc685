"""Reads by a consumer of the client library, as a group member with automatic commits.

It is one subscribed process of the history: each poll is checked separately, and every record by its offset and value.
At times the consumer crashes and another one replaces it, or it stalls for longer than its session.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen.checkers import Poll, Subscribe
from jepsen.checkers.history import POLL, SUBSCRIBE
from jepsen.workloads.adapters.port import Adapter, SubscribedConsumer
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.roles.poll_results import group_by_partition
from raftlog.errors import RaftlogError

GROUP: Final = "consumers"
SESSION_TIMEOUT_MS: Final = 2_000
POLL_MS: Final = 300
STALLS: Final = 0.01
ENDS: Final = 0.02


class GroupReader:
    """Role of a group member that polls records; when one stops, a new one follows."""

    def __init__(
        self,
        adapter: Adapter,
        history: HistoryWriter,
        process: int,
        topics: Sequence[str],
        random: Random,
        pause_s: float = 0,
    ) -> None:
        """Set up the reader; `pause_s` is the time between polls."""
        self._pause_s = pause_s
        self._adapter, self._history, self._process = adapter, history, process
        self._topics, self._random = tuple(topics), random

    async def run(self, until_s: float) -> None:
        """Poll with group members, one after another, until `until_s` (event-loop time)."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            self._history.ok(self._history.invoke(self._process, SUBSCRIBE, Subscribe(self._topics)))
            consumer = self._adapter.new_consumer(self._random, self._topics, GROUP, SESSION_TIMEOUT_MS, POLL_MS)
            try:
                async with consumer:
                    while loop.time() < until_s and self._random.random() >= ENDS:
                        await self._poll(consumer)
                        await asyncio.sleep(self._pause_s)
            except RaftlogError:
                await asyncio.sleep(POLL_MS / 1000)

    async def _poll(self, consumer: SubscribedConsumer) -> None:
        """Poll once, by random choice after a stall longer than the session timeout. Raises `RaftlogError`."""
        if self._random.random() < STALLS:
            await asyncio.sleep(1.5 * SESSION_TIMEOUT_MS / 1000)
        invocation = self._history.invoke(self._process, POLL, Poll())
        try:
            records = await consumer.poll(timeout_ms=POLL_MS)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
            raise
        fetched = group_by_partition(records)
        self._history.ok(invocation, Poll(fetched))
        self._history.polled += len(records)
