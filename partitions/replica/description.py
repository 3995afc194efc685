"""Description of one replica, for metadata answers, health and operators."""

from collections.abc import Iterable
from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.partitions.replica.pending_appends import active_members
from raftlog.raft import ReplicaId, Role, Status
from raftlog.raft.ready import FollowerStatus
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index, NodeId, Offset


class Lag(NamedTuple):
    """Entries and bytes that a voter or learner lacks, as known to its leader; the bytes are an estimate."""

    node_id: NodeId
    entries: int
    bytes: int


class ReplicaDescription(NamedTuple):
    """State of a replica, as the replica itself reports it.

    `is_ready`: it leads, and has committed an entry of its term, so that it knows the end of the log."""

    leader: NodeId | None
    term: int
    is_ready: bool
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    size_bytes: int
    in_sync: tuple[NodeId, ...] | None
    """Active voters that hold durably the entries committed `lag_ticks_max` ago, ascending; None at followers.

    For operators: unlike `caught_up` it does not change from commit to commit."""
    caught_up: tuple[NodeId, ...]
    """Nodes of `in_sync` that hold all entries committed at this moment."""
    behind: tuple[Lag, ...]
    """Replicas that lack committed entries, if their lag is known; empty at followers."""
    problem: str | None
    """Reason for which the replica cannot be written or read; None without one."""


def describe(group: PartitionReplica, lag_ticks_max: int) -> ReplicaDescription:
    """Return the description of a replica; `lag_ticks_max` is the lag up to which a voter counts as in sync."""
    core = group.core
    status = core.status() if core.role is Role.LEADER else None
    in_sync = None if status is None else _node_ids(voters_in_sync(status, lag_ticks_max))
    caught_up = in_sync or ()
    if status is not None and any(each.lag_ticks for each in status.followers):
        caught_up = _node_ids(voters_in_sync(status, 0))
    return ReplicaDescription(
        core.leader.node_id if core.leader else None,
        core.term,
        core.has_own_term_commit,
        group.high_watermark,
        group.log_start_offset,
        group.log_end_offset,
        group.log.segments.size_bytes,
        in_sync,
        caught_up,
        () if status is None else _lagging_members(group, status),
        _find_problem(group),
    )


def voters_in_sync(status: Status, lag_ticks_max: int) -> list[ReplicaId]:
    """Return the active voters that hold the entries committed `lag_ticks_max` ticks ago; 0: now.

    A voter that lacks so much that it fetches the entries by itself is not among them."""
    holding = {each.member for each in status.followers if _is_in_sync(each, lag_ticks_max)} | {status.me}
    voters = status.configuration.voters
    return [each for each in active_members(status) if each in holding and each in voters]


def _is_in_sync(follower: FollowerStatus, lag_ticks_max: int) -> bool:
    """Return whether a follower lags by at most `lag_ticks_max` ticks, and not in a catch-up."""
    return follower.lag_ticks == 0 or (follower.lag_ticks <= lag_ticks_max and follower.state != "catch-up")


def _node_ids(members: Iterable[ReplicaId]) -> tuple[NodeId, ...]:
    """Return the node ids of replicas, sorted."""
    return tuple(sorted(member.node_id for member in members))


def _lagging_members(group: PartitionReplica, status: Status) -> tuple[Lag, ...]:
    """Return the lag of each follower without some committed entry, unless it never answered."""
    lacking = [each for each in status.followers if each.match_index < status.committed_index]
    return tuple(_lag(group, each) for each in lacking if each.match_index or each.state != "probe")


def _lag(group: PartitionReplica, follower: FollowerStatus) -> Lag:
    """Return the entries and bytes that a follower lacks."""
    first = Index(max(follower.match_index, group.log.boundary.index) + 1)
    try:
        size = group.log.stored_bytes_from(first)
    except CorruptBatch:
        size = 0  # the read path reports the damage
    return Lag(follower.member.node_id, group.log.last_index - follower.match_index, size)


def _find_problem(group: PartitionReplica) -> str | None:
    """Return the reason for which a replica cannot be written or read, in words; None if there is none."""
    if group.closed_by is not None:
        return f"it stopped: {group.closed_by}"
    if group.damage is not None:
        return f"it is damaged: {group.damage}"
    if (lost := lost_end(group)) is not None:
        return f"it is damaged: {lost}"
    if group.log.lacks_descriptors:
        return "the process has no file descriptors left"
    return "the disk is full" if group.is_disk_full else "; ".join(group.unreadable.values()) or None


def lost_end(group: PartitionReplica) -> str | None:
    """Describe the lost entry that keeps a sound replica from leading; return None without a voting position."""
    lost = group.core.voting_position
    if lost is None:
        return None
    return f"it held entry {lost.index} of term {lost.term}, and its log ends at entry {group.log.last_index} now"
