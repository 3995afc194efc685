"""Answers about consumer groups: membership, committed offsets, and the objects of Confluent's v3 API.

Bytes (subscriptions, assignments) are base64 in JSON. A coordinator answers other brokers with compact forms of the
same declarations (`partitions.groups.results`).
"""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from raftlog.types import Offset, TopicPartition
from raftlog.values.v3 import Related, V3Object
from raftlog.values.value import Count, NodeNumber, Value

KnownOffset: TypeAlias = Annotated[int, Meta(ge=-1, description="-1: not known.")]
GroupStateName: TypeAlias = Literal["EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE", "DEAD", "UNKNOWN"]


class GroupMember(Value, frozen=True):
    """Group member in the list for the group leader. `metadata` is its subscription in Kafka's bytes."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(Value, frozen=True):
    """Result of a join: the generation that began. Only the group leader gets `members`, to assign partitions to them.

    `protocol`: the chosen assignor. `leader`: member id, empty if the coordinator assigns."""

    member_id: str
    generation: Count
    protocol: str
    leader: str
    members: Sequence[GroupMember] = ()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.member_id


class Synced(Value, frozen=True):
    """Result of a sync: a member's assignment in its generation, in Kafka's bytes (decoded by `raftlog.assignors`)."""

    assignment: bytes
    generation: Count
    protocol: str


class HeartbeatResult(Value, frozen=True):
    """Result of an accepted heartbeat that requires no action."""


class Left(Value, frozen=True):
    """Result of the removal of one group member; `error` is None if it was removed."""

    member_id: str
    instance_id: str | None
    error_code: Count | None = None
    error: str | None = None


class LeaveResults(Value, frozen=True):
    """Results of removals of group members, in the order of the request."""

    members: Sequence[Left]


class CommittedPartition(Value, frozen=True):
    """Next offset that a group reads in a partition; `metadata` is a text of the committer."""

    topic: str
    partition: NodeNumber
    offset: Offset
    metadata: str = ""
    leader_epoch: Count | None = None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class UnstablePartition(Value, frozen=True):
    """Partition whose committed offset an open transaction may change."""

    topic: str
    partition: NodeNumber


class GroupOffsets(Value, frozen=True):
    """Offsets that a consumer group committed.

    `unstable`: partitions whose offset, or first offset, is in a transaction that has not ended (KIP-447)."""

    offsets: Sequence[CommittedPartition]
    unstable: Sequence[UnstablePartition] | UnsetType = UNSET


class OffsetReset(Value, frozen=True):
    """Result of a reset of the committed offset of one partition.

    `before`: None if no offset was committed. `clamped`: the requested offset is outside the log, and the nearest
    offset of the log is used."""

    topic: str
    partition: NodeNumber
    before: Offset | None
    after: Offset
    clamped: bool

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetsReset(Value, frozen=True):
    """Result of a reset of committed offsets, by partition."""

    offsets: Sequence[OffsetReset]
    dry_run: bool = False


class GroupNames(Value, frozen=True):
    """Names of all consumer groups."""

    groups: Sequence[str]


# objects of v3


class GroupObject(V3Object, frozen=True, kw_only=True):
    """Base of v3 objects about consumer groups, with their common fields."""

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
    """Partition that is assigned to a group member."""

    topic_name: str
    partition_id: NodeNumber


class ConsumerDescription(GroupObject, frozen=True, kw_only=True):
    """Group member with its partitions."""

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
    """One partition that is assigned to a group member."""

    member_id: str = field(name="consumer_id")
    topic_name: str
    partition_id: NodeNumber
    partition: Related
    lag: Related


class PartitionLag(GroupObject, frozen=True, kw_only=True):
    """Lag of a group in one partition, and the member that reads it, if any. Unknown numbers are -1."""

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
        return _none_if_negative(self.committed)

    @property
    def log_end_offset(self) -> Offset | None:
        return _none_if_negative(self.end)

    @property
    def lag(self) -> int | None:
        """Number of records after the committed offset; None if unknown."""
        return _none_if_negative(self.records)


class GroupLagSummary(GroupObject, frozen=True, kw_only=True):
    """Highest lag of a group, and the total lag; empty if the group has no partition."""

    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: KnownOffset
    max_lag: Count
    total_lag: Count
    max_lag_consumer: Related | None
    max_lag_partition: Related | None


def _none_if_negative(offset: int) -> Offset | None:
    """Return the offset; None for a negative number, which means unknown."""
    return None if offset < 0 else Offset(offset)
