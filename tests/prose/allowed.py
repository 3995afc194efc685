"""Lines that break a rule of the prose check and stay, each with its reason."""

from typing import Final

ALLOWED: Final[dict[str, str]] = {}

PENDING: Final = (
    "jepsen",
    "partitions/coordinator",
    "partitions/gossip",
    "partitions/node",
    "partitions/operations",
    "partitions/produce",
    "partitions/replica",
    "partitions/routing",
    "partitions/__init__.py",
    "partitions/addresses.py",
    "partitions/broker.py",
    "partitions/budget.py",
    "partitions/caller.py",
    "partitions/cluster_view.py",
    "partitions/composition.py",
    "partitions/counters.py",
    "partitions/deadline.py",
    "partitions/housekeeping.py",
    "partitions/measuring.py",
    "partitions/results.py",
    "partitions/settings.py",
    "partitions/topic_changes.py",
    "raftlog/runtime",
)
"""Files and directories whose lines are not rewritten yet."""
