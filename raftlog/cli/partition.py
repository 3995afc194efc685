"""`raftlog partition …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "recover": Verb(
        "raftlog.cli.partition_recover", "recover", "Let a partition go on that has lost most of its replicas."
    ),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def partition() -> None:
    """Show, move and recover partitions, and choose who leads them."""
