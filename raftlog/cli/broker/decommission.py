"""`raftlog broker decommission`, `decommission-status` and `recommission`."""

from functools import partial
from typing import Final

import click

from raftlog.cli.operator_verbs import (
    OperatorVerb,
    WaitProgress,
    first_status,
    node_argument,
    operator_command,
    wait,
    wait_options,
    watch,
    watch_option,
)
from raftlog.cli.tables import Columns, format_count, format_rate, format_size, show, table_of
from raftlog.client import BrokerClient
from raftlog.values.brokers import Decommission
from raftlog.values.placement import LeavingPartition

MOVES_SHOWN: Final = 20


@operator_command("Print the progress as JSON, with --watch a line for each change.")
@node_argument
@wait_options("the broker holds no replicas any more and is removed")
@watch_option("Print the progress whenever it changes, until it is finished.")
def decommission(node: int, waits: bool, timeout_s: float, watches: bool, verb: OperatorVerb) -> None:
    """Move all replicas of the broker NODE to other brokers, then remove it from the cluster for good.

    No records are lost and writes continue. NODE must keep running if it holds the only undamaged replica of a
    partition. The command may be repeated at any time; until it is finished, `raftlog broker recommission NODE`
    cancels it.
    """
    last = verb.ask(lambda client: _start_decommission(client, node, waits, timeout_s, watches, verb))
    if watches and verb.as_json:
        return  # the watched status was its last line
    if last.finished:
        verb.output(last, f"node {node} is removed from the cluster: stop its process, and delete its directory")
        return
    left = f"{format_count(last.replicas_left, 'replica')} left; `{_status_command(node)} --watch` shows the progress"
    waits_for = f"\nit waits: {last.reason}" if last.reason else ""
    verb.output(last, f"decommission of node {node}: {left}{waits_for}")


async def _start_decommission(
    client: BrokerClient, node: int, waits: bool, timeout_s: float, watches: bool, verb: OperatorVerb
) -> Decommission:
    """Start the decommission of a broker; with `waits` or `watches`, wait for its end. Returns the last known state."""
    await client.find_all_brokers()  # the asked broker may be the removed one
    await client.admin.decommission(node)
    ask = partial(client.admin.decommission_status, node)
    if watches:
        return await watch(ask, lambda found: verb.output(found, _show), _is_over)
    first = await first_status(ask, f"decommission of node {node} has begun", _status_command(node))
    if not waits or _is_over(first):
        return first
    total = max(1, first.replicas_left)

    async def read_progress() -> WaitProgress:
        """Return how many replicas have left the broker."""
        found = await ask()
        return WaitProgress(_is_over(found), _describe_progress(found), total - found.replicas_left, total)

    await wait(read_progress, f"decommission of node {node}", timeout_s, _status_command(node))
    return await ask()


@operator_command("Print it as JSON, with --watch a line for each change.")
@node_argument
@watch_option("Print it again whenever it changes, until it is finished.")
def decommission_status(node: int, watches: bool, verb: OperatorVerb) -> None:
    """Show the progress of the decommission of the broker NODE: replicas and bytes left, moves, and waits."""

    async def show_status(client: BrokerClient) -> None:
        """Print the state once, or with `--watch` after each change."""
        ask = partial(client.admin.decommission_status, node)
        if watches:
            await client.find_all_brokers()
            await watch(ask, lambda found: verb.output(found, _show), _is_over)
        else:
            verb.output(await ask(), _show)

    verb.ask(show_status)


@operator_command("Print the node id as JSON.")
@node_argument
def recommission(node: int, verb: OperatorVerb) -> None:
    """Cancel the decommission of the broker NODE. Replicas that were moved already stay at the other brokers."""
    answer = verb.ask(lambda client: client.admin.recommission(node))
    verb.output(answer, f"node {node} stays in the cluster; `raftlog cluster balance` gives it replicas again")


def _status_command(node: int) -> str:
    """Return the command that shows the decommission of a broker."""
    return f"raftlog broker decommission-status {node}"


def _is_over(found: Decommission) -> bool:
    """Return whether the decommission is finished."""
    return bool(found.finished)


def _describe_progress(found: Decommission) -> str:
    """Return one line about the progress: the remaining replicas and bytes, the rate, and the reason of a delay."""
    bytes_per_s = sum(move.bytes_per_s for move in found.partitions)
    parts = [f"{format_count(found.replicas_left, 'replica')} left"]
    if found.bytes_left is not None:
        parts.append(f"{format_size(found.bytes_left)} left")
    if bytes_per_s:
        parts.append(format_rate(bytes_per_s))
    if found.reason:
        parts.append(found.reason)
    return ", ".join(parts)


def _show(found: Decommission) -> None:
    """Print the state of a decommission, the partitions that no broker can take, and the moves in progress."""
    click.echo("finished" if found.finished else _describe_progress(found))
    shown = {f"{row.topic}/{row.partition}" for row in found.partitions[:MOVES_SHOWN] if row.reason}
    failures = [name for name in found.allocation_failures if name not in shown]
    if failures:
        click.echo(f"no other broker can take {format_count(len(failures), 'partition')}: {_shorten_list(failures)}")
    if found.partitions:
        click.echo()
        table = table_of(found.partitions[:MOVES_SHOWN], _MOVE)
        if len(found.partitions) > MOVES_SHOWN:
            table.add_row(f"… {len(found.partitions) - MOVES_SHOWN:,} more")
        show(table)


def _shorten_list(names: list[str]) -> str:
    """Return the first names as text."""
    return ", ".join(names[:MOVES_SHOWN]) + (", …" if len(names) > MOVES_SHOWN else "")


_MOVE: Columns[LeavingPartition] = {
    "partition": lambda row: f"{row.topic}/{row.partition}",
    "to node": lambda row: row.moving_to and row.moving_to.node_id,
    "bytes left": lambda row: format_size(row.bytes_left_to_move),
    "partition size": lambda row: format_size(row.partition_size),
    "rate": lambda row: format_rate(row.bytes_per_s),
    "waits for": lambda row: row.reason or None,
}
