"""`raftlog pipeline replay`: Parquet to topics."""

from collections.abc import Sequence

import click

from raftlog import pipeline
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.pipeline.job import print_report, run_job, spark_options


@click.command()
@click.argument("path", metavar="PATH")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@bootstrap_option
@option("--to", multiple=True, metavar="[OLD=]NEW", help="Topic to write to: one for all, or repeated, one for each.")
@option("--spread", is_flag=True, help="Choose partitions by key, as producers do, instead of those they came from.")
@option("--where", metavar="SQL", help="Only records for which this holds, such as \"timestamp >= '2026-01-01'\".")
@option("--records-per-second", type=click.IntRange(min=1), help="No faster than this, all partitions together.")
@option("--name", help="Whoever gives the same name again goes on with the same replay. [default: of PATH and topics]")
@option("--again", is_flag=True, help="Write everything once more, also what an earlier replay wrote.")
@spark_options
@json_option("Print the report as JSON.")
def replay(
    path: str,
    topics: tuple[str, ...],
    bootstrap: list[str],
    to: tuple[str, ...],
    spread: bool,
    where: str | None,
    records_per_second: int | None,
    name: str | None,
    again: bool,
    master: str,
    config: dict[str, str],
    as_json: bool,
) -> None:
    """Write the records of the archive PATH to topics, each once, with their timestamps, keys and headers.

    All topics of the archive without TOPIC. A replay that was interrupted goes on when it is started again; one that
    was done writes only what the archive got since.
    """
    target = read_targets(to)
    report = run_job(
        "replay",
        master,
        config,
        lambda spark, told: pipeline.replay(
            spark,
            path,
            ",".join(bootstrap),
            topics=list(topics) or None,
            to=target,
            keep_partitions=not spread,
            where=where,
            records_per_second=records_per_second,
            name=name,
            again=again,
            on_progress=told,
        ),
    )
    print_report(report, as_json)


def read_targets(to: Sequence[str]) -> str | dict[str, str] | None:
    """`NEW` for all topics, or `OLD=NEW` for each; raises `UsageError`."""
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
