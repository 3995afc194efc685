"""Requests and answers of consumer groups, each declared once for the APIs, the RPC and the machine.

Answers that HTTP returns too are its values, encoded as arrays. Requests have exactly these fields; answers of a later
release may have more. Times are milliseconds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from raftlog.errors import RaftlogError
from raftlog.partitions.groups.records import OffsetRecord, Protocol
from raftlog.types import Offset, TopicPartition
from raftlog.values.groups import GroupMember, Joined, Synced

Place: TypeAlias = tuple[UUID, int]
"""Partition by its topic's uuid."""


class GroupResult(msgspec.Struct, frozen=True, array_like=True):
    """Base class of the answers."""


# membership (Kafka's classic protocol)


class Join(NamedTuple):
    """JoinGroup request. An empty `member_id` requests one; `instance_id` may then name a static member (KIP-345)."""

    group: str
    member_id: str
    protocols: tuple[Protocol, ...]
    """Supported protocols in the order of preference."""
    protocol_type: str = "consumer"
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    can_lead: bool = True
    """Whether the member may be group leader.

    False (`assigned_by` "broker"): its protocols must be assignors of the coordinator."""
    requires_known_id: bool = False
    """KIP-394, JoinGroup from v4 on: a dynamic member without id only receives one, and joins with it."""
    can_skip_assignment: bool = False
    """KIP-814, JoinGroup from v9 on: the client supports `JoinedGeneration.skip_assignment`."""


class JoinedMember(GroupMember, frozen=True, array_like=True):
    """Group member in the answer to the group leader; `metadata` is for the chosen protocol."""


class JoinedGeneration(Joined, frozen=True, array_like=True, tag="Joined"):
    """Answer to a join: the join phase has ended, and its generation is stored."""

    members: tuple[JoinedMember, ...]
    protocol_type: str = "consumer"
    skip_assignment: bool = False
    """Whether a static group leader that rejoined keeps the stored assignment and assigns nothing now (KIP-814)."""


class MemberIdGiven(GroupResult, frozen=True, tag=True):
    """Answer to a first join (Kafka's MEMBER_ID_REQUIRED): rejoin with this id before the session timeout."""

    member_id: str


class Sync(NamedTuple):
    """SyncGroup request. `assignments` by member id come from the group leader; those of other members are ignored."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    protocol_type: str | None = None
    protocol: str | None = None
    """Protocol; checked when given (SyncGroup from v5 on)."""


class SyncedGeneration(Synced, frozen=True, array_like=True):
    """Answer to a sync: the assignments of the generation are stored."""

    protocol_type: str = "consumer"


class GroupHeartbeat(NamedTuple):
    """Heartbeat request.

    With `wait_ms` it is answered when the group begins to rebalance, or after `wait_ms` or half the session timeout."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    wait_ms: int = 0


class MemberToLeave(NamedTuple):
    """Member to remove; a static member can be named by its instance id only (`member_id` "")."""

    member_id: str
    instance_id: str | None = None


class Leave(NamedTuple):
    """Request that removes members from a group (LeaveGroup)."""

    group: str
    members: tuple[MemberToLeave, ...]


class LeftMember(GroupResult, frozen=True):
    """Result of one removal; `error` is None on success, else `UnknownMember` or `FencedInstance`."""

    member_id: str
    instance_id: str | None
    error: RaftlogError | None


# offsets


class OffsetCommit(NamedTuple):
    """Commit of one partition. `leader_epoch` −1: unknown; `metadata`: at most 4 KiB of UTF-8."""

    offset: Offset
    metadata: str = ""
    leader_epoch: int = -1


class MemberIdentity(NamedTuple):
    """Identity of a group member that commits; `instance_id` is for static members (KIP-345)."""

    member_id: str
    generation: int
    instance_id: str | None = None


class CommitOffsets(NamedTuple):
    """Request to commit a group's offsets; `member` is None for a commit without a member."""

    group: str
    offsets: dict[Place, OffsetCommit]
    member: MemberIdentity | None


class TransactionalProducer(NamedTuple):
    """Producer with an open transaction."""

    transactional_id: str
    producer_id: int
    epoch: int


class CommitPendingOffsets(NamedTuple):
    """Request to commit a group's offsets in a transaction; they are pending until its end.

    `joins`: add the group to the transaction; otherwise it must contain the group already."""

    group: str
    offsets: dict[Place, OffsetCommit]
    producer: TransactionalProducer
    member: MemberIdentity
    joins: bool = False


class GroupMarker(NamedTuple):
    """End of a producer's transaction in a group, as decided by the transaction's coordinator."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int
    number: int = 0
    """Number of the transaction; later ones have higher numbers. 0 if it is unknown."""


class EndGroupTransaction(NamedTuple):
    """Request to end a producer's transaction in a group."""

    group: str
    marker: GroupMarker


class StableOffset(NamedTuple):
    """Committed offset of a partition, −1 without one, and whether an open transaction may change it."""

    offset: Offset
    leader_epoch: int
    metadata: str
    committed_ms: int
    is_pending: bool


class OffsetMove(NamedTuple):
    """Request to set the offsets of a group without members, also to lower ones."""

    group: str
    offsets: dict[Place, int]


class TopicOffsets(NamedTuple):
    """Request to delete a group's offsets in one topic."""

    group: str
    topic: str
    topic_id: UUID


class PartitionOffsets(NamedTuple):
    """Request to delete a group's offsets in some partitions of a topic."""

    group: str
    topic: str
    topic_id: UUID
    partitions: tuple[int, ...]


# reads


class MemberDescription(GroupResult, frozen=True):
    """Description of one member. `assignment`: partitions by topic, sorted; empty while the group rebalances."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Mapping[str, Sequence[int]]
    metadata: bytes = b""
    """Subscription for the chosen protocol, in the member's bytes; empty while the group rebalances."""
    assignment_bytes: bytes = b""
    """Assignment in the group leader's bytes; empty while the group rebalances."""


class GroupListing(GroupResult, frozen=True, order=True):
    """Row of the list of groups. `state` by Kafka's name: Empty, PreparingRebalance, CompletingRebalance, Stable.

    `protocol_type`: `consumer`, or empty for a group that only ever committed offsets."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    generation: int
    members: int
    coordinator: int
    """Node id of the coordinator; −1: not known."""


class GroupDetails(GroupResult, frozen=True):
    """Description of one group. `protocol`: chosen assignor, such as `range`; empty without members."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    generation: int
    leader: str
    members: Sequence[MemberDescription]
    coordinator: int
    is_simple: bool
    """Whether the group has no members and never had any: only offsets were committed."""


class LagReport(NamedTuple):
    """Lag of a group in one partition.

    `current_offset` −1: nothing committed; the lag is then the whole partition. `lag` is never negative, except that
    it and the log's bounds are −1 while the partition has no leader. `member`: the owner of the partition, or None."""

    topic: str
    partition: int
    current_offset: int
    log_start_offset: int
    log_end_offset: int
    lag: int
    member: MemberDescription | None


class ResetTo(NamedTuple):
    """Target of an operator's reset; exactly one field is set.

    `earliest` and `latest` are the partition's bounds; `timestamp_ms`: the first record at least that new, or the
    end; `shift` is added to the committed offset; `offset` is used unchanged. The result is clamped to the bounds."""

    edge: str | None = None
    """Bound of the log, `earliest` or `latest`."""
    timestamp_ms: int | None = None
    shift: int | None = None
    offset: int | None = None


Committed = Mapping[TopicPartition, OffsetRecord]
"""Committed offsets by topic and partition, of topics that exist only."""
