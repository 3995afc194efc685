"""`raftlog partition move`, `moves` and `cancel-move`."""

from collections.abc import Sequence

import click

from raftlog.cli.operator_verbs import (
    OperatorVerb,
    WaitProgress,
    expected_version_option,
    operator_command,
    wait,
    wait_options,
    watch_option,
)
from raftlog.cli.options import option, parse_partition
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import Columns, format_count, format_nodes, format_rate, format_size, show, table_of
from raftlog.client import BrokerClient
from raftlog.values.placement import AssignmentVersion, NamespacePartition, Reconfiguration

_STATUS_COMMAND = "raftlog partition moves"
_NODE_DIGITS_MAX = len(str((1 << 31) - 1))


@operator_command("Print the version of the order as JSON.")
@click.argument("partition", metavar="TOPIC/PARTITION")
@option(
    "--to",
    "targets",
    required=True,
    metavar="NODE,…",
    callback=lambda _context, _parameter, text: _parse_nodes(text),
    help="Brokers of the replicas, the preferred leader first; their number may change.",
)
@expected_version_option("Refuse unless the assignment still has this version, which `raftlog partition show` prints.")
@wait_options("the new replicas have caught up and the old ones are removed")
def move(
    partition: str,
    targets: list[int],
    expected_version: int | None,
    waits: bool,
    timeout_s: float,
    verb: OperatorVerb,
) -> None:
    """Move the replicas of TOPIC/PARTITION to the given brokers.

    New replicas catch up first, then old ones are removed; writes continue. A later move of the same partition
    replaces this one.
    """
    topic, number = parse_partition(partition)
    answer = verb.ask(lambda client: _start_move(client, topic, number, targets, expected_version, waits, timeout_s))
    moves = f"{partition} is moving to nodes {format_nodes(targets)}; `{_STATUS_COMMAND}` shows the progress"
    verb.output(answer, f"{partition} is on nodes {format_nodes(targets)}" if waits else moves)


async def _start_move(
    client: BrokerClient,
    topic: str,
    number: int,
    targets: Sequence[int],
    expected_version: int | None,
    waits: bool,
    timeout_s: float,
) -> AssignmentVersion:
    """Assign a partition to other brokers; with `waits`, wait until the move has ended. Returns the new version."""
    answer = await client.admin.set_replicas(topic, number, targets, expected_version=expected_version)
    if not waits:
        return answer

    def check_target(nodes: Sequence[int], version: int | None) -> bool:
        """Return whether these are the ordered nodes. Raises `CommandFailed` for those of a later request."""
        if set(nodes) != set(targets) and version is not None and version > answer.version:
            raise CommandFailed(
                f"move of {topic}/{number}: another request has replaced it, and assigned the partition to nodes "
                f"{format_nodes(nodes)}"
            )
        return set(nodes) == set(targets)

    async def read_progress() -> WaitProgress:
        """Return how much of the partition is moved. Raises `CommandFailed` once another request replaced the move."""
        rows = await client.admin.reconfigurations()
        found = next((row for row in rows if (row.topic, row.partition) == (topic, number)), None)
        if found is not None:
            check_target(found.to_nodes, found.version)
            return _measure_progress(found)
        partition = await client.admin.partition(topic, number)
        if not check_target([replica.node_id for replica in partition.replicas], partition.version):
            return WaitProgress(False, "the asked broker does not have the new assignment yet")
        return _check_end(partition)

    await wait(read_progress, f"move of {topic}/{number}", timeout_s, _STATUS_COMMAND)
    return answer


def _check_end(found: NamespacePartition) -> WaitProgress:
    """Return whether a move that no broker reports has ended; its leader may just have changed or been too busy."""
    behind = [replica.node_id for replica in found.replicas if not replica.in_sync]
    if found.leader_id not in [replica.node_id for replica in found.replicas]:
        return WaitProgress(False, "none of the new replicas leads yet")
    return WaitProgress(not behind, f"node {format_nodes(behind)} is not in sync" if behind else "")


def _measure_progress(move: Reconfiguration) -> WaitProgress:
    """Return the progress of a move, in bytes if its size is known."""
    left, whole = move.bytes_left_to_move, move.partition_size
    text = f"{format_size(left)} left" + (f"; {move.reason}" if move.reason else "")
    moved = move.bytes_moved or 0
    return WaitProgress(False, text) if left is None or not whole else WaitProgress(False, text, moved, left + moved)


@operator_command("Print them as a JSON array, with --watch a line for each change.")
@watch_option("Print them again whenever something changes, until Ctrl-C.")
def moves(watches: bool, verb: OperatorVerb) -> None:
    """Show the partitions that are being moved: source and target brokers, bytes left, rate, and reason for waiting."""
    verb.show_or_watch(watches, lambda client: client.admin.reconfigurations(), lambda rows: verb.output(rows, _show))


def _show(rows: Sequence[Reconfiguration]) -> None:
    """Print the running moves."""
    if rows:
        show(table_of(rows, _MOVE))
    else:
        click.echo("no partition is moving")


_MOVE: Columns[Reconfiguration] = {
    "partition": lambda row: f"{row.topic}/{row.partition}",
    "from": lambda row: format_nodes(each.node_id for each in row.previous_replicas),
    "to": lambda row: format_nodes(each.node_id for each in row.current_replicas),
    "bytes left": lambda row: format_size(row.bytes_left_to_move),
    "partition size": lambda row: format_size(row.partition_size),
    "rate": lambda row: format_rate(row.bytes_per_s),
    "waits for": lambda row: row.reason or None,
}


@operator_command("Print the cancelled moves as JSON.")
@click.argument("partition", metavar="[TOPIC/PARTITION]", required=False)
@option("--all", "all_of_them", is_flag=True, help="Cancel all moves.")
@option("--node", type=click.IntRange(min=0), help="Cancel all moves from or to this broker.")
def cancel_move(partition: str | None, all_of_them: bool, node: int | None, verb: OperatorVerb) -> None:
    """Cancel the move of TOPIC/PARTITION, or of several partitions: the present voters stay.

    The balancer may move them again, unless `raftlog cluster config set balancer.mode=off` disables it.
    """
    if sum((partition is not None, all_of_them, node is not None)) != 1:
        raise click.UsageError("give exactly one of TOPIC/PARTITION, --all and --node NODE")
    if partition is not None:
        topic, number = parse_partition(partition)
        answer = verb.ask(lambda client: client.admin.cancel_reconfiguration(topic, number))
        verb.output(answer, f"{partition} stays on its present replicas")
        return
    rows = verb.ask(lambda client: client.admin.cancel_reconfigurations(node))
    verb.output(rows, f"cancelled {format_count(len(rows), 'move')}")


def _parse_nodes(text: str) -> list[int]:
    """Return the node ids of a comma-separated list; raises `click.BadParameter` for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) <= _NODE_DIGITS_MAX for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of node ids, such as 1,2,3")
    return [int(part) for part in parts]
