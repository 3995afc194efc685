"""`raftlog broker decommission`, `decommission-status` and `recommission`."""

from collections.abc import Sequence

import click
from rich.table import Table

from raftlog.cli.operating import HowFar, once_ordered, operate, wait, wait_options, watch
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.tables import show, size, times
from raftlog.client import BrokerClient
from raftlog.values.brokers import Decommission
from raftlog.values.placement import LeavingPartition
from raftlog.values.value import to_json

MOVES_SHOWN = 20

_node = click.argument("node", metavar="NODE", type=click.IntRange(min=0))


@click.command()
@_node
@wait_options("the broker holds nothing any more and is removed")
@option("--watch", "-w", "watches", is_flag=True, help="Print how far it is whenever that changes, until it is over.")
@json_option("Print how far it is as JSON, with --watch a line each time.")
@bootstrap_option
def decommission(node: int, waits: bool, timeout_s: float, watches: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Move all replicas of the broker NODE to others, and then remove it from the cluster for good.

    Nothing is lost and writing goes on; NODE must run meanwhile where a partition has its only sound replica on it.
    It can be ordered again at any time, and called off by `raftlog broker recommission NODE` until it is over.
    """
    last = operate(bootstrap, lambda client: _decommission(client, node, waits, timeout_s, watches, as_json))
    if as_json:
        if not watches:
            click.echo(to_json(last))
    elif last.finished:
        click.echo(f"node {node} is out of the cluster: stop its process, and delete its directory")
    else:
        click.echo(
            f"node {node} is on its way out, with {times(last.replicas_left, 'replica')} left; "
            f"`{_look(node)} --watch` shows how far it is"
        )
        if last.reason:
            click.echo(f"it waits: {last.reason}")


async def _decommission(
    client: BrokerClient, node: int, waits: bool, timeout_s: float, watches: bool, as_json: bool
) -> Decommission:
    await client.know_all()  # the one that is asked may be the one that goes
    await client.admin.decommission(node)
    if watches:
        return await watch(
            lambda: client.admin.decommission_status(node), lambda found: _show(found, as_json), _is_over
        )
    first = await once_ordered(
        lambda: client.admin.decommission_status(node), f"node {node} is on its way out", _look(node)
    )
    if not waits or _is_over(first):
        return first
    total = max(1, first.replicas_left)

    async def how_far() -> HowFar:
        found = await client.admin.decommission_status(node)
        return HowFar(_is_over(found), _summary(found), total - found.replicas_left, total)

    await wait(how_far, f"decommission of node {node}", timeout_s, _look(node))
    return await client.admin.decommission_status(node)


@click.command()
@_node
@option("--watch", "-w", "watches", is_flag=True, help="Print it again whenever it has changed, until it is over.")
@json_option("Print it as JSON, with --watch a line each time.")
@bootstrap_option
def decommission_status(node: int, watches: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Show how far the decommission of the broker NODE is: replicas and bytes left, what moves, what it waits for."""

    async def look(client: BrokerClient) -> None:
        if watches:
            await client.know_all()
            await watch(lambda: client.admin.decommission_status(node), lambda found: _show(found, as_json), _is_over)
        else:
            _show(await client.admin.decommission_status(node), as_json)

    operate(bootstrap, look)


@click.command()
@_node
@json_option("Print the node id as JSON.")
@bootstrap_option
def recommission(node: int, as_json: bool, bootstrap: list[str]) -> None:
    """Keep the broker NODE, which was to be decommissioned. What has moved away stays where it is."""
    told = operate(bootstrap, lambda client: client.admin.recommission(node))
    if as_json:
        click.echo(to_json(told))
    else:
        click.echo(f"node {node} stays; `raftlog cluster balance` gives it replicas again")


def _look(node: int) -> str:
    return f"raftlog broker decommission-status {node}"


def _is_over(found: Decommission) -> bool:
    return bool(found.finished)


def _summary(found: Decommission) -> str:
    rate = sum(move.bytes_per_s for move in found.partitions)
    parts = [f"{times(found.replicas_left, 'replica')} left"]
    if found.bytes_left is not None:
        parts.append(f"{size(found.bytes_left)} left")
    if rate:
        parts.append(f"{size(rate)}/s")
    if found.reason:
        parts.append(found.reason)
    return ", ".join(parts)


def _show(found: Decommission, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(found))
        return
    click.echo("finished" if found.finished else _summary(found))
    told = {f"{row.topic}/{row.partition}" for row in found.partitions[:MOVES_SHOWN] if row.reason}
    failures = [name for name in found.allocation_failures if name not in told]
    if failures:
        click.echo(f"no place elsewhere for {times(len(failures), 'partition')}: {_some(failures)}")
    if found.partitions:
        click.echo()
        show(_moves(found.partitions))


def _some(names: list[str]) -> str:
    return ", ".join(names[:MOVES_SHOWN]) + (", …" if len(names) > MOVES_SHOWN else "")


def _moves(rows: Sequence[LeavingPartition]) -> Table:
    table = Table("partition", "to node", "left", "of", "rate", "waits for", box=None, header_style="bold")
    for row in rows[:MOVES_SHOWN]:
        table.add_row(
            f"{row.topic}/{row.partition}",
            "-" if row.moving_to is None else str(row.moving_to.node_id),
            size(row.bytes_left_to_move),
            size(row.partition_size),
            f"{size(row.bytes_per_s)}/s" if row.bytes_per_s else "-",
            row.reason or "-",
        )
    if len(rows) > MOVES_SHOWN:
        table.add_row(f"… {len(rows) - MOVES_SHOWN:,} more")
    return table
