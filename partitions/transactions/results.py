"""Requests to transaction coordinators and their results. Field order is the encoding between brokers."""

from typing import NamedTuple

import msgspec

from raftlog.partitions.transactions.records import NO_EPOCH, NO_PRODUCER, TransactionPlace


class InitializeProducer(NamedTuple):
    """Request for a producer's identity.

    `expected_id` and `expected_epoch` are its present identity, or `NO_PRODUCER` and `NO_EPOCH`."""

    transactional_id: str
    timeout_ms: int
    expected_id: int = NO_PRODUCER
    expected_epoch: int = NO_EPOCH


class AddToTransaction(NamedTuple):
    """Request to add partitions and groups to the producer's transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TransactionPlace, ...]
    groups: tuple[str, ...]


class EndTransaction(NamedTuple):
    """Request to commit or abort the producer's transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool


class VerifyTransaction(NamedTuple):
    """Request to confirm that a partition, or a group, is in the producer's ongoing transaction.

    `is_confirmed`: the coordinator confirms that it is the newest one."""

    transactional_id: str
    producer_id: int
    epoch: int
    partition: TransactionPlace | None
    group: str | None
    is_confirmed: bool


class TransactionListing(msgspec.Struct, frozen=True, array_like=True):
    """Row of a list of transactions: one transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    """Kafka's name of the state, such as `Ongoing`."""
    timeout_ms: int
    started_ms: int
    """Time of the transaction's begin, by the coordinator's clock; 0 without one."""
    age_ms: int
    """Time since the transaction's begin; 0 without one."""
    coordinator: int = -1
    """Node id of the coordinator; −1 if it is unknown."""


class TransactionDetails(TransactionListing, frozen=True, array_like=True):
    """Transactional id with the partitions and groups of its transaction."""

    partitions: tuple[TransactionPlace, ...] = ()
    groups: tuple[str, ...] = ()
