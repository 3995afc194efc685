"""Report of one replica on itself, for the plan of a recovery, and its encoding."""

from typing import Any, Final

import msgspec

from raftlog.errors import OutcomeUnknown
from raftlog.raft import EntryId, ReplicaId, Role
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import NodeId


class LostEntry(msgspec.Struct, frozen=True, array_like=True):
    """Damaged entry that no other replica could supply; its records are those from `offset` to `end` (exclusive)."""

    offset: int
    end: int
    problem: str


class AbsentReplica(msgspec.Struct, frozen=True, array_like=True):
    """Disk without a replica. `is_renounced`: it will never make a first replica from the creation."""

    replica: ReplicaId
    is_renounced: bool


class ReplicaStatus(msgspec.Struct, frozen=True, array_like=True):
    """State of a replica. `last`: id of its last entry; `vote_floor`: its voting position, if that is later."""

    replica: ReplicaId
    term: int
    leads: bool
    """Whether it leads, and has committed in its term."""
    leader: NodeId | None
    last: EntryId
    vote_floor: EntryId
    log_start: int
    log_end: int
    voters: tuple[ReplicaId, ...]
    outgoing: tuple[ReplicaId, ...]
    damage: str | None
    lost: tuple[LostEntry, ...] | None
    """Damaged entries; None while the replica still searches for damage."""

    @property
    def may_lead(self) -> bool:
        """Whether the replica may campaign: it is a voter without damage and lost entries."""
        return self.damage is None and self.vote_floor == self.last and self.replica in (*self.voters, *self.outgoing)

    @property
    def is_empty(self) -> bool:
        """Whether its log has no entry: it is new, or its files were moved to `damaged/`."""
        return self.last.index == 0


def status_of(replica: ReplicaId, group: PartitionReplica) -> ReplicaStatus:
    """Return the state of a replica of this process."""
    core, log = group.core, group.log
    configuration = core.configuration
    last = core.last_id
    lost = core.voting_position
    floor = lost if lost is not None and (lost.term, lost.index) > (last.term, last.index) else last
    damaged = group.damaged if group.damage is not None else ()
    return ReplicaStatus(
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


def pack_status(status: ReplicaStatus | AbsentReplica) -> list[Any]:
    """Return the report as numbers, text, bytes and lists."""
    rows: list[Any] = msgspec.msgpack.decode(_ENCODER.encode(status))
    return rows


def unpack_status(raw: Any) -> ReplicaStatus | AbsentReplica:
    """Return the report in an answer. Raises `OutcomeUnknown` if it is malformed."""
    try:
        if type(raw[1]) is bool:  # a status has the term there
            return msgspec.convert(raw, AbsentReplica)
        return msgspec.convert(raw, ReplicaStatus)
    except (msgspec.ValidationError, TypeError, IndexError) as error:
        raise OutcomeUnknown(f"an answer about a replica cannot be read: {error}") from None
