"""`raftlog broker maintenance enable|disable|status`."""

from collections.abc import Sequence
from typing import TypeAlias

import click
from msgspec import to_builtins
from rich.table import Table

from raftlog.cli.operating import HowFar, once_ordered, operate, until_ctrl_c, wait, wait_options, watch
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.tables import show, times
from raftlog.client import BrokerClient
from raftlog.values.brokers import Maintenance, MaintenanceStatus
from raftlog.values.value import to_json

Row: TypeAlias = tuple[int, MaintenanceStatus]
"""Node id of a broker, and its maintenance."""

_node = click.argument("node", metavar="NODE", type=click.IntRange(min=0))
_expected = option(
    "--expected-version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Do nothing when its maintenance has another one.",
)


@click.group()
def maintenance() -> None:
    """Let a broker lead nothing for a while: others take over what it leads, and it gets nothing new."""


@maintenance.command()
@_node
@_expected
@wait_options("it leads nothing any more that others can lead")
@json_option("Print how far it is as JSON.")
@bootstrap_option
def enable(
    node: int, expected_version: int | None, waits: bool, timeout_s: float, as_json: bool, bootstrap: list[str]
) -> None:
    """Begin the maintenance of the broker NODE. It lasts until `disable`, over restarts of NODE, too."""
    found = operate(bootstrap, lambda client: _enable(client, node, expected_version, waits, timeout_s))
    if as_json:
        click.echo(to_json(found))
    elif found.finished:
        click.echo(f"node {node} is in maintenance, and leads {_led(found)}")
    else:
        left = f"and still leads {times(found.partitions, 'partition')}"
        if not found.partitions and found.reasons:
            left = f"but {'; '.join(found.reasons)}"
        click.echo(f"node {node} is in maintenance, {left}; `{_look(node)}` shows how far it is")


async def _enable(client: BrokerClient, node: int, expected: int | None, waits: bool, timeout_s: float) -> Maintenance:
    await client.admin.set_maintenance(node, True, expected_version=expected)
    first = await once_ordered(lambda: client.admin.maintenance(node), f"node {node} is in maintenance", _look(node))
    if not waits or _is_over(first):
        return first
    total = max(1, first.eligible)

    async def how_far() -> HowFar:
        found = await client.admin.maintenance(node)
        return HowFar(_is_over(found), _summary(found), max(0, total - found.eligible), total)

    await wait(how_far, f"maintenance of node {node}", timeout_s, _look(node))
    return await client.admin.maintenance(node)


@maintenance.command()
@_node
@_expected
@json_option("Print the node id and the version as JSON.")
@bootstrap_option
def disable(node: int, expected_version: int | None, as_json: bool, bootstrap: list[str]) -> None:
    """End the maintenance of the broker NODE. It leads again what it is the first replica of, some seconds later."""
    told = operate(
        bootstrap, lambda client: client.admin.set_maintenance(node, False, expected_version=expected_version)
    )
    if as_json:
        click.echo(to_json(told))
    else:
        click.echo(f"node {node} is not in maintenance; `raftlog cluster health` shows when all is well")


@maintenance.command()
@click.argument("node", metavar="[NODE]", type=click.IntRange(min=0), required=False)
@option("--watch", "-w", "watches", is_flag=True, help="Print it again whenever it has changed; Ctrl-C ends it.")
@json_option("Print a JSON array with a row for each broker, with --watch a line each time.")
@bootstrap_option
def status(node: int | None, watches: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Show which brokers are in maintenance, and how far: all of them, or only NODE."""

    async def look(client: BrokerClient) -> None:
        if watches:
            await watch(lambda: _statuses(client, node), lambda rows: _show(rows, as_json))
        _show(await _statuses(client, node), as_json)

    with until_ctrl_c(watches):
        operate(bootstrap, look)


async def _statuses(client: BrokerClient, node: int | None) -> list[Row]:
    if node is not None:
        return [(node, await client.admin.maintenance(node))]
    return [(row.node_id, row.maintenance_status) for row in await client.admin.brokers()]


def _show(rows: Sequence[Row], as_json: bool) -> None:
    if as_json:
        click.echo(to_json([{"node_id": node} | to_builtins(found) for node, found in rows]))
        return
    table = Table(
        "node", "maintenance", "finished", "leads", "others can lead", "on their way", "failed", "waits for",
        box=None, header_style="bold",
    )  # fmt: skip
    for node, row in rows:
        is_on = row.draining
        numbers = [f"{each:,}" for each in (row.partitions, row.eligible, row.transferring, row.failed)]
        table.add_row(
            str(node),
            "yes" if is_on else "no",
            ("yes" if row.finished else "no") if is_on else "-",
            *(numbers if is_on else ["-"] * 4),
            "; ".join(row.reasons) or "-",
        )
    show(table)


def _look(node: int) -> str:
    return f"raftlog broker maintenance status {node}"


def _is_over(found: Maintenance) -> bool:
    return bool(found.finished) or not found.draining


def _led(found: Maintenance) -> str:
    if not found.partitions:
        return "nothing"
    return f"only what no other can lead: {times(found.partitions, 'partition')}"


def _summary(found: Maintenance) -> str:
    counts = f"{times(found.partitions, 'partition')} led, {found.transferring:,} on their way"
    return "; ".join([counts, *found.reasons])
