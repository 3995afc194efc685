"""`raftlog partition …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "list": Verb("partition.listing:list_partitions", "List partitions with their leaders and replicas."),
    "show": Verb("partition.listing:show_partition", "Show a partition as its leader sees it, replica by replica."),
    "move": Verb("partition.move:move", "Say on which brokers the replicas of a partition shall be."),
    "moves": Verb("partition.move:moves", "Show the partitions whose replicas are on their way."),
    "cancel-move": Verb("partition.move:cancel_move", "Let replicas stay where they are."),
    "transfer-leadership": Verb("partition.leadership:transfer_leadership", "Let another replica of a partition lead."),
    "recover": Verb("partition.recover:recover", "Let a partition go on that has lost most of its replicas."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def partition() -> None:
    """Show, move and recover partitions, and choose who leads them."""
