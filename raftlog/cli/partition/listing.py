"""`raftlog partition list` and `show`."""

from collections.abc import Sequence

import click
from rich.table import Table

from raftlog.cli.operating import operate
from raftlog.cli.options import bootstrap_option, json_option, option, partition_place
from raftlog.cli.tables import nodes, or_dash, properties, show, size, yes_no
from raftlog.values.placement import ListedPartition, NamespacePartition, NamespaceReplica
from raftlog.values.value import to_json


@click.command()
@option("--topic", help="Only the partitions of this topic; internal ones, such as __offsets, can be named, too.")
@json_option("Print the partitions as a JSON array, as /v1/cluster/partitions has them.")
@bootstrap_option
def list_partitions(topic: str | None, as_json: bool, bootstrap: list[str]) -> None:
    """List partitions with their leaders and replicas. A partition whose leader does not answer has none here."""
    rows = operate(bootstrap, lambda client: client.admin.partitions(topic))
    if as_json:
        click.echo(to_json(rows))
        return
    table = Table("partition", "leader", "replicas", "version", box=None, header_style="bold")
    for row in rows:
        table.add_row(
            f"{row.topic}/{row.partition_id}",
            _leader(row),
            nodes(replica.node_id for replica in row.replicas),
            or_dash(row.version),
        )
    show(table)


@click.command()
@click.argument("partition", metavar="TOPIC/PARTITION")
@json_option("Print the partition as JSON, as /v1/partitions/kafka/{topic}/{partition} has it.")
@bootstrap_option
def show_partition(partition: str, as_json: bool, bootstrap: list[str]) -> None:
    """Show TOPIC/PARTITION as its leader sees it: offsets, and what each replica lacks. The first replica is the
    preferred leader; `version` is what `raftlog partition move --expected-version` is compared with."""
    topic, number = partition_place(partition)
    found = operate(bootstrap, lambda client: client.admin.partition(topic, number))
    if as_json:
        click.echo(to_json(found))
        return
    show(
        properties(
            (
                ("partition", f"{found.topic}/{found.partition_id}"),
                ("leader", _leader(found)),
                ("leader epoch", found.leader_epoch),
                ("first offset", found.log_start_offset),
                ("high watermark", found.high_watermark),
                ("version", found.version),
                ("problem", found.problem),
            )
        )
    )
    click.echo()
    show(_replicas(found.replicas))


def _replicas(rows: Sequence[NamespaceReplica]) -> Table:
    table = Table("node", "in sync", "lacks entries", "lacks", "rate", "problem", box=None, header_style="bold")
    for row in rows:
        rate = row.catch_up_bytes_per_s
        table.add_row(
            str(row.node_id),
            yes_no(row.in_sync),
            or_dash(row.entries_behind),
            size(row.bytes_behind),
            f"{size(int(rate))}/s" if rate else "-",
            or_dash(row.problem),
        )
    return table


def _leader(row: ListedPartition | NamespacePartition) -> str:
    return "-" if row.leader_id < 0 else str(row.leader_id)
