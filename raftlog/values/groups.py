"""Answers about consumer groups: membership, committed offsets, and the objects of Confluent's v3 API.

Bytes (subscriptions, assignments) are base64 in JSON. A coordinator answers other brokers with compact forms of the
same declarations (`partitions.groups.results`).
"""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from raftlog.types import Offset, TopicPartition
from raftlog.values.v3 import Related, V3Object
from raftlog.values.value import Count, NodeNumber, Value

KnownOffset: TypeAlias = Annotated[int, Meta(ge=-1, description="-1: not known.")]
GroupStateName: TypeAlias = Literal["EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE", "DEAD", "UNKNOWN"]


class GroupMember(Value, frozen=True):
    """Member as the leader of its group sees it. `metadata` is its subscription in Kafka's bytes."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(Value, frozen=True):
    """Generation that began. `members` are given only to the leader, which assigns partitions to all of them.

    `protocol`: the assignor that was chosen. `leader`: member id, empty where the coordinator assigns."""

    member_id: str
    generation: Count
    protocol: str
    leader: str
    members: Sequence[GroupMember] = ()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.member_id


class Synced(Value, frozen=True):
    """Assignment of a member in its generation, in Kafka's bytes (`raftlog.assignors` reads them)."""

    assignment: bytes
    generation: Count
    protocol: str


class HeartbeatTaken(Value, frozen=True):
    """Heartbeat that was taken; there is nothing to do."""


class Left(Value, frozen=True):
    """Result of one member that leaves; `error` is None once it is out."""

    member_id: str
    instance_id: str | None
    error_code: Count | None = None
    error: str | None = None


class MembersLeft(Value, frozen=True):
    """Results by member, in the order of the request."""

    members: Sequence[Left]


class CommittedPartition(Value, frozen=True):
    """Next offset that a group reads in a partition; `metadata` is the committer's own text."""

    topic: str
    partition: NodeNumber
    offset: Offset
    metadata: str = ""
    leader_epoch: Count | None = None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class GroupOffsets(Value, frozen=True):
    """Offsets that a group committed."""

    offsets: Sequence[CommittedPartition]


class OffsetReset(Value, frozen=True):
    """Reset of the committed offset of one partition.

    `before`: None when no offset was committed. `clamped`: the requested offset lies outside the log, and the
    nearest offset of the log is used."""

    topic: str
    partition: NodeNumber
    before: Offset | None
    after: Offset
    clamped: bool

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetsReset(Value, frozen=True):
    """Resets by partition."""

    offsets: Sequence[OffsetReset]
    dry_run: bool = False


class GroupNames(Value, frozen=True):
    """Names of all groups."""

    groups: Sequence[str]


# objects of v3


class GroupObject(V3Object, frozen=True, kw_only=True):
    """Fields that all objects about groups have."""

    group: str = field(name="consumer_group_id", default="")


class GroupDescription(GroupObject, frozen=True, kw_only=True):
    """Consumer group, as its coordinator reports it. `is_simple`: it never had members, only committed offsets."""

    is_simple: bool
    partition_assignor: str
    state: GroupStateName
    type: str = "CLASSIC"
    is_mixed_consumer_group: bool = False
    generation: Count
    coordinator_link: Related | None = field(name="coordinator", default=None)
    consumers: Related | None = None
    lag_summary: Related | None = None

    @property
    def coordinator(self) -> int | None:
        """Node id of the coordinator."""
        node = "" if self.coordinator_link is None else self.coordinator_link.related.rpartition("/")[2]
        return int(node) if node.isdecimal() else None


class GroupPartition(Value, frozen=True):
    """Partition of a member."""

    topic_name: str
    partition_id: NodeNumber


class ConsumerDescription(GroupObject, frozen=True, kw_only=True):
    """Member of a group with the partitions that it has."""

    member_id: str = field(name="consumer_id")
    instance_id: str | None
    client_id: str
    client_host: str
    partition_rows: Sequence[GroupPartition] = field(name="partitions")
    assignments: Related | None = None

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(each.topic_name, each.partition_id) for each in self.partition_rows]


class ConsumerAssignment(GroupObject, frozen=True, kw_only=True):
    """One partition of a member."""

    member_id: str = field(name="consumer_id")
    topic_name: str
    partition_id: NodeNumber
    partition: Related
    lag: Related


class PartitionLag(GroupObject, frozen=True, kw_only=True):
    """Lag of a group in one partition, and the member that reads it, or empty. Nothing committed or no leader: -1."""

    topic_name: str
    partition_id: NodeNumber
    member_id: str = field(name="consumer_id")
    instance_id: str | None
    client_id: str
    committed: KnownOffset = field(name="current_offset")
    end: KnownOffset = field(name="log_end_offset")
    records: KnownOffset = field(name="lag")

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic_name, self.partition_id)

    @property
    def current_offset(self) -> Offset | None:
        return _known(self.committed)

    @property
    def log_end_offset(self) -> Offset | None:
        return _known(self.end)

    @property
    def lag(self) -> int | None:
        return _known(self.records)


class GroupLagSummary(GroupObject, frozen=True, kw_only=True):
    """Greatest lag of a group, and the sum; without a partition all of it is empty."""

    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: KnownOffset
    max_lag: Count
    total_lag: Count
    max_lag_consumer: Related | None
    max_lag_partition: Related | None


def _known(offset: int) -> Offset | None:
    return None if offset < 0 else Offset(offset)
