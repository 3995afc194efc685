"""`raftlog partition recover`: a partition that cannot go on by itself, and what going on costs."""

import asyncio
from collections.abc import Sequence
from typing import Final

import click
from rich.table import Table

from raftlog.cli.options import bootstrap_option, json_option, option, partition_place
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import show
from raftlog.client import BrokerClient
from raftlog.values.placement import PartitionRecovery, RecoveryReplica
from raftlog.values.value import to_json

LOOK_MS: Final = 10_000
RECOVERY_MS: Final = 600_000
"""Going on writes the log anew. What takes longer goes on all the same; asked again, the partition has a leader."""


@click.command()
@click.argument("partition", metavar="TOPIC/PARTITION")
@option(
    "--accept-loss",
    is_flag=True,
    help="Go on with what is left; damaged and given up copies are kept in .raftlog/damaged. "
    "Without it nothing is changed.",
)
@option("--survivor", type=int, metavar="NODE", help="Whose replica is to go on, where it shall not be the best one.")
@json_option("Print the result as JSON.")
@bootstrap_option
def recover(partition: str, accept_loss: bool, survivor: int | None, as_json: bool, bootstrap: list[str]) -> None:
    """Say how the replicas of TOPIC/PARTITION stand, and what going on would lose; with --accept-loss do it.

    Only for a partition that no majority of its replicas can lead any more: all of them are damaged in the same place,
    or the disks of a majority are lost. Exit code 1 when it was refused, or was not asked for.
    """
    topic, number = partition_place(partition)
    found = asyncio.run(_recover(bootstrap, topic, number, accept_loss, survivor))
    if as_json:
        click.echo(to_json(found))
    else:
        show(_table(found.replicas))
        click.echo(_summary(found))
    if found.refusal is not None:
        raise CommandFailed(f"{partition} was not recovered: {found.refusal}")
    if not found.done:
        raise CommandFailed(f"{partition} is as it was; --accept-loss gives up what is named above")


async def _recover(
    bootstrap: Sequence[str], topic: str, number: int, accept_loss: bool, survivor: int | None
) -> PartitionRecovery:
    timeout_ms = RECOVERY_MS if accept_loss else LOOK_MS
    async with BrokerClient(bootstrap) as client:
        return await client.recover_partition(
            topic, number, accept_loss=accept_loss, survivor=survivor, timeout_ms=timeout_ms
        )


def _table(replicas: Sequence[RecoveryReplica]) -> Table:
    table = Table("node", "replica", "offsets", "last entry", "problem", box=None, header_style="bold")
    for each in replicas:
        if not each.reachable:
            table.add_row(str(each.node_id), "does not answer", "-", "-", "-")
        elif not each.has_replica:
            table.add_row(str(each.node_id), "none", "-", "-", "-")
        else:
            table.add_row(
                str(each.node_id),
                "leads" if each.is_leader else "there" if each.last_index else "empty",
                f"{each.log_start_offset} … {each.log_end_offset}",
                f"{each.last_index} of term {each.last_term}",
                each.problem or "-",
            )
    return table


def _summary(found: PartitionRecovery) -> str:
    gone = ", ".join(f"{each.disk_uuid} of node {each.node_id}" for each in found.replaced_disks)
    lines = [f"replaced disks: {gone}"] if gone else []
    if found.survivor is not None:
        loss = "; ".join(found.loss) or "nothing that is known"
        offsets = ", ".join(f"{first} to {end - 1}" for first, end in found.lost_offsets)
        lost = f"lost offsets: {offsets}" if offsets else f"lost: {loss}"
        does = f"goes on; {lost}" if found.done else f"would go on, and this would be lost: {loss}"
        lines.append(f"node {found.survivor} {does}")
    lines += [f"kept: {path}" for path in found.kept_in]
    return "\n".join(lines)
