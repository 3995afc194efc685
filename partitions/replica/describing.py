"""A picture of one replica, for metadata answers, health and operators."""

from typing import NamedTuple

from raftlog.partitions.replica.appending import active_members
from raftlog.raft import Role
from raftlog.runtime.group import Group
from raftlog.types import NodeId, Offset


class ReplicaDescription(NamedTuple):
    """A replica as it knows itself. `is_ready`: it leads, and knows where the log ends that clients see."""

    leader: NodeId | None
    term: int
    is_ready: bool
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    size_bytes: int
    in_sync: tuple[NodeId, ...] | None
    """Voters that were heard lately and hold durably what is committed, ascending; only the leader knows."""
    problem: str | None
    """Why it cannot be written, or what of it cannot be read."""


def describe(group: Group) -> ReplicaDescription:
    core = group.core
    return ReplicaDescription(
        core.leader.node_id if core.leader else None,
        core.term,
        core.has_own_term_commit,
        group.high_watermark,
        group.log_start_offset,
        group.log_end_offset,
        group.log.segments.size_bytes,
        _in_sync(group) if core.role is Role.LEADER else None,
        _problem(group),
    )


def _in_sync(group: Group) -> tuple[NodeId, ...]:
    status = group.core.status()
    holding = {each.member for each in status.followers if each.match_index >= status.committed_index} | {status.me}
    voters = status.configuration.voters
    return tuple(sorted(each.node_id for each in active_members(status) if each in holding and each in voters))


def _problem(group: Group) -> str | None:
    if group.closed_by is not None:
        return f"it stopped: {group.closed_by}"
    if group.damage is not None:
        return f"it is damaged: {group.damage}"
    return "the disk is full" if group.is_disk_full else None
