"""What one replica of a group says of itself, for the plan of a recovery; and how that travels."""

from typing import Any, Final

import msgspec

from raftlog.errors import OutcomeUnknown
from raftlog.raft import EntryId, ReplicaId, Role
from raftlog.runtime.replica.group import Group
from raftlog.types import NodeId


class LostEntry(msgspec.Struct, frozen=True, array_like=True):
    """A damaged entry that no other replica could give: its records are those from `offset` to `end`, exclusive."""

    offset: int
    end: int
    problem: str


class Absent(msgspec.Struct, frozen=True, array_like=True):
    """A disk that has no replica. `is_told`: it never makes a first one as the creation says it."""

    replica: ReplicaId
    is_told: bool


class ReplicaStanding(msgspec.Struct, frozen=True, array_like=True):
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


_ENCODER: Final = msgspec.msgpack.Encoder(uuid_format="bytes")


def packed(standing: ReplicaStanding | Absent) -> list[Any]:
    """As numbers, text, bytes and lists."""
    rows: list[Any] = msgspec.msgpack.decode(_ENCODER.encode(standing))
    return rows


def unpacked(raw: Any) -> ReplicaStanding | Absent:
    """Raises `OutcomeUnknown` for an answer that cannot be read."""
    try:
        if type(raw[1]) is bool:  # a standing has the term there
            return msgspec.convert(raw, Absent)
        return msgspec.convert(raw, ReplicaStanding)
    except (msgspec.ValidationError, TypeError, IndexError) as error:
        raise OutcomeUnknown(f"an answer about a replica that cannot be read: {error}") from None
