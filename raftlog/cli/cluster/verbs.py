"""`raftlog cluster …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "info": Verb("raftlog.cli.cluster.info", "info", "Show the cluster's id and its brokers."),
    "health": Verb("raftlog.cli.cluster.health", "health", "Show whether the cluster is healthy, and if not, why."),
    "members": Verb("raftlog.cli.cluster.members", "members", "Show who is up, as gossip has it."),
    "balancer": Verb("raftlog.cli.cluster.balancer", "balancer", "Show what the balancer does, and what stops it."),
    "balance": Verb("raftlog.cli.cluster.balancer", "balance", "Spread replicas and leaders evenly now."),
    "config": Verb("raftlog.cli.cluster.config", "config", "Show and change settings that all brokers follow."),
    "secret": Verb("raftlog.cli.cluster.secret", "secret", "Make the secret that the brokers share."),
    "log-level": Verb("raftlog.cli.cluster.log_level", "log_level", "Log more or less at a broker, for a while."),
    "rolling-restart": Verb(
        "raftlog.cli.rolling.verb",
        "rolling_restart",
        "Restart the brokers one after another, while the cluster is used.",
    ),
    "upgrade": Verb("raftlog.cli.cluster.upgrade", "upgrade", "Show how far an upgrade is, and finish it."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def cluster() -> None:
    """Show a cluster and its health, and change what concerns all of it."""
