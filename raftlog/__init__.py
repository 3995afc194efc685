"""raftlog: a replicated log.

The names a user imports from here are `Log` (the embedded library), `LogConfig` and the root of the errors.
Everything else is reached by its room: `raftlog.records`, `raftlog.client`, `raftlog.partitions`, `raftlog.api`.
"""

from raftlog.config import LogConfig
from raftlog.errors import RaftlogError
from raftlog.log import Log

__all__ = ["Log", "LogConfig", "RaftlogError", "__version__"]
__version__ = "0.2.0"
