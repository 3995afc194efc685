"""`raftlog partition recover`: recovery of a partition without a working majority, and the records that it loses."""

from typing import Final

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import option, parse_partition
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import Columns, show, table_of
from raftlog.values.placement import PartitionRecovery, RecoveryReplica

LOOK_MS: Final = 10_000
RECOVERY_MS: Final = 600_000
"""Timeout of a recovery, which rewrites the log. After the timeout the recovery continues on the brokers.
"""


@operator_command("Print the result as JSON.")
@click.argument("partition", metavar="TOPIC/PARTITION")
@option(
    "--accept-loss",
    is_flag=True,
    help="Recover the partition from the remaining records; damaged and discarded copies are kept in "
    ".raftlog/damaged. Without it nothing is changed.",
)
@option("--survivor", type=int, metavar="NODE", help="Broker whose replica to recover from. [default: the best one]")
def recover(partition: str, accept_loss: bool, survivor: int | None, verb: OperatorVerb) -> None:
    """Show the replicas of TOPIC/PARTITION and the records a recovery would lose; with --accept-loss, recover it.

    Only for a partition without a working majority: all replicas are damaged at the same place, or the disks of a
    majority are lost. Exit code 1 if it was refused, or --accept-loss is missing.
    """
    topic, number = parse_partition(partition)
    found = verb.ask(
        lambda client: client.recover_partition(
            topic,
            number,
            accept_loss=accept_loss,
            survivor=survivor,
            timeout_ms=RECOVERY_MS if accept_loss else LOOK_MS,
        )
    )
    verb.output(found, _show)
    if found.refusal is not None:
        raise CommandFailed(f"{partition} was not recovered: {found.refusal}")
    if not found.done:
        raise CommandFailed(f"{partition} is unchanged; repeat with --accept-loss to recover it without these records")


def _show(found: PartitionRecovery) -> None:
    """Print the replicas of the partition, and the loss of a recovery."""
    show(table_of(found.replicas, _REPLICA))
    click.echo(_describe_loss(found))


def _describe_state(replica: RecoveryReplica) -> str:
    """Return the state of a replica in a word."""
    if not replica.reachable:
        return "does not answer"
    if not replica.has_replica:
        return "none"
    return "leader" if replica.is_leader else "present" if replica.last_index else "empty"


def _has_replica(replica: RecoveryReplica) -> bool:
    """Return whether the node answers and has a replica."""
    return bool(replica.reachable and replica.has_replica)


_REPLICA: Columns[RecoveryReplica] = {
    "node": lambda each: each.node_id,
    "replica": _describe_state,
    "offsets": lambda each: f"{each.log_start_offset} … {each.log_end_offset}" if _has_replica(each) else None,
    "last entry": lambda each: f"{each.last_index} of term {each.last_term}" if _has_replica(each) else None,
    "problem": lambda each: (each.problem or None) if _has_replica(each) else None,
}


def _describe_loss(found: PartitionRecovery) -> str:
    """Return lines about a recovery: the replaced disks, the surviving replica, the lost records and the kept files."""
    replaced = ", ".join(f"{each.disk_uuid} of node {each.node_id}" for each in found.replaced_disks)
    lines = [f"replaced disks: {replaced}"] if replaced else []
    if found.survivor is not None:
        loss = "; ".join(found.loss) or "no known record"
        offsets = ", ".join(f"{first} to {end - 1}" for first, end in found.lost_offsets)
        lost = f"lost offsets: {offsets}" if offsets else f"lost: {loss}"
        node = f"the replica of node {found.survivor}"
        lines.append(f"recovered from {node}; {lost}" if found.done else f"recovery from {node} would lose: {loss}")
    lines += [f"kept: {path}" for path in found.kept_in]
    return "\n".join(lines)
