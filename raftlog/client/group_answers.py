"""What a broker says of consumer groups, as values."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from raftlog.types import Offset, TopicPartition


class Membership(NamedTuple):
    """Who speaks for a group: what a join answered. `instance_id` is that of a static member (KIP-345)."""

    member_id: str
    generation: int
    instance_id: str | None = None


class GroupMember(NamedTuple):
    """A member as the leader of its group is told of it. `metadata` is its subscription in Kafka's bytes."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """A generation that began. `members` is told only to the leader, who assigns partitions to all of them."""

    member_id: str
    generation: int
    protocol: str
    leader: str
    members: Sequence[GroupMember]

    @property
    def is_leader(self) -> bool:
        return self.leader == self.member_id


class Synced(NamedTuple):
    """What a member was assigned in its generation, in Kafka's bytes (`raftlog.assignors` reads them)."""

    assignment: bytes
    generation: int
    protocol: str


class Left(NamedTuple):
    """What became of one member of a leave; `error` is None where it left."""

    member_id: str
    instance_id: str | None
    error_code: int | None
    error: str | None


class CommittedOffset(NamedTuple):
    """The next offset that the group will read. `metadata` is at most 4 KiB of the committer's own text."""

    offset: Offset
    metadata: str = ""
    leader_epoch: int | None = None


class OffsetReset(NamedTuple):
    """What a reset does to one partition: `before` is None where nothing was committed; `clamped` where what was asked
    for lies outside the log, and its nearest end was taken."""

    place: TopicPartition
    before: Offset | None
    after: Offset
    clamped: bool


class GroupDescription(NamedTuple):
    """A group as its coordinator has it. `state` is one of EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE
    and DEAD; `coordinator` is a node id."""

    group: str
    state: str
    is_simple: bool
    partition_assignor: str
    generation: int
    coordinator: int | None


class ConsumerDescription(NamedTuple):
    """A member of a group with the partitions that it has."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: list[TopicPartition]


class PartitionLag(NamedTuple):
    """How far a group is in one partition, and who reads it. Numbers are None where they are not known: nothing was
    committed, or nobody leads the partition."""

    place: TopicPartition
    current_offset: Offset | None
    log_end_offset: Offset | None
    lag: int | None
    member_id: str
    instance_id: str | None
    client_id: str


def joined(fields: Mapping[str, Any]) -> Joined:
    """From POST /groups/{group}/join."""
    members = [
        GroupMember(row["member_id"], row["instance_id"], base64.b64decode(row["metadata"]))
        for row in fields.get("members", ())
    ]
    return Joined(fields["member_id"], int(fields["generation"]), fields["protocol"], fields["leader"], members)


def synced(fields: Mapping[str, Any]) -> Synced:
    """From POST /groups/{group}/sync."""
    return Synced(base64.b64decode(fields["assignment"]), int(fields["generation"]), fields["protocol"])


def left(row: Mapping[str, Any]) -> Left:
    """From one row of POST /groups/{group}/leave."""
    return Left(row["member_id"], row["instance_id"], row["error_code"], row["error"])


def committed_offsets(fields: Mapping[str, Any]) -> dict[TopicPartition, CommittedOffset]:
    """From GET /groups/{group}/offsets."""
    return {
        TopicPartition(row["topic"], row["partition"]): CommittedOffset(
            Offset(row["offset"]), row.get("metadata") or "", row.get("leader_epoch")
        )
        for row in fields["offsets"]
    }


def offset_reset(row: Mapping[str, Any]) -> OffsetReset:
    """From one row of POST /groups/{group}/offsets/reset."""
    place = TopicPartition(row["topic"], row["partition"])
    return OffsetReset(place, _offset(row["before"]), Offset(row["after"]), bool(row["clamped"]))


def group_description(fields: Mapping[str, Any]) -> GroupDescription:
    """From a KafkaConsumerGroup of v3."""
    related = (fields["coordinator"] or {}).get("related", "")
    node = related.rpartition("/")[2]
    return GroupDescription(
        fields["consumer_group_id"],
        fields["state"],
        bool(fields["is_simple"]),
        fields["partition_assignor"],
        int(fields["generation"]),
        int(node) if node.isdecimal() else None,
    )


def consumer_description(fields: Mapping[str, Any]) -> ConsumerDescription:
    """From a KafkaConsumer of v3."""
    places = [TopicPartition(row["topic_name"], row["partition_id"]) for row in fields["partitions"]]
    return ConsumerDescription(
        fields["consumer_id"], fields["instance_id"], fields["client_id"], fields["client_host"], places
    )


def partition_lag(fields: Mapping[str, Any]) -> PartitionLag:
    """From a KafkaConsumerLag of v3."""
    return PartitionLag(
        TopicPartition(fields["topic_name"], fields["partition_id"]),
        _offset(fields["current_offset"]),
        _offset(fields["log_end_offset"]),
        _offset(fields["lag"]),
        fields["consumer_id"],
        fields["instance_id"],
        fields["client_id"],
    )


def _offset(value: int | None) -> Offset | None:
    """v3 has -1 where nothing is known, its other half null."""
    return None if value is None or value < 0 else Offset(value)
