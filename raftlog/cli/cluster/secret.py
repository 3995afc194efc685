"""`raftlog cluster secret …`: the secret that authenticates brokers to each other."""

import click

from raftlog.cli.lazy import LazyGroup, Verb
from raftlog.cluster_secret import create_secret

VERBS = {"create": Verb("cluster.secret:create", "Write a new secret to a file.")}


@click.group(cls=LazyGroup, verbs=VERBS)
def secret() -> None:
    """Create the secret that the brokers of a cluster share."""


@click.command()
@click.argument("file", type=click.Path())
def create(file: str) -> None:
    """Write a new random secret to FILE, which must not exist; only its owner can read it (mode 0600).

    Copy it to every broker of the cluster, and start each with --cluster-secret-file FILE.
    """
    create_secret(file)
    click.echo(f"created {file}; copy it to every broker, and start each with --cluster-secret-file {file}")
