"""A picture of one process for operators: what it is, what its groups do, how its disk and its peers are."""

from collections.abc import Iterable
from dataclasses import dataclass

from raftlog.raft import Role
from raftlog.runtime.journal import Journal
from raftlog.runtime.node_identity import NodeIdentity
from raftlog.runtime.replica.group import Group
from raftlog.runtime.rpc import PeerStatus


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """led + followed + leaderless = total; the others count groups of either kind."""

    total: int
    led: int
    followed: int
    """Somebody else is known to lead."""
    leaderless: int
    asleep: int
    quarantined: int
    stopped: int
    disk_full: int


@dataclass(frozen=True, slots=True)
class JournalStatus:
    """`live_bytes` would be read by a recovery, `pending_bytes` wait to be written."""

    durable_sequence: int
    live_bytes: int
    pending_bytes: int


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node now. `failure` says why it stopped, `refused_by` which peers do not want it and why."""

    identity: NodeIdentity
    rpc_address: tuple[str, int] | None
    is_running: bool
    """Its groups work: it was started, found a peer if it has any, and did not fail."""
    failure: str | None
    groups: GroupCounts
    damage: tuple[str, ...]
    """File, position and offset of what is damaged, for every quarantined group."""
    stopped: tuple[str, ...]
    """Replicas that stopped, and why."""
    journal: JournalStatus
    peers: tuple[PeerStatus, ...]
    complaints: int
    """Connections to the RPC port that ended because somebody did not belong here."""
    messages_refused: int
    messages_unaddressed: int


def count_groups(groups: Iterable[Group]) -> GroupCounts:
    """Look through all groups."""
    total = led = leaderless = asleep = quarantined = stopped = disk_full = 0
    for group in groups:
        core = group.core
        total += 1
        led += core.role is Role.LEADER
        leaderless += core.leader is None
        asleep += core.is_asleep
        quarantined += group.damage is not None
        stopped += group.stopped is not None
        disk_full += group.is_disk_full
    return GroupCounts(total, led, total - led - leaderless, leaderless, asleep, quarantined, stopped, disk_full)


def damage_of(groups: Iterable[Group]) -> tuple[str, ...]:
    """What is damaged, and how far its repair is, in words."""
    return tuple(text for group in groups if (text := describe_damage(group)) is not None)


def describe_damage(group: Group) -> str | None:
    """The same of one group; None when it is sound."""
    if group.damage is None:
        return None
    return f"{group.damage}; it is being repaired ({group.repair_note or 'just begun'})"


def stopped_of(groups: Iterable[Group]) -> tuple[str, ...]:
    """Return the replicas that stopped, with the reason."""
    return tuple(f"{group.name}: {group.stopped}" for group in groups if group.stopped is not None)


def unreadable_of(groups: Iterable[Group]) -> tuple[str, ...]:
    """Return the replicas that hold what this release does not know."""
    return tuple(f"{group.name}: {group.unreadable}" for group in groups if group.unreadable is not None)


def journal_status(journal: Journal) -> JournalStatus:
    return JournalStatus(journal.durable_sequence, journal.live_bytes, journal.pending_bytes)
