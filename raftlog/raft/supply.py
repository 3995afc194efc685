"""What a leader gives a follower that lacks much and fetches it by itself, over whatever way its driver has for bytes.

The answer is an append like any other, but asked for: the follower decides when it takes the next one, and the leader
keeps nothing for it. It repeats the number of the offer that said to fetch, so acknowledgements match it.
"""

from enum import Enum
from typing import NamedTuple

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.entry import EntryId
from raftlog.raft.messages import AppendRequest
from raftlog.raft.replica import RaftReplica
from raftlog.types import Index, Term


class SupplyRequest(NamedTuple):
    """`member` wants what follows `after`; `term` and `sequence` are those of the offer that it follows."""

    member: ReplicaId
    term: Term
    sequence: int
    after: EntryId
    entries_max: int
    bytes_max: int
    """At least one entry is given, if there is one."""


class Unsupplied(Enum):
    """Why there is no answer."""

    NOT_LEADING = "it does not lead in that term"
    TRIMMED = "what follows was trimmed away"
    PARTED = "its log does not have the entry after which more is wanted"


def supply(replica: RaftReplica, wanted: SupplyRequest) -> AppendRequest | Unsupplied:
    """An append behind `wanted.after`, without entries at the log's end. `replica` leads; its log may be damaged.

    Only what the driver has taken over is given: entries before that are not stamped yet.
    """
    if wanted.term != replica.term or not replica.is_hard_state_durable:
        return Unsupplied.NOT_LEADING
    view, after = replica.log.view, wanted.after
    if after.index < view.boundary.index:
        return Unsupplied.TRIMMED
    if after.index > view.last_index or view.term_at(after.index) != after.term:
        return Unsupplied.PARTED
    count = min(view.last_index - after.index, wanted.entries_max)
    entries = tuple(view.entries(Index(after.index + 1), count, wanted.bytes_max)) if count else ()
    return AppendRequest(
        replica.me, wanted.member, replica.term, wanted.sequence, after, entries, replica.committed, False
    )
