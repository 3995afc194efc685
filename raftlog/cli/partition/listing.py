"""`raftlog partition list` and `show`."""

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import option, parse_partition
from raftlog.cli.tables import Columns, format_nodes, format_rate, format_size, show, show_properties, table_of, yes_no
from raftlog.values.placement import ListedPartition, NamespacePartition, NamespaceReplica


@operator_command("Print the partitions as a JSON array, as /v1/cluster/partitions has them.")
@option("--topic", help="Only the partitions of this topic, which may be internal, such as __consumer_offsets.")
def list_partitions(topic: str | None, verb: OperatorVerb) -> None:
    """List partitions with their leaders and replicas. A leader that does not answer is not shown."""
    verb.output(verb.ask(lambda client: client.admin.partitions(topic)), lambda rows: show(table_of(rows, _PARTITION)))


@operator_command("Print the partition as JSON, as /v1/partitions/kafka/{topic}/{partition} has it.")
@click.argument("partition", metavar="TOPIC/PARTITION")
def show_partition(partition: str, verb: OperatorVerb) -> None:
    """Show offsets and replicas of TOPIC/PARTITION as its leader reports them.

    The first replica is the preferred leader. `raftlog partition move --expected-version` is compared with `version`.
    """
    topic, number = parse_partition(partition)
    verb.output(verb.ask(lambda client: client.admin.partition(topic, number)), _show)


def _show(found: NamespacePartition) -> None:
    """Print a partition and its replicas."""
    show_properties(
        ("partition", f"{found.topic}/{found.partition_id}"),
        ("leader", _format_leader(found)),
        ("leader epoch", found.leader_epoch),
        ("first offset", found.log_start_offset),
        ("high watermark", found.high_watermark),
        ("version", found.version),
        ("problem", found.problem),
    )
    click.echo()
    show(table_of(found.replicas, _REPLICA))


def _format_leader(row: ListedPartition | NamespacePartition) -> str:
    """Return the node id of the leader; "-" without one."""
    return "-" if row.leader_id < 0 else str(row.leader_id)


_PARTITION: Columns[ListedPartition] = {
    "partition": lambda row: f"{row.topic}/{row.partition_id}",
    "leader": _format_leader,
    "replicas": lambda row: format_nodes(replica.node_id for replica in row.replicas),
    "version": lambda row: row.version,
}
_REPLICA: Columns[NamespaceReplica] = {
    "node": lambda row: row.node_id,
    "in sync": lambda row: yes_no(row.in_sync),
    "entries behind": lambda row: row.entries_behind,
    "bytes behind": lambda row: format_size(row.bytes_behind),
    "catch-up rate": lambda row: format_rate(row.catch_up_bytes_per_s),
    "problem": lambda row: row.problem,
}
