"""What the façade of groups answers, and what it is asked. Values only; called by every face of the broker."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftlog.errors import RaftlogError
from raftlog.types import Offset, TopicPartition


class OffsetCommit(NamedTuple):
    """What is to be committed for one partition. `leader_epoch` −1: not said; `metadata`: at most 4 KiB of UTF-8."""

    offset: Offset
    metadata: str = ""
    leader_epoch: int = -1


class CommittedOffset(NamedTuple):
    """What is committed for one partition; `committed_ms` by the clock of the leader that took it, 0: not known."""

    offset: Offset
    metadata: str = ""
    leader_epoch: int = -1
    committed_ms: int = 0


class MemberIdentity(NamedTuple):
    """Who commits, when a member does; `instance_id` of static members (KIP-345)."""

    member_id: str
    generation: int
    instance_id: str | None = None


class MemberDescription(NamedTuple):
    """One member. `assignment`: what it may read, by topic, sorted; empty while the group rebalances."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Mapping[str, Sequence[int]]


class GroupListing(NamedTuple):
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


class GroupDescription(NamedTuple):
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


class PartitionLag(NamedTuple):
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


class OffsetReset(NamedTuple):
    """One partition of a reset. `before` −1: nothing was committed. `clamped`: it lay outside the log."""

    topic: str
    partition: int
    before: int
    after: int
    clamped: bool


class Left(NamedTuple):
    """What became of one member that leaves; `error` is None once it is out."""

    member_id: str
    instance_id: str | None
    error: RaftlogError | None


Committed = Mapping[TopicPartition, CommittedOffset]
"""By topic and partition, topics that exist only."""
