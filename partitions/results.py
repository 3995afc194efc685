"""Arguments and results of the façade of the broker."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from raftlog.errors import RaftlogError
from raftlog.raft import ReplicaId
from raftlog.records import NO_NUMBER
from raftlog.types import Offset

Acks: TypeAlias = Literal[-1, 0, 1]
ALL: Acks = -1
"""Answer when the record is as durable as the topic's flush policy requires; the default of every produce."""


class RecordResult(NamedTuple):
    """Result of one record: its offset, or the error. With `acks=0` both are None."""

    partition: int | None
    offset: int | None
    error: RaftlogError | None
    is_duplicate: bool = False
    """Whether an earlier attempt of an idempotent producer had appended the record already."""


class Produced(NamedTuple):
    """Offsets of the batches of one request; `base_offset` is −1 with `acks=0`.

    `topic_id` is set by the broker that received the request, as in `Fetched`."""

    base_offset: Offset
    next_offset: Offset
    leader_epoch: int
    high_watermark: Offset
    is_duplicate: bool = False
    """Whether an earlier attempt had appended all batches; the other fields then describe that append."""
    topic_id: UUID | None = None


class ProducerSequence(NamedTuple):
    """Identity of an idempotent producer's call; `sequence` is that of its first record."""

    producer_id: int
    producer_epoch: int
    sequence: int


class ActiveProducer(NamedTuple):
    """Idempotent producer that a partition remembers.

    `last_timestamp` is the time of its newest record or marker, in ms. A number is −1 if the producer has no batch,
    marker or open transaction from which to read it."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int = -1
    """Epoch of the coordinator that sent its last marker."""
    transaction_start_offset: int = -1
    """Offset of the first batch of its open transaction."""


class ConfirmedTransaction(NamedTuple):
    """Answer of a transaction coordinator: the open transaction contains the requested partition or consumer group."""

    coordinator_epoch: int
    number: int = NO_NUMBER
    """Number of the transaction; later ones have higher numbers. `NO_NUMBER` if the coordinator does not report it."""


class AbortedTransaction(NamedTuple):
    """Aborted transaction. Readers skip the producer's batches from `first_offset` up to its next marker."""

    producer_id: int
    first_offset: Offset


class Fetched(NamedTuple):
    """Stored batches, each a view of one batch, and the bounds of the log when they were read.

    The broker that received the request sets `topic_id`, because the name may belong to a newer topic by now."""

    batches: list[memoryview]
    high_watermark: Offset
    log_start_offset: Offset
    leader_epoch: int
    topic_id: UUID | None = None
    last_stable_offset: Offset = Offset(-1)
    """Offset below which no transaction is open; −1 for a read of uncommitted records, or if unknown."""
    aborted: Sequence[AbortedTransaction] = ()
    """Aborted transactions with records in `batches`, by offset; only for a read of committed records."""


class ReplicaLag(NamedTuple):
    """Entries and bytes that a replica lacks, and the present rate of its catch-up.

    `bytes` is an estimate that omits entries which are not in files yet."""

    node_id: int
    entries: int
    bytes: int
    bytes_per_s: int


class PartitionState(NamedTuple):
    """State of one partition as its leader reports it; `problem`: reason why it cannot be written or read.

    Without a leader that answers, `leader` and the offsets are None and `in_sync` is empty."""

    partition: int
    leader: int | None
    replicas: Sequence[int]
    in_sync: Sequence[int]
    problem: str | None
    leader_epoch: int | None = None
    high_watermark: Offset | None = None
    log_start_offset: Offset | None = None
    behind: Sequence[ReplicaLag] = ()
    """Replicas whose lag is known."""
    damaged: Mapping[int, str] = {}
    """Node ids of quarantined replicas, with file, position and offset of the damage, and the progress of the repair.
    """
    version: int | None = None
    """Version of the assignment; a request to change it names the version to replace. None for a planned topic."""
    caught_up: Sequence[int] = ()
    """Replicas in sync that hold all entries committed at the time of the report."""
    size_bytes: int | None = None
    """Size of the leader's log; None if it does not report one."""


def planned_states(placed: Sequence[Sequence[ReplicaId]], first: int = 0) -> list[PartitionState]:
    """Return the states that new partitions would have, from number `first` on."""
    return [
        PartitionState(number, None, [replica.node_id for replica in replicas], (), None)
        for number, replicas in enumerate(placed, first)
    ]


class TopicState(NamedTuple):
    """State of one topic; `config` has every setting, `overrides` only those that were set on the topic."""

    name: str
    topic_id: str
    replication_factor: int
    config: Mapping[str, str]
    overrides: Mapping[str, str]
    created_ms: int
    is_internal: bool
    partitions: Sequence[PartitionState]
