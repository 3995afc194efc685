"""Appends that a follower fetches because it lacks many entries, over any byte channel of its driver.

The answer is an append like any other, but the follower requests it when it is ready, so the leader keeps no state for
it. The append repeats the `sequence` of the leader's offer, so acknowledgements match that request."""

from enum import Enum
from typing import NamedTuple

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.entry import EntryId
from raftlog.raft.messages import AppendRequest
from raftlog.raft.replica import RaftReplica
from raftlog.types import Index, Term


class SupplyRequest(NamedTuple):
    """Request for the entries after `after`; `term` and `sequence` are those of the offer."""

    member: ReplicaId
    term: Term
    sequence: int
    after: EntryId
    entries_max: int
    bytes_max: int
    """Maximum number of bytes of the answer; if there is an entry, the answer has at least one."""


class SupplyRefusal(Enum):
    """Reason why a replica does not return the entries that a follower fetches."""

    NOT_LEADING = "it does not lead in that term"
    TRIMMED = "what follows was trimmed away"
    LOG_MISMATCH = "its log does not have the entry that precedes the requested ones"


def supply(replica: RaftReplica, wanted: SupplyRequest) -> AppendRequest | SupplyRefusal:
    """Return an append after `wanted.after`; without entries if the log ends there.

    `replica` leads; its log may be damaged. The append has only entries that the stored log holds: entries that the
    driver has not taken yet have no timestamp."""
    if wanted.term != replica.term or not replica.is_hard_state_durable:
        return SupplyRefusal.NOT_LEADING
    view, after = replica.log.view, wanted.after
    if after.index < view.boundary.index:
        return SupplyRefusal.TRIMMED
    if after.index > view.last_index or view.term_at(after.index) != after.term:
        return SupplyRefusal.LOG_MISMATCH
    count = min(view.last_index - after.index, wanted.entries_max)
    entries = tuple(view.entries(Index(after.index + 1), count, wanted.bytes_max)) if count else ()
    return AppendRequest(
        replica.me, wanted.member, replica.term, wanted.sequence, after, entries, replica.committed, False
    )
