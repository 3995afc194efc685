"""Data pipeline on Spark: reads and writes topics, reads segment files, archives, replays, verifies.

    spark = raftlog.pipeline.local_session()
    rows = spark.read.format("raftlog").option("bootstrap", "127.0.0.1:8082").option("topics", "orders").load()

Installed with the extra `pipeline` (pyspark, pyarrow); Spark needs Java 17 or 21. Used by users' programs and by
`raftlog.cli.pipeline`. The names below are imported at their first use, so that a worker that only reads loads only the
reader. If a requirement is missing, the first use of a name raises `MissingRequirement`."""

import importlib
from typing import TYPE_CHECKING, Any, Final

from raftlog.pipeline.requirements import check_packages

assert __name__.startswith("raftlog."), "import this room as raftlog.pipeline"

if TYPE_CHECKING:
    from raftlog.pipeline.archives.archive import ArchiveReport as ArchiveReport
    from raftlog.pipeline.archives.compaction import CompactionReport as CompactionReport
    from raftlog.pipeline.archives.jobs import archive as archive
    from raftlog.pipeline.archives.jobs import compact_archive as compact_archive
    from raftlog.pipeline.archives.log_sources import Brokers as Brokers
    from raftlog.pipeline.archives.log_sources import Segments as Segments
    from raftlog.pipeline.archives.reader import read_archive as read_archive
    from raftlog.pipeline.brokers.source import RaftlogDataSource as RaftlogDataSource
    from raftlog.pipeline.errors import MissingRequirement as MissingRequirement
    from raftlog.pipeline.errors import PipelineFailed as PipelineFailed
    from raftlog.pipeline.progress import OnProgress as OnProgress
    from raftlog.pipeline.progress import Progress as Progress
    from raftlog.pipeline.replays.job import ReplayReport as ReplayReport
    from raftlog.pipeline.replays.job import replay as replay
    from raftlog.pipeline.segments.source import RaftlogSegmentsDataSource as RaftlogSegmentsDataSource
    from raftlog.pipeline.session import local_session as local_session
    from raftlog.pipeline.verification import VerifyReport as VerifyReport
    from raftlog.pipeline.verification import verify as verify

_HOMES: Final = {
    "ArchiveReport": "archives.archive",
    "Brokers": "archives.log_sources",
    "CompactionReport": "archives.compaction",
    "MissingRequirement": "errors",
    "OnProgress": "progress",
    "PipelineFailed": "errors",
    "Progress": "progress",
    "RaftlogDataSource": "brokers.source",
    "RaftlogSegmentsDataSource": "segments.source",
    "ReplayReport": "replays.job",
    "Segments": "archives.log_sources",
    "VerifyReport": "verification",
    "archive": "archives.jobs",
    "compact_archive": "archives.jobs",
    "local_session": "session",
    "read_archive": "archives.reader",
    "replay": "replays.job",
    "verify": "verification",
}
"""Module of this package that defines each public name."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use. Raises `MissingRequirement`, and `AttributeError` for other names."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{home}")
    except ImportError:
        check_packages()
        raise
    return getattr(module, name)
