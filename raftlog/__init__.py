"""raftlog: a replicated log.

The names a user imports from here are `Log` (the embedded library), `LogConfig` and the root of the errors.
Everything else is reached by its room: `raftlog.records`, `raftlog.client`, `raftlog.partitions`, `raftlog.api`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from raftlog.errors import RaftlogError
from raftlog.topic_config import LogConfig

if TYPE_CHECKING:
    from raftlog.log import Log

__all__ = ["Log", "LogConfig", "RaftlogError", "__version__"]
__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """Import `Log` at its first use (PEP 562), so that the command and its clients start without the log's code."""
    if name != "Log":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = import_module("raftlog.log").Log
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
