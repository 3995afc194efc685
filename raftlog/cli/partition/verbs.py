"""`raftlog partition …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

_LIST, _MOVE = "raftlog.cli.partition.listing", "raftlog.cli.partition.move"

VERBS = {
    "list": Verb(_LIST, "list_partitions", "List partitions with their leaders and replicas."),
    "show": Verb(_LIST, "show_partition", "Show a partition as its leader sees it, replica by replica."),
    "move": Verb(_MOVE, "move", "Say on which brokers the replicas of a partition shall be."),
    "moves": Verb(_MOVE, "moves", "Show the partitions whose replicas are on their way."),
    "cancel-move": Verb(_MOVE, "cancel_move", "Let replicas stay where they are."),
    "transfer-leadership": Verb(
        "raftlog.cli.partition.leadership", "transfer_leadership", "Let another replica of a partition lead."
    ),
    "recover": Verb(
        "raftlog.cli.partition.recover", "recover", "Let a partition go on that has lost most of its replicas."
    ),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def partition() -> None:
    """Show, move and recover partitions, and choose who leads them."""
