"""Isolation levels of requests."""

from raftlog.types import Isolation


def isolation_of(level: int) -> Isolation:
    """Return the isolation for a level in a request; an unknown level means read_uncommitted, as in Kafka."""
    return Isolation.READ_COMMITTED if level == Isolation.READ_COMMITTED else Isolation.READ_UNCOMMITTED
