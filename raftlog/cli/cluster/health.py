"""`raftlog cluster health`: whether all is well, and if not, why."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import click
from msgspec import to_builtins
from rich.table import Table

from raftlog.cli.operating import until_ctrl_c
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import bad, or_dash, show, yes_no
from raftlog.client import BrokerClient, ClusterHealth
from raftlog.values.value import to_json

WATCH_SECONDS: Final = 1.0
PARTITIONS_SHOWN: Final = 10


@click.command()
@option("--watch", "-w", is_flag=True, help="Go on, and print again whenever something has changed; Ctrl-C ends it.")
@json_option("Print the health as JSON, with --watch a line each time.")
@bootstrap_option
def health(watch: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Show whether the cluster is healthy, and if not, why. Exit code 1 when it is not."""
    with until_ctrl_c(watch):
        last = asyncio.run(_health(bootstrap, watch, as_json))
    if not last.is_healthy:
        raise CommandFailed(f"the cluster is unhealthy: {'; '.join(last.unhealthy_reasons)}")


async def _health(bootstrap: Sequence[str], watch: bool, as_json: bool) -> ClusterHealth:
    async with BrokerClient(bootstrap) as client:
        if not watch:
            found = await client.health()
            _print(found, as_json)
            return found
        async for found in _changes(client):
            _print(found, as_json)
        raise AssertionError("watching does not end by itself")


async def _changes(client: BrokerClient) -> AsyncIterator[ClusterHealth]:
    last: ClusterHealth | None = None
    while True:
        found = await client.health()
        steady = found.replaced(  # without what changes from commit to commit and with each hand-over
            lagging_partitions=(), lagging_count=0, electing_partitions=(), electing_count=0
        )
        if steady != last:
            yield found
        last = steady
        await asyncio.sleep(WATCH_SECONDS)


def _print(found: ClusterHealth, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(to_builtins(found) | {"controller_id": found.controller_id}))
        return
    table = Table("", "", box=None, show_header=False)
    for name, text in (
        ("healthy", yes_no(found.is_healthy)),
        ("reasons", bad("\n".join(found.unhealthy_reasons)) if found.unhealthy_reasons else "-"),
        ("controller", or_dash(found.controller_id)),
        ("all nodes", _listed(found.all_nodes)),
        ("nodes down", _listed(found.nodes_down)),
        ("nodes in maintenance", _listed(found.nodes_in_maintenance)),
        ("nodes draining", _listed(found.nodes_draining)),
        ("leaderless partitions", _counted(found.leaderless_partitions, found.leaderless_count)),
        ("under-replicated partitions", _counted(found.under_replicated_partitions, found.under_replicated_count)),
        ("partitions that lag now", f"{found.lagging_count:,}"),
        ("partitions that elect now", f"{found.electing_count:,}"),
        ("partitions on their way", f"{found.reconfigurations_count:,}"),
    ):
        table.add_row(name, text)
    show(table)


def _counted(names: Sequence[str], count: int) -> str:
    if not count:
        return "0"
    shown = ", ".join(names[:PARTITIONS_SHOWN])
    return f"{count:,}: {shown}{', …' if count > min(len(names), PARTITIONS_SHOWN) else ''}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "-"
