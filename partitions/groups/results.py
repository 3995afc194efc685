"""Requests and answers of consumer groups, each declared once: for faces, between brokers and for the machine.

Answers that HTTP shows too are compact forms of its values. Requests have just these fields; answers may have more
where a later release made them. Times are milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from raftlog.errors import RaftlogError
from raftlog.partitions.groups.records import OffsetRecord, Protocol
from raftlog.types import Offset, TopicPartition
from raftlog.values.groups import GroupMember, Joined, Synced

Place: TypeAlias = tuple[UUID, int]
"""A partition by its topic's uuid."""


class GroupResult(msgspec.Struct, frozen=True, array_like=True):
    """An answer."""


# membership (Kafka's classic protocol)


class Join(NamedTuple):
    """JoinGroup. `member_id` "" asks for one (then `instance_id` may name a static member, KIP-345)."""

    group: str
    member_id: str
    protocols: tuple[Protocol, ...]
    """In the order of preference."""
    protocol_type: str = "consumer"
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    can_lead: bool = True
    """False (`assigned_by` "broker"): it never leads; its protocols must be assignors that the coordinator has."""
    requires_known_id: bool = False
    """KIP-394, JoinGroup from v4 on: a dynamic member without id is only given one, and joins with it."""
    can_skip_assignment: bool = False
    """KIP-814, JoinGroup from v9 on: understands `JoinedGeneration.skip_assignment`."""


class JoinedMember(GroupMember, frozen=True, array_like=True):
    """`metadata` is that of the chosen protocol."""


class JoinedGeneration(Joined, frozen=True, array_like=True, tag="Joined"):
    """The join phase is over, and its generation is stored."""

    members: tuple[JoinedMember, ...]
    protocol_type: str = "consumer"
    skip_assignment: bool = False
    """To a static leader that came back: the assignment stands; it leads, but assigns nothing now (KIP-814)."""


class MemberIdGiven(GroupResult, frozen=True, tag=True):
    """Kafka's MEMBER_ID_REQUIRED: join again with this id before the session timeout."""

    member_id: str


class Sync(NamedTuple):
    """SyncGroup. `assignments` by member id, from the leader; the others' is ignored."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    protocol_type: str | None = None
    protocol: str | None = None
    """Checked when given (SyncGroup from v5 on)."""


class SyncedGeneration(Synced, frozen=True, array_like=True):
    """The generation's assignments are stored."""

    protocol_type: str = "consumer"


class GroupHeartbeat(NamedTuple):
    """With `wait_ms`, answered when the group begins to rebalance, or after `wait_ms` or half the session timeout."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    wait_ms: int = 0


class MemberToLeave(NamedTuple):
    """A static member can be named by its instance id alone (`member_id` "")."""

    member_id: str
    instance_id: str | None = None


class Leave(NamedTuple):
    group: str
    members: tuple[MemberToLeave, ...]


class LeftMember(GroupResult, frozen=True):
    """Result of one member that leaves; `error` is None once it is out (`UnknownMember`, `FencedInstance`)."""

    member_id: str
    instance_id: str | None
    error: RaftlogError | None


# offsets


class OffsetCommit(NamedTuple):
    """What is to be committed for one partition. `leader_epoch` −1: not said; `metadata`: at most 4 KiB of UTF-8."""

    offset: Offset
    metadata: str = ""
    leader_epoch: int = -1


class MemberIdentity(NamedTuple):
    """Who commits, when a member does; `instance_id` of static members (KIP-345)."""

    member_id: str
    generation: int
    instance_id: str | None = None


class CommitOffsets(NamedTuple):
    """Offsets of a group that a coordinator commits; `member`: None without one."""

    group: str
    offsets: dict[Place, OffsetCommit]
    member: MemberIdentity | None


class OffsetMove(NamedTuple):
    """Offsets of a group without members that are moved, backwards too."""

    group: str
    offsets: dict[Place, int]


class TopicOffsets(NamedTuple):
    """What a group committed in one topic."""

    group: str
    topic: str
    topic_id: UUID


# looking at groups


class MemberDescription(GroupResult, frozen=True):
    """One member. `assignment`: what it may read, by topic, sorted; empty while the group rebalances."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Mapping[str, Sequence[int]]


class GroupListing(GroupResult, frozen=True, order=True):
    """One row of the list of groups. `state` as Kafka names it: Empty, PreparingRebalance, CompletingRebalance, Stable.

    `protocol_type`: `consumer`, or empty for a group that only ever committed offsets.
    """

    group: str
    state: str
    protocol_type: str
    protocol: str
    generation: int
    members: int
    coordinator: int
    """Node id of the broker that coordinates it; −1: not known."""


class GroupDetails(GroupResult, frozen=True):
    """One group. `protocol`: the assignor that was chosen, such as `range`; empty without members."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    generation: int
    leader: str
    members: Sequence[MemberDescription]
    coordinator: int
    is_simple: bool
    """It has no members and never had any: only offsets were committed."""


class LagReport(NamedTuple):
    """How far a group is behind in one partition.

    `current_offset` −1: nothing committed; the lag is then the whole partition. `lag` never lies below 0, but is −1, as
    the log's bounds are, while nobody leads the partition. `member` owns the partition, if anybody does.
    """

    topic: str
    partition: int
    current_offset: int
    log_start_offset: int
    log_end_offset: int
    lag: int
    member: MemberDescription | None


class ResetTo(NamedTuple):
    """Where an operator moves a group: exactly one of these is set.

    `earliest` and `latest` are the partition's bounds; `timestamp_ms`: the first record at least that new, or the end;
    `shift` is added to what is committed; `offset` is taken as it is. Whatever comes out is clamped to the bounds.
    """

    edge: str | None = None
    """`earliest` or `latest`."""
    timestamp_ms: int | None = None
    shift: int | None = None
    offset: int | None = None


Committed = Mapping[TopicPartition, OffsetRecord]
"""By topic and partition, topics that exist only."""
