"""The messages between the replicas of one group.

Each names sender and receiver by voter identity and carries the sender's term. Answers repeat the `sequence` of what
they answer, and pre-votes and votes are different types, so a late, doubled or misdirected answer is known for what it
is. Which group it is about is the envelope's business, as is packing the heartbeats of many groups into one message.
"""

from typing import NamedTuple, TypeAlias

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.entry import Entry, EntryId
from raftlog.types import Index, Term


class AppendRequest(NamedTuple):
    """Entries behind `previous`. `committed` is the leader's; what follows it here is not known to be committed."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    previous: EntryId
    entries: tuple[Entry, ...]
    committed: Index
    is_probe: bool = False
    """The leader does not know yet where the logs part: answer at once, not only when durable."""


class AppendResponse(NamedTuple):
    """How far the sender's log agrees with the leader's: `durable ≤ written ≤ verified`.

    `written` equals `durable` here and is part of the format only. When refused, `hint` is the last entry of the sender
    that can possibly agree: none above it does.
    """

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
    """The leader is there. `committed` never exceeds what it knows the receiver to hold durably.

    `sequence` 0 wants no answer (a mere notice of the commit). `sleep_at` is the last entry of a group that may sleep;
    with `is_lullaby` everybody has agreed, and it is time.
    """

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    committed: Index
    sleep_at: EntryId | None = None
    is_lullaby: bool = False


class HeartbeatResponse(NamedTuple):
    """`verified ≥ durable`: what agrees with the leader's log, by appends of its term."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    verified: Index
    durable: Index
    agrees_to_sleep: bool = False
    is_asleep: bool = False


class PreVoteRequest(NamedTuple):
    """Would you vote for me in `campaign_term`? Changes nobody's vote (thesis 9.6)."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    campaign_term: Term
    last: EntryId


class PreVoteResponse(NamedTuple):
    """The answer; `term` is the sender's, from which a candidate that is behind learns."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    campaign_term: Term
    is_granted: bool


class VoteRequest(NamedTuple):
    """Vote for me in `term`. In a transfer the leader itself asked for the election, so loyalty does not count."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    last: EntryId
    is_transfer: bool = False


class VoteResponse(NamedTuple):
    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    is_granted: bool


class TimeoutNow(NamedTuple):
    """The leader wants the receiver to take over: campaign at once (thesis 3.10)."""

    sender: ReplicaId
    to: ReplicaId
    term: Term


class ReadIndexRequest(NamedTuple):
    """From which index on is a read current? Asked by replicas that do not lead."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int


class ReadIndexResponse(NamedTuple):
    """`index` is None when the leader has no room for another read."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    index: Index | None  # type: ignore[assignment]  # tuple.index is never wanted here


class InstallOffer(NamedTuple):
    """The receiver lacks much, or what the leader has trimmed away (up to `boundary`): it is to fetch it by itself."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    boundary: EntryId
    committed: Index


class InstallResponse(NamedTuple):
    """Whether the sender's durable log reaches the offered boundary; then `last_index` is where it ends."""

    sender: ReplicaId
    to: ReplicaId
    term: Term
    sequence: int
    boundary: EntryId
    is_reached: bool
    last_index: Index


class Wake(NamedTuple):
    """Nobody keeps the group alive any more, or somebody cannot tell: watch the leader yourself. Changes no term."""

    sender: ReplicaId
    to: ReplicaId
    term: Term


class WakeResponse(NamedTuple):
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
"""Whoever sends one of these leads, or led, in its term."""
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
"""Taken only from replicas that belong to the receiver's configuration: a removed one must not disturb by its term."""
