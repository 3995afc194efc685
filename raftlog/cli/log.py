"""`raftlog log …`: tools on log files; no broker is needed, and none may have the directory open for `recover`."""

import click


@click.group()
def log() -> None:
    """Dump, verify and recover log files."""
