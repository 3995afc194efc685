"""Lines that break a rule of the prose check and stay, each with its reason."""

from typing import Final

ALLOWED: Final[dict[str, str]] = {}

PENDING: Final = (
    "jepsen",
    "partitions",
    "raftlog/__init__.py",
    "raftlog/backoff.py",
    "raftlog/cluster_secret.py",
    "raftlog/config.py",
    "raftlog/context.py",
    "raftlog/errors.py",
    "raftlog/events.py",
    "raftlog/group_commit.py",
    "raftlog/log.py",
    "raftlog/types.py",
    "raftlog/cli",
    "raftlog/client",
    "raftlog/loadgen",
    "raftlog/raft",
    "raftlog/runtime",
    "raftlog/storage",
    "raftlog/testing",
)
"""Files and directories whose lines are not rewritten yet."""
