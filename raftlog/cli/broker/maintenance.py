"""`raftlog broker maintenance enable|disable|status`."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import click
from msgspec import to_builtins

from raftlog.cli.operating import (
    HowFar,
    OperatorVerb,
    expected_version_option,
    node_argument,
    once_ordered,
    operator_verb,
    wait,
    wait_options,
    watch_option,
)
from raftlog.cli.tables import Columns, show, table_of, times
from raftlog.client import BrokerClient
from raftlog.values.brokers import Maintenance, MaintenanceStatus
from raftlog.values.value import to_json

Row: TypeAlias = tuple[int, MaintenanceStatus]
"""Node id of a broker, and its maintenance."""

_expected = expected_version_option("Refuse unless the maintenance has this version.")


@click.group()
def maintenance() -> None:
    """Put a broker into maintenance mode: it transfers its leaderships, and gets no new ones or replicas."""


@maintenance.command()
@node_argument
@_expected
@wait_options("it leads nothing any more that others can lead")
@operator_verb("Print how far it is as JSON.")
def enable(node: int, expected_version: int | None, waits: bool, timeout_s: float, verb: OperatorVerb) -> None:
    """Put the broker NODE into maintenance mode, which lasts until `disable`, also over restarts."""
    found = verb.ask(lambda client: _enable(client, node, expected_version, waits, timeout_s))
    if found.finished:
        verb.say(found, f"node {node} is in maintenance, and leads {_led(found)}")
        return
    left = f"and still leads {times(found.partitions, 'partition')}"
    if not found.partitions and found.reasons:
        left = f"but {'; '.join(found.reasons)}"
    verb.say(found, f"node {node} is in maintenance, {left}; `{_look(node)}` shows how far it is")


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
@node_argument
@_expected
@operator_verb("Print the node id and the version as JSON.")
def disable(node: int, expected_version: int | None, verb: OperatorVerb) -> None:
    """End maintenance mode of the broker NODE. Some seconds later it leads its preferred partitions again."""
    told = verb.ask(lambda client: client.admin.set_maintenance(node, False, expected_version=expected_version))
    verb.say(told, f"node {node} is not in maintenance; `raftlog cluster health` shows when all is well")


@maintenance.command()
@click.argument("node", metavar="[NODE]", type=click.IntRange(min=0), required=False)
@watch_option("Print it again whenever it changes, until Ctrl-C.")
@operator_verb("Print a JSON array with a row for each broker, with --watch a line for each change.")
def status(node: int | None, watches: bool, verb: OperatorVerb) -> None:
    """Show the brokers in maintenance mode and their progress, or only NODE."""
    verb.look(watches, lambda client: _statuses(client, node), lambda rows: _show(rows, verb.as_json))


async def _statuses(client: BrokerClient, node: int | None) -> list[Row]:
    if node is not None:
        return [(node, await client.admin.maintenance(node))]
    return [(row.node_id, row.maintenance_status) for row in await client.admin.brokers()]


def _show(rows: Sequence[Row], as_json: bool) -> None:
    if as_json:
        click.echo(to_json([{"node_id": node} | to_builtins(found) for node, found in rows]))
        return
    show(table_of(rows, _MAINTENANCE))


def _if_on(cell: Callable[[MaintenanceStatus], str]) -> Callable[[Row], str]:
    """Return a cell that is empty for brokers without maintenance."""
    return lambda row: cell(row[1]) if row[1].draining else "-"


_MAINTENANCE: Columns[Row] = {
    "node": lambda row: row[0],
    "maintenance": lambda row: "yes" if row[1].draining else "no",
    "finished": _if_on(lambda found: "yes" if found.finished else "no"),
    "leads": _if_on(lambda found: f"{found.partitions:,}"),
    "others can lead": _if_on(lambda found: f"{found.eligible:,}"),
    "on their way": _if_on(lambda found: f"{found.transferring:,}"),
    "failed": _if_on(lambda found: f"{found.failed:,}"),
    "waits for": lambda row: "; ".join(row[1].reasons) or None,
}


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
