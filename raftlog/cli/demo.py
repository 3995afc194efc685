"""`raftlog demo`: what the log does, shown on a real broker, and what it survives, proved on the same.

Everything happens on loopback, in a temporary directory and in processes of its own; nothing is left behind.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import click
import orjson

from raftlog.cli.broker_process import BrokerProcess
from raftlog.cli.options import json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.survival import Say, SurvivalReport, everything_stored, kill_under_load
from raftlog.client import BrokerClient
from raftlog.records import NewRecord, build_batch
from raftlog.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
GROUP = "billing"


@click.command()
@option("--records", type=click.IntRange(min=1), default=3000, help="Acknowledged records after which the kill comes.")
@option("--kills", type=click.IntRange(min=1), default=2, help="How often the broker is killed.")
@json_option("Print the result as JSON, instead of the trace.")
def demo(records: int, kills: int, as_json: bool) -> None:
    """Show a broker at work, kill it in the middle of writes, and prove that nothing acknowledged is lost.

    Exit code 1 when anything acknowledged is missing.
    """
    started = time.monotonic()
    say = _silent if as_json else click.echo
    with tempfile.TemporaryDirectory(prefix="raftlog-demo-") as directory, BrokerProcess(directory) as broker:
        _start(broker, say)
        asyncio.run(_trace(broker.address, say))
        report = asyncio.run(kill_under_load(broker, ORDERS, records, kills, say))
        committed = asyncio.run(_still_committed(broker.address, say))
        code = broker.stop()
        say(f"SIGTERM: the broker stopped with exit code {code}")
        kept = sum(path.stat().st_size for path in Path(directory).rglob("*.log"))
    seconds = time.monotonic() - started
    passed = not report.missing and committed and code == 0
    if as_json:
        click.echo(orjson.dumps({**report._asdict(), "passed": passed, "seconds": round(seconds, 3)}))
    if not passed:
        raise CommandFailed(_what_failed(report, committed, code))
    say(
        f"\nPASSED in {seconds:.1f} s: all {report.acknowledged:,} acknowledged records are at their offsets "
        f"after {report.kills} kills ({kept:,} bytes of log)"
    )


def _silent(_line: str) -> None:
    """The trace of a run whose result is wanted as JSON."""


def _what_failed(report: SurvivalReport, committed: bool, code: int) -> str:
    if report.missing:
        return (
            f"LOST: {report.missing} of {report.acknowledged} acknowledged records are missing or different, "
            f"first at offset {report.first_missing}"
        )
    return "the committed offset of the group is gone" if not committed else f"the broker exited with code {code}"


def _start(broker: BrokerProcess, say: Say) -> None:
    began = time.monotonic()
    broker.start()
    say(f"a broker serves http://{broker.address} (pid {broker.pid}), ready after {time.monotonic() - began:.2f} s\n")


async def _trace(address: str, say: Say) -> None:
    """The four calls that a program needs, with what they answer."""
    async with BrokerClient([address]) as client:
        await client.create_topic(ORDERS.topic)
        say('create_topic("orders") -> ok')
        for value in ("hello", "world", "again"):
            produced = await client.produce_batches(*ORDERS, build_batch([NewRecord(value.encode())]))
            say(f'send("orders", "{value}") -> offset {produced.base_offset}')
        polled = [[record.offset, (record.value or b"").decode()] for record in await everything_stored(client, ORDERS)]
        say(f'poll("orders", offset=0) -> {_json(polled)}')
        for offset in (3, 2):
            await client.commit_offsets(GROUP, {ORDERS: offset})
            say(f'commit_offsets("{GROUP}", {{"orders/0": {offset}}}) -> ok' + _remark(offset))
        say(f'list_committed_offsets("{GROUP}") -> {_json(await _committed(client))}\n')


def _remark(offset: int) -> str:
    return "   (a late commit: it moves nothing back)" if offset == 2 else ""


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


async def _committed(client: BrokerClient) -> dict[str, int]:
    return {str(place): int(offset) for place, offset in (await client.committed_offsets(GROUP)).items()}


async def _still_committed(address: str, say: Say) -> bool:
    async with BrokerClient([address]) as client:
        committed = await _committed(client)
    say(f'list_committed_offsets("{GROUP}") -> {_json(committed)}   (after the kills)')
    return committed == {str(ORDERS): 3}
