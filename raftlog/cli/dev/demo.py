"""`raftlog demo`: the log's operations on a real cluster, and proof that records survive kills of its leader.

Everything happens on loopback, in a temporary directory and in processes of its own; nothing is left behind.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import click
import orjson

from raftlog.cli.dev.survival import Echo, SurvivalReport, kill_leaders_under_load, read_all_records
from raftlog.cli.options import json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerClient
from raftlog.records import NewRecord, build_batch
from raftlog.testing import Cluster
from raftlog.types import TopicPartition

NODES: Final = 3
ORDERS = TopicPartition("orders", 0)
GROUP = "billing"


@click.command()
@option("--records", type=click.IntRange(min=1), default=1000, help="Acknowledged records between kills.")
@option("--kills", type=click.IntRange(min=1), default=2, help="Number of times that the leader is killed.")
@json_option("Print the result as JSON, instead of the trace.")
def demo(records: int, kills: int, as_json: bool) -> None:
    """Run three brokers, kill the leader during writes, and check that no acknowledged record is lost.

    Exit code 1 if an acknowledged record is missing.
    """
    started = time.monotonic()
    echo = _discard_line if as_json else click.echo
    echo(f"starting {NODES} brokers")
    with Cluster(NODES, with_cuts=False, serve_flags=("--log-level", "warning")) as cluster:
        echo(f"{NODES} brokers serve {', '.join(cluster.addresses)}, ready after {time.monotonic() - started:.2f} s\n")
        asyncio.run(_show_calls(cluster.addresses, echo))
        report = asyncio.run(kill_leaders_under_load(cluster, ORDERS, records, kills, echo))
        committed = asyncio.run(_check_committed(cluster.addresses, echo))
        codes = [node.stop() for node in cluster.nodes.values()]
        echo(f"SIGTERM: the brokers stopped with exit codes {', '.join(map(str, codes))}")
        kept = sum(path.stat().st_size for path in cluster.directory.rglob("*.log"))
    seconds = time.monotonic() - started
    passed = not report.missing and committed and not any(codes)
    if as_json:
        click.echo(orjson.dumps({**report._asdict(), "passed": passed, "seconds": round(seconds, 3)}))
    if not passed:
        raise CommandFailed(_describe_failure(report, committed, codes))
    echo(
        f"\nPASSED in {seconds:.1f} s: all {report.acknowledged:,} acknowledged records are at their offsets "
        f"after {report.kills} kills of the leader ({kept:,} bytes of log in {NODES} copies)"
    )


def _discard_line(_line: str) -> None:
    """Discard a line of the trace, for a run whose result is printed as JSON."""


def _describe_failure(report: SurvivalReport, committed: bool, codes: Sequence[int]) -> str:
    """Return why the demonstration failed."""
    if report.missing:
        return (
            f"LOST: {report.missing} of {report.acknowledged} acknowledged records are missing or different, "
            f"first at offset {report.first_missing}"
        )
    if not committed:
        return "the committed offset of the group was lost"
    return f"the brokers stopped with exit codes {', '.join(map(str, codes))}"


async def _show_calls(addresses: Sequence[str], echo: Echo) -> None:
    """Show the four calls that a program needs, with their answers."""
    async with BrokerClient(addresses) as client:
        await client.create_topic(ORDERS.topic)
        echo('create_topic("orders") -> ok')
        for value in ("hello", "world", "again"):
            produced = await client.produce_batches(*ORDERS, build_batch([NewRecord(value.encode())]))
            echo(f'send("orders", "{value}") -> offset {produced.base_offset}')
        polled = [[record.offset, (record.value or b"").decode()] for record in await read_all_records(client, ORDERS)]
        echo(f'poll("orders", offset=0) -> {_format_json(polled)}')
        for offset in (3, 2):
            await client.groups.commit(GROUP, {ORDERS: offset})
            echo(f'commit_offsets("{GROUP}", {{"orders/0": {offset}}}) -> ok' + _describe_commit(offset))
        echo(f'list_committed_offsets("{GROUP}") -> {_format_json(await _fetch_committed(client))}\n')


def _describe_commit(offset: int) -> str:
    """Return a remark about the commit of this offset."""
    return "   (a late commit: it moves nothing back)" if offset == 2 else ""


def _format_json(value: object) -> str:
    return orjson.dumps(value).decode()


async def _fetch_committed(client: BrokerClient) -> dict[str, int]:
    """Return the committed offsets of the demo's group by partition."""
    return {str(place): int(found.offset) for place, found in (await client.groups.committed(GROUP)).items()}


async def _check_committed(addresses: Sequence[str], echo: Echo) -> bool:
    """Print the committed offset after the kills; return whether it is the one from before."""
    async with BrokerClient(addresses) as client:
        committed = await _fetch_committed(client)
    echo(f'list_committed_offsets("{GROUP}") -> {_format_json(committed)}   (after the kills)')
    return committed == {str(ORDERS): 3}
