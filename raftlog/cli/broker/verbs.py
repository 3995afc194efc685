"""`raftlog broker …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "list": Verb("broker.listing:list_brokers", "List the brokers of the cluster."),
    "show": Verb("broker.listing:show_broker", "Show all details of a broker."),
    "maintenance": Verb(
        "broker.maintenance:maintenance", "Take all leaderships from a broker for a while, such as for a restart."
    ),
    "decommission": Verb(
        "broker.decommission:decommission", "Move a broker's replicas to others, and remove it for good."
    ),
    "decommission-status": Verb(
        "broker.decommission:decommission_status", "Show the progress of a decommission, and what it waits for."
    ),
    "recommission": Verb("broker.decommission:recommission", "Cancel the decommission of a broker."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def broker() -> None:
    """Show brokers, and take them out of the cluster: for a while, or for good."""
