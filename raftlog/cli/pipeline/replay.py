"""`raftlog pipeline replay`: Parquet to topics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from raftlog import pipeline
from raftlog.cli.options import bootstrap_option, option
from raftlog.cli.pipeline.job import Job, spark_job
from raftlog.client.addresses import BrokerAddresses

if TYPE_CHECKING:
    from raftlog.pipeline import ReplayReport


@click.command()
@click.argument("path", metavar="PATH")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@bootstrap_option
@option("--to", multiple=True, metavar="[OLD=]NEW", help="Target topic: one for all, or repeated, one for each.")
@option("--spread", is_flag=True, help="Choose partitions by key, as producers do, instead of the original ones.")
@option("--where", metavar="SQL", help="Only records that match this condition, such as \"timestamp >= '2026-01-01'\".")
@option("--records-per-second", type=click.IntRange(min=1), help="Maximum rate of all partitions together.")
@option("--name", help="Name of the replay; the same name continues it. [default: derived from PATH and topics]")
@option("--again", is_flag=True, help="Write all records again, also those that an earlier replay wrote.")
@spark_job
def replay(
    path: str, topics: tuple[str, ...], bootstrap: BrokerAddresses, to: tuple[str, ...], spread: bool, **how: Any
) -> "Job[ReplayReport]":
    """Write the records of the archive PATH to topics, each once, with their timestamps, keys and headers.

    All topics of the archive without TOPIC. A restarted replay continues an interrupted one; after a complete one it
    writes only records that were archived since.
    """
    target = read_targets(to)
    return lambda spark, on_progress: pipeline.replay(
        spark,
        path,
        bootstrap,
        topics=list(topics) or None,
        to=target,
        keep_partitions=not spread,
        on_progress=on_progress,
        **how,
    )


def read_targets(to: Sequence[str]) -> str | dict[str, str] | None:
    """Parse `NEW` for all topics, or `OLD=NEW` for each; raises `UsageError`."""
    if not to:
        return None
    if len(to) == 1 and "=" not in to[0]:
        return to[0]
    targets = {}
    for text in to:
        old, equals, new = text.partition("=")
        if not equals or not old or not new:
            raise click.UsageError(f"--to {text}: give one NEW for all topics, or OLD=NEW for each")
        targets[old] = new
    return targets
