"""What the core wants done (`Ready`), what it starts from (`Restart`), and what it answers to a request.

The driver does the parts of a Ready in this order:

    1. at once, before the core is called again:  `cut_to`, then `entries`, into the stored log
    2. begin to make hard state, cut and entries durable
    3. send `messages_now`; apply `apply`; answer `reads`
    4. when this Ready and all before it are durable:  send `messages_once_durable`, then `advance(durable=number)`

The next Ready may be taken before step 4; then one sync can serve both. The leader's appends are in `messages_now`: it
replicates while it syncs, and counts itself when it hears that it is durable. Votes, and every message of a term that
is not durable yet, are in `messages_once_durable`.
"""

from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from raftlog.raft.configuration import Configuration, ReplicaId
from raftlog.raft.entry import Entry, EntryId
from raftlog.raft.messages import InstallOffer, Message
from raftlog.types import Index, Term


class Role(Enum):
    """What a replica is. A learner is a follower without a vote."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class HardState(NamedTuple):
    """What must survive a crash before anybody hears of it. One vote per term; terms never fall."""

    term: Term
    vote: ReplicaId | None


class RoleState(NamedTuple):
    """Role, term and known leader, and why they became so (for people)."""

    role: Role
    term: Term
    leader: ReplicaId | None
    why: str


class IndexRange(NamedTuple):
    """Entries `first` to `last`, both included."""

    first: Index
    last: Index


class ReadReady(NamedTuple):
    """A read that may be served from the applied state now; everything acknowledged before it was asked is in there."""

    request: Hashable
    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here


class Ready(NamedTuple):
    """One turn's work. Nothing in it changes afterwards."""

    number: int
    """Counts Readys from 1; the driver reports durability by it."""
    hard_state: HardState | None
    cut_to: Index | None
    """The stored log keeps what is at or below; never below what is committed."""
    entries: tuple[Entry, ...]
    must_sync: bool
    """Hard state, cut or entries are there. A commit alone forces no sync."""
    messages_now: tuple[Message, ...]
    messages_once_durable: tuple[Message, ...]
    committed_index: Index
    """A hint worth keeping; at a restart it is at most the log's end. It may get lost, but it must not become durable
    before the cuts and entries of this Ready and those before: else it vouches for entries that were cut."""
    apply: IndexRange | None
    """Committed entries, durable here, to apply in order; report with `advance(applied=…)`."""
    reads: tuple[ReadReady, ...]
    reads_failed: tuple[Hashable, ...]
    """Definitely not served; ask again, here or where the leader is now."""
    role_state: RoleState | None
    """When role, term or leader changed."""
    install_offer: InstallOffer | None
    """What we lack is to be fetched. If the leader's log begins above ours, its beginning first, which takes the place
    of our log (`install`); then its entries, as the appends that its core supplies."""


class Restart(NamedTuple):
    """What storage knows when a replica starts. The log itself is handed in beside it."""

    hard_state: HardState
    configurations: tuple[Configuration, ...]
    """Ascending: the one that held at the log's start, and all above it."""
    committed_hint: Index = Index(0)
    applied_index: Index = Index(0)
    """What the state machine has already."""
    voting_position: EntryId | None = None
    """Id of the entry that a quarantined replica lost at its log's end."""
    is_quarantined: bool = False


class Installed(NamedTuple):
    """A log that was fetched as files and took the place of the replica's own; all of it is durable."""

    configurations: tuple[Configuration, ...]
    committed_index: Index
    applied_index: Index


class Accepted(NamedTuple):
    """Appended, in `term`, at these indexes. What became of it is known once an entry, this or another, is applied at
    its index; a cut of the log leaves it unknown."""

    term: Term
    first_index: Index
    last_index: Index


class RefusalReason(Enum):
    """Why nothing was done. Each is definite: it did not and will not happen."""

    NOT_LEADER = "this replica does not lead"
    TRANSFERRING = "leadership is being handed over"
    OVERLOADED = "too much is waiting already"
    CHANGE_PENDING = "another configuration change is not finished"
    NOT_COMMITTED_IN_TERM = "the leader has not committed an entry of its term yet"
    STALE_CHANGE = "the change was decided upon another configuration than the one that holds"
    INVALID_CHANGE = "the members named cannot form a configuration"
    NO_SUCH_VOTER = "the target is not another voter of the configuration that holds"
    NOT_CAUGHT_UP = "the target is not caught up"


class RefusedProposal(NamedTuple):
    """A refusal, and who leads as far as known."""

    why: RefusalReason
    leader: ReplicaId | None
    detail: str = ""


class FollowerStatus(NamedTuple):
    """How far a leader knows a member to be."""

    member: ReplicaId
    state: str
    match_index: Index
    next_index: Index
    is_active: bool
    """Heard from in this period of CheckQuorum, or in the one before."""
    lag_ticks: int = 0
    """It holds everything that was committed so many ticks ago, as far as the leader knows; 0: it lacks nothing."""


class Status(NamedTuple):
    """A picture of one replica, for people, metrics and tests."""

    me: ReplicaId
    role: Role
    term: Term
    vote: ReplicaId | None
    leader: ReplicaId | None
    last: EntryId
    durable_index: Index
    committed_index: Index
    applied_index: Index
    configuration: Configuration
    is_asleep: bool
    is_quarantined: bool
    followers: tuple[FollowerStatus, ...]
    is_handing_over: bool
    """It leads, and takes nothing because another one is about to lead."""
