"""`raftlog pipeline …`: the table of its verbs. They run Spark, of which nothing is imported before one is used."""

import click

from raftlog.cli.lazy import LazyGroup, Verb

VERBS = {
    "archive": Verb("pipeline.archive:archive", "Copy what is new in topics to Parquet, each record once."),
    "compact": Verb("pipeline.archive:compact", "Put an archive's small files together."),
    "replay": Verb("pipeline.replay:replay", "Write an archive's records to topics, each once."),
    "verify": Verb("pipeline.verify:verify", "Check all replicas of all partitions, and an archive."),
    "info": Verb("pipeline.info:info", "Show what Spark runs on here, and pack raftlog for executors."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def pipeline() -> None:
    """Archive, replay and check logs of any size on Spark; needs the extra `pipeline` and Java 17 or 21."""
