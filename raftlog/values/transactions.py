"""Answers about transactions."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from raftlog.types import TopicPartition
from raftlog.values.value import Count, LeaderNumber, NodeNumber, Value

TransactionStateName: TypeAlias = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"
]


class TransactionSummary(Value, frozen=True, kw_only=True):
    """Transactional id, as its coordinator reports it, with the state of its last transaction.

    `started_ms`: begin of a transaction that has not ended; `age_ms`: the time since then."""

    transactional_id: str
    state: TransactionStateName
    producer_id: Count
    producer_epoch: Count
    timeout_ms: Count
    started_ms: Count | None
    age_ms: Count | None
    coordinator_id: LeaderNumber


class TransactionList(Value, frozen=True):
    """All transactional ids."""

    transactions: Sequence[TransactionSummary]


class TransactionPartition(Value, frozen=True):
    """Partition to which a transaction has written."""

    topic: str
    partition: NodeNumber

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TransactionDescription(TransactionSummary, frozen=True, kw_only=True):
    """Transactional id with the partitions and consumer groups of a transaction that has not ended."""

    partitions: Sequence[TransactionPartition]
    groups: Sequence[str]
