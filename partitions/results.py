"""What the broker's façade takes and answers."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from raftlog.errors import RaftlogError
from raftlog.types import Offset

Acks: TypeAlias = Literal[-1, 0, 1]
ALL: Acks = -1
"""Answer when the record is as durable as the topic's flush policy says; the meaning of every produce."""


class RecordResult(NamedTuple):
    """What became of one record: its offset, or the error. With `acks=0` neither is known."""

    partition: int | None
    offset: int | None
    error: RaftlogError | None
    is_duplicate: bool = False
    """It was appended before: an idempotent producer asked again."""


class Produced(NamedTuple):
    """Where the batches of one request stand; `base_offset` is -1 with `acks=0`.

    `topic_id` is told by the broker that was asked, as in `Fetched`."""

    base_offset: Offset
    next_offset: Offset
    leader_epoch: int
    high_watermark: Offset
    is_duplicate: bool = False
    """All of it was appended before, and the answer is that of then: an idempotent producer asked again."""
    topic_id: UUID | None = None


class ProducerSequence(NamedTuple):
    """What an idempotent producer says of the records of a call; `sequence` is that of the first one."""

    producer_id: int
    producer_epoch: int
    sequence: int


class Fetched(NamedTuple):
    """Stored batches as they stand, each a view of one batch, and the bounds of the log when they were read.

    `topic_id` is told by the broker that was asked: a name may have gone to another topic meanwhile."""

    batches: list[memoryview]
    high_watermark: Offset
    log_start_offset: Offset
    leader_epoch: int
    topic_id: UUID | None = None


class ReplicaLag(NamedTuple):
    """What a replica lacks of its leader's log; `bytes` is about, and without what the leader has in memory.

    `bytes_per_s` is what it fetches by itself now.
    """

    node_id: int
    entries: int
    bytes: int
    bytes_per_s: int


class PartitionState(NamedTuple):
    """One partition as its leader sees it; `problem` says why it cannot be written or read.

    Without a leader that answers, `leader` is None, nobody is known to be in sync, and the offsets are None.
    """

    partition: int
    leader: int | None
    replicas: Sequence[int]
    in_sync: Sequence[int]
    problem: str | None
    leader_epoch: int | None = None
    high_watermark: Offset | None = None
    log_start_offset: Offset | None = None
    behind: Sequence[ReplicaLag] = ()
    """Replicas of which it is known how much they lack."""
    damaged: Mapping[int, str] = {}
    """Node ids of quarantined replicas, with file, position and offset, and how far their repair is."""
    version: int | None = None
    """Of its assignment: what an order about its replicas is compared with. None for a topic that is not there yet."""
    caught_up: Sequence[int] = ()
    """Those in sync that hold everything committed at this moment."""


class TopicState(NamedTuple):
    """One topic; `config` holds every setting, `overrides` only those that were set on the topic."""

    name: str
    topic_id: str
    replication_factor: int
    config: Mapping[str, str]
    overrides: Mapping[str, str]
    created_ms: int
    is_internal: bool
    partitions: Sequence[PartitionState]
