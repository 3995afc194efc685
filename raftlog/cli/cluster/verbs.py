"""`raftlog cluster …`: the table of its verbs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "info": Verb("cluster.info:info", "Show the cluster's id and its brokers."),
    "health": Verb("cluster.health:health", "Show whether the cluster is healthy, and the reasons if not."),
    "members": Verb("cluster.members:members", "Show the state of each broker according to gossip."),
    "balancer": Verb("cluster.balancer:balancer", "Show the balancer's activity, and the conditions that stop it."),
    "balance": Verb("cluster.balancer:balance", "Balance replicas and leaders now."),
    "config": Verb("cluster.config:config", "Show and change settings of all brokers."),
    "secret": Verb("cluster.secret:secret", "Create the secret that the brokers share."),
    "log-level": Verb("cluster.log_level:log_level", "Set the log level of a broker for a while."),
    "rolling-restart": Verb(
        "rolling.verb:rolling_restart", "Restart the brokers one after another, while the cluster is used."
    ),
    "upgrade": Verb("cluster.upgrade:upgrade", "Show the progress of an upgrade, and finish it."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def cluster() -> None:
    """Show a cluster and its health, and change cluster-wide settings and state."""
