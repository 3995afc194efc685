"""`raftlog pipeline verify`: compare replicas, and an archive with them."""

import click

from raftlog import pipeline
from raftlog.cli.options import json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.pipeline.job import print_report, run_job, some_topics, spark_options


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, file_okay=False))
@option("--topic", "topics", multiple=True, help="Only this topic; repeat it for more.")
@option("--topics-pattern", metavar="RE2", help="Only topics whose whole name matches.")
@option("--archive", "archive_path", metavar="PATH", help="Compare an archive with the logs as well.")
@spark_options
@json_option("Print the report as JSON.")
def verify(
    directories: tuple[str, ...],
    topics: tuple[str, ...],
    topics_pattern: str | None,
    archive_path: str | None,
    master: str,
    config: dict[str, str],
    as_json: bool,
) -> None:
    """Read every byte of all replicas in DIR..., the data directories of stopped brokers or backups, and check it.

    Replicas of a partition are compared up to what all of them know as committed. Nothing is changed. Exit code 1 when
    something is wrong.
    """
    named = some_topics(topics, topics_pattern)
    report = run_job(
        "verify",
        master,
        config,
        lambda spark, told: pipeline.verify(
            spark,
            list(directories),
            topics=named,
            topics_pattern=topics_pattern,
            archive=archive_path,
            on_progress=told,
        ),
    )
    print_report(report, as_json)
    if not report.is_sound:
        raise CommandFailed("something is wrong with these logs: see the problems")
