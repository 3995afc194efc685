"""Counters that the hot path increments: plain integers, read when metrics are read."""

from dataclasses import dataclass, field

from raftlog.runtime.histogram import Histogram
from raftlog.runtime.tracing.tracer import Tracer


class KafkaCounters:
    """Totals of all Kafka listeners of the process; keys are Kafka's names of the APIs."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "closed",
        "connections",
        "connections_accepted",
        "connections_refused",
        "errors",
        "fetch_session_partitions",
        "fetch_sessions",
        "fetch_sessions_evicted",
        "requests",
        "times",
    )

    def __init__(self) -> None:
        """Create counters at zero."""
        self.connections = 0
        """Open connections."""
        self.connections_accepted = 0
        self.connections_refused = 0
        """Connections that were closed because of the bound on their number."""
        self.closed = 0
        """Connections that were closed because of invalid input, or because the client did not read its answers."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.fetch_sessions = 0
        """Open fetch sessions."""
        self.fetch_session_partitions = 0
        """Partitions of all fetch sessions."""
        self.fetch_sessions_evicted = 0
        """Fetch sessions that were closed because of the limits on their number."""
        self.requests: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        """Requests that failed as a whole; errors of single topics and partitions are not counted."""
        self.times: dict[str, Histogram] = {}
        """Times from the arrival of a request to its answer."""


@dataclass(slots=True)
class Counters:
    """Totals since the start of the process."""

    produces: int = 0
    """Produce calls that reached a partition."""
    records_in: int = 0
    """Records appended."""
    bytes_in: int = 0
    """Bytes of the batches appended."""
    batches_in: int = 0
    """Batches appended."""
    appends: int = 0
    """Appends to a log; each is one set of produce calls that share a sync."""
    produce_failures: int = 0
    """Produce calls that definitely failed after they were queued."""
    produce_unknown: int = 0
    """Produce calls whose outcome is unknown."""
    duplicates: int = 0
    """Produce calls of idempotent producers that were appended before."""
    throttled: int = 0
    """Produce calls that had to wait for room in a budget."""
    append_times: Histogram = field(default_factory=Histogram)
    """Times from the arrival of an append's oldest call to its answer."""
    fetches: int = 0
    bytes_out: int = 0
    segments_bytes_deleted: int = 0
    group_commits: int = 0
    """Offsets of consumer groups that were committed at coordinators here."""
    group_expired: int = 0
    """Committed offsets that expired because their consumer groups were empty for too long."""
    group_rebalances: int = 0
    """Generations of consumer groups, without those of empty groups, that coordinators here made."""
    tracer: Tracer | None = None
    """Tracer of produce requests; None: off."""
    kafka: KafkaCounters = field(default_factory=KafkaCounters)
