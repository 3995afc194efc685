"""Reader of archives: rows of the files that the commits contain, and of no others.

Nothing is written, so that an archive on a read-only file system can be read. Called by users, by `replays` and by the
verification."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from raftlog.errors import UnknownTopic
from raftlog.pipeline.archives.files import Files, files_at
from raftlog.pipeline.archives.manifest import ArchivedFile
from raftlog.pipeline.archives.state import ArchiveState, missing_file_error, read_settled
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.rows import ARROW_SCHEMA, SCHEMA

_SCHEMA: Final = f"{SCHEMA}, date string"
_CHECKED_TOGETHER: Final = 10_000


def read_archive(spark: SparkSession, path: str, topics: Sequence[str] | None = None) -> DataFrame:
    """Return the rows of an archive as a data frame, each once, with the columns of the data sources.

    All topics are read when none are named. The files are chosen now: rows that are archived later are not seen. Raises
    `NotAnArchive`, `ArchiveDamaged` (also where a file is missing or has another size), and `UnknownTopic`."""
    files = files_at(path)
    chosen = files_of(files, read_settled(files), TopicChoice.from_arguments(topics).names)
    if not chosen:
        return spark.createDataFrame([], SCHEMA)
    paths = [f"{files.uri}/{file.path}" for file in chosen]
    rows = spark.read.schema(_SCHEMA).option("basePath", files.uri).parquet(*paths)
    return rows.select(*ARROW_SCHEMA.names)


def files_of(files: Files, state: ArchiveState, topics: Sequence[str] | None) -> list[ArchivedFile]:
    """Return the files of topics, sorted by topic, partition and day, with checked sizes. Raises as `read_archive`."""
    there = {place.topic for place in state.covered}
    for topic in topics or ():
        if topic not in there:
            raise UnknownTopic(f"topic {topic} is not in the archive {files.uri}, which has {', '.join(sorted(there))}")
    chosen = state.files_of_topics(topics)
    for first in range(0, len(chosen), _CHECKED_TOGETHER):
        together = chosen[first : first + _CHECKED_TOGETHER]
        for file, size in zip(together, files.sizes([each.path for each in together]), strict=True):
            if size != file.size:
                raise missing_file_error(files, file)
    return chosen
