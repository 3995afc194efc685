"""Environment of group coordinators: the parts of the broker that they use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.places import TopicPlaces
from raftlog.partitions.groups.results import TransactionalProducer
from raftlog.partitions.groups.settings import GroupSettings


@dataclass(frozen=True, slots=True)
class GroupEnvironment:
    """Functions and values that a group coordinator receives from its broker.

    `partitions_of` returns a topic's partition count; None if it does not exist."""

    settings: GroupSettings
    random: Random
    wall_ms: Callable[[], int]
    counters: Counters
    partitions_of: Callable[[str], int | None]
    places: TopicPlaces
    is_deleted: Callable[[UUID], bool]
    """Whether the topic of this uuid was deleted, as far as known here."""
    offsets_retention_ms: int
    feature_level: Callable[[], int]
    """Feature level of the cluster, as far as known here."""
    verify_transaction: Callable[[TransactionalProducer, str, Deadline], Awaitable[None]]
    """Function that returns once the transaction's coordinator confirms that the group is in the open transaction.

    Raises `ProducerFenced`, `InvalidProducerMapping`, `InvalidTransactionState`, `ConcurrentTransactions`."""
    join_transaction: Callable[[TransactionalProducer, str, Deadline], Awaitable[int]]
    """Function that adds the group to the transaction, after the end of the last one, and returns its number.

    Raises as `verify_transaction`."""
