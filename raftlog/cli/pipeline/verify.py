"""`raftlog pipeline verify`: compare replicas, and an archive with them."""

from typing import TYPE_CHECKING

import click

from raftlog import pipeline
from raftlog.cli.options import option
from raftlog.cli.pipeline.job import Job, select_topics, spark_job

if TYPE_CHECKING:
    from raftlog.pipeline import VerifyReport


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, file_okay=False))
@option("--topic", "topics", multiple=True, help="Only this topic. Can be repeated.")
@option("--topics-pattern", metavar="RE2", help="Only topics whose whole name matches.")
@option("--archive", "archive_path", metavar="PATH", help="Compare an archive with the logs as well.")
@spark_job
def verify(
    directories: tuple[str, ...],
    topics: tuple[str, ...],
    topics_pattern: str | None,
    archive_path: str | None,
) -> "Job[VerifyReport]":
    """Read every byte of all replicas in DIR..., the data directories of stopped brokers or backups, and check it.

    Replicas of a partition are compared up to the smallest commit index of their journals. Nothing is changed. Exit
    code 1 after a problem.
    """
    named = select_topics(topics, topics_pattern)
    return lambda spark, on_progress: pipeline.verify(
        spark,
        list(directories),
        topics=named,
        topics_pattern=topics_pattern,
        archive=archive_path,
        on_progress=on_progress,
    )
