"""Environment of transaction coordinators: the parts of the broker that they use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import GroupMarker
from raftlog.partitions.transactions.records import TransactionPlace
from raftlog.partitions.transactions.settings import TransactionSettings
from raftlog.runtime.histogram import Histogram


@dataclass(slots=True)
class TransactionCounters:
    """Totals of the coordinators of one process, since its start."""

    committed: int = 0
    """Transactions that were committed."""
    aborted: int = 0
    """Transactions that were aborted, for whatever reason."""
    timed_out: int = 0
    """Transactions that were aborted because of their timeout."""
    fenced: int = 0
    """Transactions that were aborted because another producer was initialized, or by an operator."""
    end_times: Histogram = field(default_factory=Histogram)
    """Times from the stored decision until every marker was written and the end was stored."""


@dataclass(frozen=True, slots=True)
class TransactionEnvironment:
    """Functions and values that a transaction coordinator receives from its process."""

    settings: TransactionSettings
    wall_ms: Callable[[], int]
    counters: TransactionCounters
    feature_level: Callable[[], int]
    """Feature level of the cluster, as far as known here."""
    new_producer_id: Callable[[Deadline], Awaitable[int]]
    """Function that returns a producer id that was never used."""
    end_partition: Callable[[TransactionPlace, GroupMarker, Deadline], Awaitable[None]]
    """Function that writes a marker to a partition, in one attempt.

    Raises `UnknownTopic` for a deleted topic, `ProducerFenced` and `CoordinatorFenced`."""
    end_group: Callable[[str, GroupMarker, Deadline], Awaitable[None]]
    """Function that ends the transaction in a consumer group, in one attempt; raises as `end_partition`."""
