"""`raftlog partition …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "list": Verb("partition.listing:list_partitions", "List partitions with their leaders and replicas."),
    "show": Verb("partition.listing:show_partition", "Show offsets and replicas of a partition."),
    "move": Verb("partition.move:move", "Move the replicas of a partition to given brokers."),
    "moves": Verb("partition.move:moves", "Show the partitions that are being moved."),
    "cancel-move": Verb("partition.move:cancel_move", "Cancel moves of partitions."),
    "transfer-leadership": Verb("partition.leadership:transfer_leadership", "Transfer the leadership of a partition."),
    "recover": Verb("partition.recover:recover", "Recover a partition that has lost most of its replicas."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def partition() -> None:
    """Show, move and recover partitions, and transfer their leadership."""
