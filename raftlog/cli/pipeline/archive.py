"""`raftlog pipeline archive` and `compact`: topics to Parquet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from raftlog import pipeline
from raftlog.cli.options import bootstrap_option, option
from raftlog.cli.pipeline.job import Job, select_topics, spark_job
from raftlog.client.addresses import BrokerAddresses

if TYPE_CHECKING:
    from raftlog.pipeline import ArchiveReport, Brokers, CompactionReport, Segments


@click.command()
@click.argument("path", metavar="PATH")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@option("--topics-pattern", metavar="RE2", help="All topics whose whole name matches, instead of names.")
@bootstrap_option
@option(
    "--data-dir",
    "data_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="Read the files of stopped brokers, or of a backup, instead of brokers. Can be repeated.",
)
@option("--compression", default="zstd", help="Compression of the Parquet files: zstd, snappy, gzip, lz4 or none.")
@option(
    "--accept-loss",
    is_flag=True,
    help="Continue after records that were trimmed before they were archived; without it they are an error.",
)
@option(
    "--skip-undecodable",
    is_flag=True,
    help="Skip records that cannot be decoded, with a warning for each batch; without it they are an error.",
)
@spark_job
def archive(
    path: str,
    topics: tuple[str, ...],
    topics_pattern: str | None,
    bootstrap: BrokerAddresses,
    data_dirs: tuple[str, ...],
    compression: str,
    accept_loss: bool,
    skip_undecodable: bool,
) -> "Job[ArchiveReport]":
    """Copy new records of TOPIC... to Parquet files in PATH; of all topics without TOPIC.

    PATH is a directory or a URI that Arrow supports. The next run continues an interrupted one. Each record is in PATH
    once.
    """
    named = select_topics(topics, topics_pattern)
    source = _choose_source(bootstrap, data_dirs, skip_undecodable)
    return lambda spark, on_progress: pipeline.archive(
        spark,
        source,
        path,
        topics=named,
        topics_pattern=topics_pattern,
        compression=compression,
        fail_on_data_loss=not accept_loss,
        on_progress=on_progress,
    )


def _choose_source(
    bootstrap: BrokerAddresses, data_dirs: Sequence[str], skip_undecodable: bool
) -> "Brokers | Segments":
    """Return the source of the records: data directories if any are given, otherwise brokers."""
    if not data_dirs:
        return pipeline.Brokers(bootstrap, skip_undecodable=skip_undecodable)
    if click.get_current_context().get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        raise click.UsageError("give --bootstrap or --data-dir, not both")
    return pipeline.Segments(data_dirs, skip_undecodable=skip_undecodable)


@click.command()
@click.argument("path", metavar="PATH")
@option("--target-bytes", default=128 * 1024 * 1024, help="Size of merged files.")
@option("--grace-seconds", default=0.0, help="Time for which replaced files are kept for running readers.")
@spark_job
def compact(path: str, target_bytes: int, grace_seconds: float) -> "Job[CompactionReport]":
    """Merge small files of the archive PATH, and delete the replaced ones, at once or after a grace period."""
    return lambda spark, on_progress: pipeline.compact_archive(
        spark, path, target_bytes=target_bytes, grace_seconds=grace_seconds, on_progress=on_progress
    )
