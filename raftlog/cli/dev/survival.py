"""Writes to a cluster whose leaders are killed meanwhile, and the comparison afterwards.

Each write is one record with a unique value. Its outcome is acknowledged, with an offset; refused, which means
definitely not stored; or unknown, if the answer was lost: such a record may be stored or not, and both are correct."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerClient
from raftlog.client.decode import read_batches, records_at_or_above
from raftlog.errors import OutcomeUnknown, RaftlogError
from raftlog.records import NewRecord, Record, build_batch
from raftlog.testing import Cluster
from raftlog.types import TopicPartition

Echo = Callable[[str], object]

WRITERS: Final = 16
WRITE_TIMEOUT_MS: Final = 5_000
REFUSED_PAUSE_S: Final = 0.02
PROGRESS_SECONDS_MAX: Final = 30.0
"""Time without an acknowledged write after which the demonstration has failed."""


class SurvivalReport(NamedTuple):
    """Counts of written and found records. `unknown_found ≤ unknown`; `missing` must be 0.

    `pauses_s` are the longest times without an acknowledged write, one around each kill."""

    kills: int
    sent: int
    acknowledged: int
    refused: int
    unknown: int
    unknown_found: int
    found: int
    missing: int
    first_missing: int | None
    pauses_s: list[float]


@dataclass(slots=True)
class _WriteOutcomes:
    """Values written so far, by outcome.

    `pauses_s`: the longest time without an acknowledged write around each kill."""

    numbers: Iterator[int] = field(default_factory=itertools.count)
    sent: int = 0
    refused: int = 0
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    unknown: set[bytes] = field(default_factory=set)
    pauses_s: list[float] = field(default_factory=list)


class _SurvivalLoad:
    """Concurrent writers that continue after every failure."""

    def __init__(self, client: BrokerClient, place: TopicPartition, outcomes: _WriteOutcomes) -> None:
        """Prepare to write to the partition `place`, and to record each outcome."""
        self._client, self._place, self._outcomes = client, place, outcomes
        self._is_over = False
        self._target = 0
        self._reached = asyncio.Event()
        self._last_at = asyncio.get_running_loop().time()
        self.longest_pause_s = 0.0

    async def write(self) -> None:
        """Write records, as one of the writers, until the load ends."""
        outcomes = self._outcomes
        while not self._is_over:
            value = b"write %d" % next(outcomes.numbers)
            outcomes.sent += 1
            try:
                produced = await self._client.produce_batches(
                    *self._place, build_batch([NewRecord(value)]), timeout_ms=WRITE_TIMEOUT_MS
                )
            except OutcomeUnknown:
                outcomes.unknown.add(value)
            except RaftlogError:
                outcomes.refused += 1
                await asyncio.sleep(REFUSED_PAUSE_S)
            else:
                self._record_acknowledged(produced.base_offset, value)

    def _record_acknowledged(self, offset: int, value: bytes) -> None:
        """Record an acknowledged value by its offset, and the time since the one before."""
        now = asyncio.get_running_loop().time()
        self.longest_pause_s = max(self.longest_pause_s, now - self._last_at)
        self._last_at = now
        acknowledged = self._outcomes.acknowledged
        acknowledged[offset] = value
        if len(acknowledged) >= self._target:
            self._reached.set()

    async def wait_for_acknowledged(self, count: int) -> None:
        """Wait for `count` more acknowledged writes. Raises `CommandFailed` after too long a time without any."""
        self._target = len(self._outcomes.acknowledged) + count
        self._reached.clear()
        while not self._reached.is_set():
            before = len(self._outcomes.acknowledged)
            try:
                await asyncio.wait_for(self._reached.wait(), PROGRESS_SECONDS_MAX)
            except TimeoutError:
                if len(self._outcomes.acknowledged) == before:
                    raise CommandFailed(f"no write was acknowledged for {PROGRESS_SECONDS_MAX:g} s") from None

    def end(self) -> None:
        """Stop the writers after the answers to their last writes."""
        self._is_over = True


async def kill_leaders_under_load(
    cluster: Cluster, place: TopicPartition, records: int, kills: int, echo: Echo
) -> SurvivalReport:
    """Kill a partition's leader `kills` times, every `records` acknowledgements, and restart it under load."""
    outcomes = _WriteOutcomes()
    async with BrokerClient(cluster.addresses) as client:
        async with _running_load(client, place, outcomes) as load:
            for number in range(1, kills + 1):
                await _kill_leader(cluster, place, records, outcomes, load, f"kill {number} of {kills}", echo)
        stored = {record.offset: record.value or b"" for record in await read_all_records(client, place)}
    report = _compare_with_stored(outcomes, stored, kills)
    echo(
        f"\nsent {report.sent:,}: acknowledged {report.acknowledged:,}, unknown {report.unknown:,}, "
        f"refused {report.refused:,}\n"
        f"found {report.found:,} of the acknowledged at their offsets with their values, "
        f"{report.unknown_found:,} of the unknown\n"
        "  (unknown: the kill came between append and answer, so each may be there or not)\n"
    )
    return report


