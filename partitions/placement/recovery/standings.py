"""What one replica of a group says of itself, for the plan of a recovery; and how that travels."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from raftlog.errors import OutcomeUnknown
from raftlog.raft import EntryId, ReplicaId, Role
from raftlog.runtime.replica.group import Group
from raftlog.runtime.rpc.calls import row_of
from raftlog.types import Index, NodeId, Term


class LostEntry(NamedTuple):
    """A damaged entry that no other replica could give: its records are those from `offset` to `end`, exclusive."""

    offset: int
    end: int
    problem: str


class Absent(NamedTuple):
    """A disk that has no replica. `is_told`: it never makes a first one as the creation says it."""

    replica: ReplicaId
    is_told: bool


class ReplicaStanding(NamedTuple):
    """A replica as it stands. `last` is the id of its last entry, `vote_floor` what it votes by, if that is later."""

    replica: ReplicaId
    term: int
    leads: bool
    """It leads, and has committed in its term."""
    leader: NodeId | None
    last: EntryId
    vote_floor: EntryId
    log_start: int
    log_end: int
    voters: tuple[ReplicaId, ...]
    outgoing: tuple[ReplicaId, ...]
    damage: str | None
    lost: tuple[LostEntry, ...] | None
    """`None` while it still looks for what is damaged."""

    @property
    def may_lead(self) -> bool:
        """Nothing keeps it from campaigning."""
        return self.damage is None and self.vote_floor == self.last and self.replica in (*self.voters, *self.outgoing)

    @property
    def is_empty(self) -> bool:
        """It has nothing of the group: it gave its copy up, or is new."""
        return self.last.index == 0


def standing_of(replica: ReplicaId, group: Group) -> ReplicaStanding:
    """The replica that this process has."""
    core, log = group.core, group.log
    configuration = core.configuration
    last = core.last_id
    lost = core.voting_position
    floor = lost if lost is not None and (lost.term, lost.index) > (last.term, last.index) else last
    damaged = group.damaged if group.damage is not None else ()
    return ReplicaStanding(
        replica,
        core.term,
        core.role is Role.LEADER and core.has_own_term_commit,
        core.leader.node_id if core.leader is not None else None,
        last,
        floor,
        group.log_start_offset,
        log.next_offset,
        configuration.voters,
        configuration.outgoing,
        None if group.damage is None else str(group.damage),
        None if damaged is None else tuple(LostEntry(each.offset, each.end, str(each.error)) for each in damaged),
    )


def packed(standing: ReplicaStanding | Absent) -> list[Any]:
    """As numbers, text, bytes and lists."""
    if isinstance(standing, Absent):
        return [_packed_replicas([standing.replica])[0], standing.is_told]
    lost = None if standing.lost is None else [list(each) for each in standing.lost]
    return [
        _packed_replicas([standing.replica])[0],
        standing.term,
        standing.leads,
        standing.leader,
        list(standing.last),
        list(standing.vote_floor),
        standing.log_start,
        standing.log_end,
        _packed_replicas(standing.voters),
        _packed_replicas(standing.outgoing),
        standing.damage,
        lost,
    ]


def unpacked(raw: Any) -> ReplicaStanding | Absent:
    """Raises `OutcomeUnknown` for an answer that cannot be read."""
    try:
        if type(raw[1]) is bool:  # a standing has the term there
            return Absent(_replicas([raw[0]])[0], raw[1])
        replica, term, leads, leader, last, floor, start, end, voters, outgoing, damage, lost, *_ = raw
        return ReplicaStanding(
            _replicas([replica])[0],
            int(term),
            bool(leads),
            None if leader is None else NodeId(leader),
            _entry_id(last),
            _entry_id(floor),
            int(start),
            int(end),
            _replicas(voters),
            _replicas(outgoing),
            damage,
            None if lost is None else tuple(row_of(LostEntry, each) for each in lost),
        )
    except (TypeError, ValueError, IndexError) as error:
        raise OutcomeUnknown(f"an answer about a replica that cannot be read: {error}") from None


def _packed_replicas(replicas: Sequence[ReplicaId]) -> list[list[Any]]:
    return [[each.node_id, each.disk_uuid.bytes] for each in replicas]


def _replicas(raw: Any) -> tuple[ReplicaId, ...]:
    return tuple(ReplicaId(NodeId(node), UUID(bytes=disk)) for node, disk in raw)


def _entry_id(raw: Any) -> EntryId:
    index, term = raw
    return EntryId(Index(index), Term(term))
