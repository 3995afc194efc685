"""Load of clients that retry each write after every error, until its deadline.

Each partition has writers of its own at a steady pace, so that the partition, and not the pace, is the cause of a gap
between its acknowledgements. A record whose attempt has an unknown outcome is sent again and may be stored twice;
such attempts are counted. Used by measurements and tests of the effects of restarts on clients."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from raftlog.client import BrokerClient
from raftlog.errors import OutcomeUnknown, RaftlogError
from raftlog.records import build_batch
from raftlog.types import Offset, TopicPartition

PAUSE_S: Final = 0.02
"""Pause between two attempts."""
REASONS_MAX: Final = 20
"""Number of different error messages that are kept."""


class SteadyReport(NamedTuple):
    """Report of the load: each record is in `written` or in `failed`; times are in seconds."""

    written: int
    failed: int
    """Writes without an acknowledgement by their deadlines."""
    refused: int
    """Failed attempts that certainly wrote nothing, and were followed by another attempt."""
    unknown: int
    """Attempts of unknown outcome that were followed by another attempt."""
    longest_s: float
    """Longest duration of one write with all its attempts."""
    gaps_s: dict[TopicPartition, float]
    """The longest time without an acknowledgement, by partition."""
    reasons: dict[str, int]
    """Number of errors by message."""
    acknowledged: dict[tuple[TopicPartition, Offset], int]
    """Value (a number) of each acknowledged record by partition and offset."""

    @property
    def longest_gap_s(self) -> float:
        return max(self.gaps_s.values(), default=0.0)


class SteadyLoad:
    """Load that writes until its block ends: `async with SteadyLoad(…) as load:`, then `load.report()`."""

    def __init__(
        self,
        addresses: Sequence[str],
        places: Sequence[TopicPartition],
        *,
        writers: int = 1,
        interval_s: float = 0.05,
        deadline_s: float = 5.0,
    ) -> None:
        """Configure `writers` per partition; each writes every `interval_s`, or after its last write has ended."""
        self._addresses, self._places = list(addresses), list(places)
        self._writers, self._interval_s, self._deadline_s = writers, interval_s, deadline_s
        self._loop = asyncio.get_running_loop()
        self._is_over, self._acked = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: list[BrokerClient] = []
        self._numbers = itertools.count()
        self._acked_at: dict[TopicPartition, float] = {}
        self._gaps_s = dict.fromkeys(self._places, 0.0)
        self._acknowledged: dict[tuple[TopicPartition, Offset], int] = {}
        self._failed = self._refused = self._unknown = 0
        self._longest_s = 0.0
        self._reasons: Counter[str] = Counter()

    async def __aenter__(self) -> "SteadyLoad":
        # Each writer has connections of its own and begins with another broker, as separate programs would.
        for number in range(self._writers):
            turn = number % len(self._addresses)
            client = BrokerClient([*self._addresses[turn:], *self._addresses[:turn]])
            self._clients.append(client)
            self._tasks += [self._loop.create_task(self._write(client, place)) for place in self._places]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()
        done = await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()
        for error in done:
            if isinstance(error, BaseException):
                raise error

    @property
    def written(self) -> int:
        return len(self._acknowledged)

    async def wait_for_more(self, count: int, within_s: float = 30.0) -> None:
        """Wait until `count` further writes are acknowledged; raises `TimeoutError`."""
        target = self.written + count
        async with asyncio.timeout(within_s):
            while self.written < target:
                self._acked.clear()
                await self._acked.wait()

    def report(self) -> SteadyReport:
        """Return the counts so far."""
        return SteadyReport(
            written=self.written,
            failed=self._failed,
            refused=self._refused,
            unknown=self._unknown,
            longest_s=self._longest_s,
            gaps_s=dict(self._gaps_s),
            reasons=dict(self._reasons),
            acknowledged=dict(self._acknowledged),
        )

    async def _write(self, client: BrokerClient, place: TopicPartition) -> None:
        """Write one record in each interval to a partition, until the load is over."""
        while not self._is_over.is_set():
            began = self._loop.time()
            await self._write_one(client, place, began + self._deadline_s)
            now = self._loop.time()
            self._longest_s = max(self._longest_s, now - began)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, began + self._interval_s - now)):
                    await self._is_over.wait()

    async def _write_one(self, client: BrokerClient, place: TopicPartition, until: float) -> None:
        """Write one record with retries until it is acknowledged, or until the time `until`."""
        number = next(self._numbers)
        batch = build_batch([b"%d" % number])
        while (left_s := until - self._loop.time()) > 0:
            try:
                produced = await client.produce_batches(*place, batch, timeout_ms=max(1, round(left_s * 1000)))
            except OutcomeUnknown as error:
                self._unknown += 1
                self._count_error(error)
            except RaftlogError as error:
                self._refused += 1
                self._count_error(error)
            else:
                self._acknowledge(place, produced.base_offset, number)
                return
            await asyncio.sleep(min(PAUSE_S, max(0.0, until - self._loop.time())))
        self._failed += 1

    def _count_error(self, error: RaftlogError) -> None:
        """Count an error by its text; at most `REASONS_MAX` different texts are kept."""
        reason = f"{type(error).__name__}: {error}"
        if reason in self._reasons or len(self._reasons) < REASONS_MAX:
            self._reasons[reason] += 1

    def _acknowledge(self, place: TopicPartition, offset: Offset, number: int) -> None:
        """Record that record `number` was acknowledged at an offset, and the time since the last acknowledgement."""
        known = self._acknowledged.setdefault((place, offset), number)
        assert known == number, f"{place} offset {offset} was acknowledged for {known} and for {number}"
        now = self._loop.time()
        last = self._acked_at.get(place)
        if last is not None:
            self._gaps_s[place] = max(self._gaps_s[place], now - last)
        self._acked_at[place] = now
        self._acked.set()
