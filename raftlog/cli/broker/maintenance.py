"""`raftlog broker maintenance enable|disable|status`."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import click
from msgspec import to_builtins

from raftlog.cli.operator_verbs import (
    OperatorVerb,
    WaitProgress,
    expected_version_option,
    first_status,
    node_argument,
    operator_command,
    wait,
    wait_options,
    watch_option,
)
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import Columns, format_count, show, table_of
from raftlog.client import BrokerClient
from raftlog.values.brokers import Maintenance, MaintenanceStatus
from raftlog.values.value import to_json

Row: TypeAlias = tuple[int, MaintenanceStatus]
"""Node id of a broker, and the status of its maintenance mode."""

_expected = expected_version_option("Refuse unless the maintenance has this version.")


@click.group()
def maintenance() -> None:
    """Put a broker into maintenance mode: it transfers its leaderships, and gets no new ones or replicas."""


@operator_command("Print the progress as JSON.", group=maintenance)
@node_argument
@_expected
@wait_options("NODE no longer leads partitions that other brokers can lead")
def enable(node: int, expected_version: int | None, waits: bool, timeout_s: float, verb: OperatorVerb) -> None:
    """Put the broker NODE into maintenance mode: it leads no partitions until `disable`, also after restarts."""
    found = verb.ask(lambda client: _start_maintenance(client, node, expected_version, waits, timeout_s))
    if not found.draining:
        raise CommandFailed(f"node {node} is not in maintenance mode: another request has just ended it")
    if found.finished:
        verb.output(found, f"node {node} is in maintenance mode and leads {_describe_led(found)}")
        return
    left = f" and still leads {format_count(found.partitions, 'partition')}"
    if not found.partitions and found.reasons:
        left = f", but {'; '.join(found.reasons)}"
    verb.output(found, f"node {node} is in maintenance mode{left}; `{_status_command(node)}` shows the progress")


async def _start_maintenance(
    client: BrokerClient, node: int, expected: int | None, waits: bool, timeout_s: float
) -> Maintenance:
    """Put a broker into maintenance mode; with `waits`, wait until it is drained. Returns the last known state."""
    await client.admin.set_maintenance(node, True, expected_version=expected)
    first = await first_status(
        lambda: client.admin.maintenance(node), f"node {node} is in maintenance mode", _status_command(node)
    )
    if not waits or _is_over(first):
        return first
    total = max(1, first.eligible)

    async def read_progress() -> WaitProgress:
        """Return how many leaderships the broker has transferred."""
        found = await client.admin.maintenance(node)
        return WaitProgress(_is_over(found), _describe_progress(found), max(0, total - found.eligible), total)

    await wait(read_progress, f"maintenance of node {node}", timeout_s, _status_command(node))
    return await client.admin.maintenance(node)


@operator_command("Print the node id and the version as JSON.", group=maintenance)
@node_argument
@_expected
def disable(node: int, expected_version: int | None, verb: OperatorVerb) -> None:
    """End maintenance mode of the broker NODE. Some seconds later it leads its preferred partitions again."""
    answer = verb.ask(lambda client: client.admin.set_maintenance(node, False, expected_version=expected_version))
    verb.output(answer, f"node {node} left maintenance mode; check it with `raftlog cluster health`")


@operator_command(
    "Print a JSON array with a row for each broker, with --watch a line for each change.", group=maintenance
)
@click.argument("node", metavar="[NODE]", type=click.IntRange(min=0), required=False)
@watch_option("Print it again whenever it changes, until Ctrl-C.")
def status(node: int | None, watches: bool, verb: OperatorVerb) -> None:
    """Show the brokers in maintenance mode and their progress, or only NODE."""
    verb.show_or_watch(watches, lambda client: _fetch_statuses(client, node), lambda rows: _show(rows, verb.as_json))


async def _fetch_statuses(client: BrokerClient, node: int | None) -> list[Row]:
    """Return the state of maintenance of one broker, or of all."""
    if node is not None:
        return [(node, await client.admin.maintenance(node))]
    return [(row.node_id, row.maintenance_status) for row in await client.admin.brokers()]


def _show(rows: Sequence[Row], as_json: bool) -> None:
    """Print the maintenance of brokers, as table or JSON."""
    if as_json:
        click.echo(to_json([{"node_id": node} | to_builtins(found) for node, found in rows]))
        return
    show(table_of(rows, _MAINTENANCE))


def _cell_in_maintenance(cell: Callable[[MaintenanceStatus], str]) -> Callable[[Row], str]:
    """Return a function that formats a row by `cell`; its result is a dash for brokers not in maintenance mode."""
    return lambda row: cell(row[1]) if row[1].draining else "-"


_MAINTENANCE: Columns[Row] = {
    "node": lambda row: row[0],
    "maintenance": lambda row: "yes" if row[1].draining else "no",
    "finished": _cell_in_maintenance(lambda found: "yes" if found.finished else "no"),
    "leads": _cell_in_maintenance(lambda found: f"{found.partitions:,}"),
    "transferable": _cell_in_maintenance(lambda found: f"{found.eligible:,}"),
    "transferring": _cell_in_maintenance(lambda found: f"{found.transferring:,}"),
    "failed": _cell_in_maintenance(lambda found: f"{found.failed:,}"),
    "waits for": lambda row: "; ".join(row[1].reasons) or None,
}


def _status_command(node: int) -> str:
    """Return the command that shows the maintenance of a broker."""
    return f"raftlog broker maintenance status {node}"


def _is_over(found: Maintenance) -> bool:
    """Return whether the broker has transferred its leaderships, or is not draining."""
    return bool(found.finished) or not found.draining


def _describe_led(found: Maintenance) -> str:
    """Return a description of the partitions that the broker still leads."""
    if not found.partitions:
        return "no partitions"
    return f"only the {format_count(found.partitions, 'partition')} that no other broker can lead"


def _describe_progress(found: Maintenance) -> str:
    """Return the present state of the drain in words."""
    counts = f"{format_count(found.partitions, 'partition')} led, {found.transferring:,} being transferred"
    return "; ".join([counts, *found.reasons])