@asynccontextmanager
async def _running_load(
    client: BrokerClient, place: TopicPartition, outcomes: _WriteOutcomes
) -> AsyncIterator[_SurvivalLoad]:
    """Write in the background until the context ends; the end waits for the answers to all writes."""
    load = _SurvivalLoad(client, place, outcomes)
    writers = [asyncio.create_task(load.write()) for _ in range(WRITERS)]
    try:
        yield load
    finally:
        load.end()
        await asyncio.gather(*writers)


async def _kill_leader(
    cluster: Cluster,
    place: TopicPartition,
    records: int,
    outcomes: _WriteOutcomes,
    load: _SurvivalLoad,
    title: str,
    echo: Echo,
) -> None:
    """Kill the leader of the partition under load, report how long writes paused, and start the broker again."""
    await load.wait_for_acknowledged(records)
    leader = await asyncio.to_thread(cluster.leader, *place)
    node = cluster.nodes[leader]
    load.longest_pause_s = 0.0
    count = len(outcomes.acknowledged)
    await asyncio.to_thread(node.kill)
    await load.wait_for_acknowledged(max(1, records // 4))
    outcomes.pauses_s.append(round(load.longest_pause_s, 3))
    successor = await asyncio.to_thread(cluster.leader, *place, other_than=(leader,))
    echo(
        f"{title}: SIGKILL to node {leader}, which leads {place}, with {WRITERS} writes in flight, {count:,} "
        f"acknowledged so far\n  node {successor} is the new leader; "
        f"writes continued after {load.longest_pause_s:.2f} s"
    )
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.to_thread(node.start)
    echo(f"  node {leader} was restarted, ready after {loop.time() - began:.2f} s")


def _compare_with_stored(outcomes: _WriteOutcomes, stored: dict[int, bytes], kills: int) -> SurvivalReport:
    """Return the report: counts of writes by outcome, and of acknowledged records that are missing or different."""
    missing = [offset for offset, value in outcomes.acknowledged.items() if stored.get(offset) != value]
    return SurvivalReport(
        kills=kills,
        sent=outcomes.sent,
        acknowledged=len(outcomes.acknowledged),
        refused=outcomes.refused,
        unknown=len(outcomes.unknown),
        unknown_found=len(outcomes.unknown & set(stored.values())),
        found=len(outcomes.acknowledged) - len(missing),
        missing=len(missing),
        first_missing=min(missing, default=None),
        pauses_s=outcomes.pauses_s,
    )


async def read_all_records(client: BrokerClient, place: TopicPartition) -> list[Record]:
    """Return all records of a partition up to its present end."""
    offset, end = await client.offsets(*place)
    records: list[Record] = []
    while offset < end:
        fetched = await client.fetch_batches(*place, offset)
        for header, batch in read_batches(fetched.body):
            records += records_at_or_above(header, batch, offset)
        assert fetched.body, f"{place} has nothing to read at offset {offset}, and its end is {end}"
        offset = type(offset)(records[-1].offset + 1)
    return records
