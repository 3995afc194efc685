"""`raftlog pipeline …`: the table of its verbs. Spark is imported when a verb runs."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "archive": Verb("pipeline.archive:archive", "Copy new records of topics to Parquet, each once."),
    "compact": Verb("pipeline.archive:compact", "Merge an archive's small files."),
    "replay": Verb("pipeline.replay:replay", "Write an archive's records to topics, each once."),
    "verify": Verb("pipeline.verify:verify", "Check all replicas of all partitions, and an archive."),
    "info": Verb("pipeline.info:info", "Show the versions that Spark uses here, and pack raftlog for executors."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def pipeline() -> None:
    """Archive, replay and check logs of any size on Spark; needs the extra `pipeline` and Java 17 or 21."""
