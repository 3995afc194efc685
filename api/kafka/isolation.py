"""Isolation levels of requests."""

from raftlog.types import Isolation


def isolation_of(level: int) -> Isolation:
    """Return the isolation of a request; a level that Kafka does not have reads uncommitted records, as there."""
    return Isolation.READ_COMMITTED if level == Isolation.READ_COMMITTED else Isolation.READ_UNCOMMITTED
