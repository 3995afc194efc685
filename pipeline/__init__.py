"""The data pipeline on Spark: read and write topics, read segment files, archive, replay, verify, judge histories.

    spark = raftlog.pipeline.local_session()
    rows = spark.read.format("raftlog").option("bootstrap", "127.0.0.1:8082").option("topics", "orders").load()

Installed with the extra `pipeline` (pyspark, pyarrow); Spark needs Java 17 or 21. Who may come in: users' programs, and
of the command `raftlog.cli.pipeline` alone. The names below are imported when they are used, so that a worker that only
reads carries no more than the reader; the first one that needs what is not installed raises `MissingRequirement`.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from raftlog.pipeline.requirements import check_packages

assert __name__.startswith("raftlog."), "import this room as raftlog.pipeline"

if TYPE_CHECKING:
    from raftlog.pipeline.errors import MissingRequirement, PipelineFailed
    from raftlog.pipeline.progress import OnProgress, Progress
    from raftlog.pipeline.session import local_session

_HOMES: Final = {
    "MissingRequirement": "errors",
    "OnProgress": "progress",
    "PipelineFailed": "errors",
    "Progress": "progress",
    "local_session": "session",
}
"""Name → module of this package."""

__all__ = ["MissingRequirement", "OnProgress", "PipelineFailed", "Progress", "local_session"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{home}")
    except ImportError:
        check_packages()
        raise
    return getattr(module, name)
