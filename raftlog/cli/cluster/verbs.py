"""`raftlog cluster …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "info": Verb("cluster.info:info", "Show the cluster's id and its brokers."),
    "health": Verb("cluster.health:health", "Show whether the cluster is healthy, and if not, why."),
    "members": Verb("cluster.members:members", "Show who is up, as gossip has it."),
    "balancer": Verb("cluster.balancer:balancer", "Show what the balancer does, and what stops it."),
    "balance": Verb("cluster.balancer:balance", "Spread replicas and leaders evenly now."),
    "config": Verb("cluster.config:config", "Show and change settings that all brokers follow."),
    "secret": Verb("cluster.secret:secret", "Make the secret that the brokers share."),
    "log-level": Verb("cluster.log_level:log_level", "Log more or less at a broker, for a while."),
    "rolling-restart": Verb(
        "rolling.verb:rolling_restart", "Restart the brokers one after another, while the cluster is used."
    ),
    "upgrade": Verb("cluster.upgrade:upgrade", "Show how far an upgrade is, and finish it."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def cluster() -> None:
    """Show a cluster and its health, and change what concerns all of it."""
