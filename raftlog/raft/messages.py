"""The messages between the replicas of one Raft group.

Each has the voter identities of sender and receiver and the sender's term. Answers repeat the `sequence` of their
request, and pre-votes and votes are different types, so a late, duplicated or misdirected answer is recognised. The
envelope names the Raft group, and packs the heartbeats of many Raft groups into one message."""

from typing import NamedTuple, TypeAlias

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.entry import Entry, EntryId
from raftlog.types import Index, Term


class AppendRequest(NamedTuple):
    """Request to append entries after `previous`.

    `committed` is the leader's commit index; it does not apply to entries of the receiver after those sent here."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    previous: EntryId
    entries: tuple[Entry, ...]
    committed: Index
    is_probe: bool = False
    """Whether the leader still looks for the last common entry: answer at once, not only when durable."""


class AppendResponse(NamedTuple):
    """Answer to an append. The sender's log equals the leader's up to `verified`; `durable ≤ written ≤ verified`.

    `written` equals `durable` here and is part of the format only. In a refusal, `hint` is the last entry of the sender
    that may be in the leader's log; no later one is."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    is_accepted: bool
    verified: Index
    written: Index
    durable: Index
    hint: EntryId | None = None


class Heartbeat(NamedTuple):
    """Heartbeat of a leader. `committed` never exceeds the entries that the receiver is known to hold durably.

    `sequence` 0 needs no answer (a mere notice of the commit). `quiesce_at` is the last entry of a Raft group that may
    quiesce; with `must_quiesce` all members have agreed, and the receiver quiesces now."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    committed: Index
    quiesce_at: EntryId | None = None
    must_quiesce: bool = False


class HeartbeatResponse(NamedTuple):
    """Answer to a heartbeat.

    `verified` is the last index up to which appends of this term have shown that the sender's log equals the leader's;
    `durable ≤ verified`."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    verified: Index
    durable: Index
    may_quiesce: bool = False
    is_quiesced: bool = False


class PreVoteRequest(NamedTuple):
    """Request for a promise to vote in `campaign_term`. Changes no vote (thesis 9.6)."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    campaign_term: Term
    last: EntryId


class PreVoteResponse(NamedTuple):
    """Answer to a pre-vote; `term` is the sender's, which updates a candidate that is behind."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    campaign_term: Term
    is_granted: bool


class VoteRequest(NamedTuple):
    """Request for a vote in `term`.

    In a transfer the leader itself requested the election, so voters that are in contact with it vote as well."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    last: EntryId
    is_transfer: bool = False


class VoteResponse(NamedTuple):
    """Answer to a request for a vote."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    is_granted: bool


class TimeoutNow(NamedTuple):
    """Request of the leader to campaign at once (thesis 3.10)."""

    sender: ReplicaId
    to: ReplicaId
    term: Term


class ReadIndexRequest(NamedTuple):
    """Request of a replica that does not lead for the index that a linearizable read must wait for (thesis 6.4)."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int


class ReadIndexResponse(NamedTuple):
    """Answer to a read; `index` is None when the leader has no room for another one."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    index: Index | None  # type: ignore[assignment]  # tuple.index is never wanted here


class InstallOffer(NamedTuple):
    """Request to fetch the missing entries: they are many, or the leader has trimmed some (up to `boundary`)."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    boundary: EntryId
    committed: Index


class InstallResponse(NamedTuple):
    """Answer to an offer: whether the durable log reaches the offered boundary; if so, it ends at `last_index`."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    boundary: EntryId
    is_reached: bool
    last_index: Index


class Wake(NamedTuple):
    """Request to end quiescence and monitor the leader, which may have failed. Changes no term."""

    sender: ReplicaId
    to: ReplicaId
    term: Term


class WakeResponse(NamedTuple):
    """Answer to a wake; the sender of the wake then stops repeating it."""

    sender: ReplicaId
    to: ReplicaId
    term: Term


Message: TypeAlias = (
    AppendRequest
    | AppendResponse
    | Heartbeat
    | HeartbeatResponse
    | PreVoteRequest
    | PreVoteResponse
    | VoteRequest
    | VoteResponse
    | TimeoutNow
    | ReadIndexRequest
    | ReadIndexResponse
    | InstallOffer
    | InstallResponse
    | Wake
    | WakeResponse
)

FROM_LEADER = frozenset({AppendRequest, Heartbeat, InstallOffer, TimeoutNow})
"""Messages whose sender leads, or led, in their term."""
FROM_MEMBER = frozenset(
    {
        AppendResponse,
        HeartbeatResponse,
        PreVoteResponse,
        VoteResponse,
        ReadIndexRequest,
        InstallResponse,
    }
)
"""Messages of which those in a later term are accepted only from members: a removed replica must not depose a leader.
"""
