"""Plain integers that the hot path adds to; they become metrics only when somebody asks."""

from raftlog.runtime.histogram import Histogram


class Counters:
    """Totals since the start of the process."""

    __slots__ = (
        "append_times",
        "appends",
        "batches_in",
        "bytes_in",
        "bytes_out",
        "duplicates",
        "fetches",
        "group_commits",
        "group_expired",
        "group_rebalances",
        "produce_failures",
        "produce_unknown",
        "produces",
        "records_in",
        "segments_bytes_deleted",
        "throttled",
    )

    def __init__(self) -> None:
        self.produces = 0
        """Produce calls that reached a partition."""
        self.records_in = 0
        """Records appended."""
        self.bytes_in = 0
        """Bytes of the batches appended."""
        self.batches_in = 0
        """Batches appended."""
        self.appends = 0
        """Appends to a log; each is one group of produce calls that share a sync."""
        self.produce_failures = 0
        """Produce calls that definitely failed after they were queued."""
        self.produce_unknown = 0
        """Produce calls whose outcome is unknown."""
        self.duplicates = 0
        """Produce calls of idempotent producers that were appended before."""
        self.throttled = 0
        """Produce calls that had to wait for room."""
        self.append_times = Histogram()
        """From the arrival of an append's oldest call to its answer."""
        self.fetches = 0
        self.bytes_out = 0
        self.segments_bytes_deleted = 0
        self.group_commits = 0
        """Offsets of groups that were committed at coordinators here."""
        self.group_expired = 0
        """Committed offsets that were forgotten because their groups were empty for so long."""
        self.group_rebalances = 0
        """Generations with members that coordinators here made."""
