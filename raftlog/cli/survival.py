"""Writes to a broker that is killed meanwhile, and the comparison afterwards.

Each write is one record with a value of its own. It ends as acknowledged, with its offset; as refused, which is
definite; or as unknown, when the answer was lost: such a record may be stored or not, and both are right.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from raftlog.cli.broker_process import BrokerProcess
from raftlog.client import BrokerClient
from raftlog.client.decode import checked_batches, records_from
from raftlog.errors import OutcomeUnknown, RaftlogError
from raftlog.records import NewRecord, Record, build_batch
from raftlog.types import TopicPartition

Say = Callable[[str], object]

WRITERS = 16


class SurvivalReport(NamedTuple):
    """What was written, and what is there. `unknown_found ≤ unknown`; `missing` must be 0."""

    kills: int
    sent: int
    acknowledged: int
    refused: int
    unknown: int
    unknown_found: int
    found: int
    missing: int
    first_missing: int | None


@dataclass(slots=True)
class _Ledger:
    """What became of every write."""

    numbers: Iterator[int] = field(default_factory=itertools.count)
    sent: int = 0
    refused: int = 0
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    unknown: set[bytes] = field(default_factory=set)


async def kill_under_load(
    broker: BrokerProcess, place: TopicPartition, records: int, kills: int, say: Say
) -> SurvivalReport:
    """Kill the running broker `kills` times, each after `records` more acknowledgements, and start it again."""
    ledger = _Ledger()
    for number in range(1, kills + 1):
        await _one_kill(broker, place, records, ledger, f"kill {number} of {kills}", say)
    async with BrokerClient([broker.address]) as client:
        stored = {record.offset: record.value or b"" for record in await everything_stored(client, place)}
    report = _compare(ledger, stored, kills)
    say(
        f"\nsent {report.sent:,}: acknowledged {report.acknowledged:,}, unknown {report.unknown:,}, "
        f"refused {report.refused:,}\n"
        f"found {report.found:,} of the acknowledged at their offsets with their values, "
        f"{report.unknown_found:,} of the unknown\n"
        "  (unknown: the kill came between append and answer, so each may be there or not)\n"
    )
    return report


async def _one_kill(
    broker: BrokerProcess, place: TopicPartition, records: int, ledger: _Ledger, title: str, say: Say
) -> None:
    enough = asyncio.Event()
    target = len(ledger.acknowledged) + records
    pid = broker.pid
    async with BrokerClient([broker.address]) as client:
        writers = [asyncio.create_task(_write(client, place, ledger, target, enough)) for _ in range(WRITERS)]
        waiting = asyncio.create_task(enough.wait())
        await asyncio.wait([waiting, *writers], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.to_thread(broker.kill)
        await asyncio.gather(*writers)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.to_thread(broker.start)
    say(
        f"{title}: SIGKILL to pid {pid} with {WRITERS} writes in flight, {len(ledger.acknowledged):,} acknowledged so "
        f"far; started again as pid {broker.pid}, ready after {loop.time() - began:.2f} s"
    )


async def _write(
    client: BrokerClient, place: TopicPartition, ledger: _Ledger, target: int, enough: asyncio.Event
) -> None:
    """Write until the broker is gone."""
    while True:
        value = b"write %d" % next(ledger.numbers)
        ledger.sent += 1
        try:
            produced = await client.produce_batches(*place, build_batch([NewRecord(value)]))
        except OutcomeUnknown:
            ledger.unknown.add(value)
            return
        except RaftlogError:
            ledger.refused += 1
            return
        ledger.acknowledged[produced.base_offset] = value
        if len(ledger.acknowledged) >= target:
            enough.set()


def _compare(ledger: _Ledger, stored: dict[int, bytes], kills: int) -> SurvivalReport:
    missing = [offset for offset, value in ledger.acknowledged.items() if stored.get(offset) != value]
    return SurvivalReport(
        kills=kills,
        sent=ledger.sent,
        acknowledged=len(ledger.acknowledged),
        refused=ledger.refused,
        unknown=len(ledger.unknown),
        unknown_found=len(ledger.unknown & set(stored.values())),
        found=len(ledger.acknowledged) - len(missing),
        missing=len(missing),
        first_missing=min(missing, default=None),
    )


async def everything_stored(client: BrokerClient, place: TopicPartition) -> list[Record]:
    """All records of a partition up to the end that it has now."""
    offset, end = await client.offsets(*place)
    records: list[Record] = []
    while offset < end:
        fetched = await client.fetch_batches(*place, offset)
        for header, batch in checked_batches(fetched.body):
            records += records_from(header, batch, offset)
        assert fetched.body, f"{place} has nothing to read at offset {offset}, and its end is {end}"
        offset = type(offset)(records[-1].offset + 1)
    return records
