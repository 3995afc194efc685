"""Table of the verbs of `raftlog transaction`."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "list": Verb("transaction.transactions:list_transactions", "List transactional ids with their states."),
    "describe": Verb("transaction.transactions:describe", "Show the state, partitions and groups of a transaction."),
    "abort": Verb("transaction.transactions:abort", "Abort an open transaction, and fence its producer."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def transaction() -> None:
    """Show transactions, and abort those that hang."""
