"""Output of the core (`Ready`), its start (`Restart`), and its answers to requests.

The driver does the parts of a Ready in this order:

    1. at once, before the core is called again:  `cut_to`, then `entries`, into the stored log
    2. begin to make hard state, cut and entries durable
    3. send `messages_now`; apply `apply`; answer `reads`
    4. when this Ready and all before it are durable:  send `messages_once_durable`, then `advance(durable=number)`

The next Ready may be taken before step 4; then one sync can serve both. The leader's appends are in `messages_now`: it
replicates while it syncs, and counts itself when its own sync is reported. Votes, and every message of a term that is
not durable yet, are in `messages_once_durable`."""

from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from raftlog.raft.configuration import Configuration, ReplicaId
from raftlog.raft.entry import Entry, EntryId
from raftlog.raft.messages import InstallOffer, Message
from raftlog.types import Index, Term


class Role(Enum):
    """Role of a replica. A learner is a follower without a vote."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class HardState(NamedTuple):
    """State that must be durable before a message of this term or vote is sent. One vote per term; terms never fall."""

    term: Term
    vote: ReplicaId | None


class RoleState(NamedTuple):
    """Role, term and known leader, and the reason for the last change (for people)."""

    role: Role
    term: Term
    leader: ReplicaId | None
    reason: str


class IndexRange(NamedTuple):
    """Entries `first` to `last`, both included."""

    first: Index
    last: Index


class ReadReady(NamedTuple):
    """Read that may be served now: the applied state has everything acknowledged before the request."""

    request: Hashable
    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here


class Ready(NamedTuple):
    """Work for the driver from one turn of the core: entries to persist, messages, entries to apply; immutable."""

    number: int
    """Number of the Ready, from 1; the driver reports durability by it."""
    hard_state: HardState | None
    cut_to: Index | None
    """Last index that the stored log keeps; never below the commit index."""
    entries: tuple[Entry, ...]
    must_sync: bool
    """Whether hard state, cut or entries are set. A new commit index alone needs no sync."""
    messages_now: tuple[Message, ...]
    messages_once_durable: tuple[Message, ...]
    committed_index: Index
    """Commit index, which the driver may store as a hint for the next start (`Restart.committed_hint`).

    It may get lost. It must not become durable before the cuts and entries of this Ready and of those before it:
    otherwise a restart could take entries for committed that were cut."""
    apply: IndexRange | None
    """Committed entries, durable here, to apply in order; report with `advance(applied=…)`."""
    reads: tuple[ReadReady, ...]
    reads_failed: tuple[Hashable, ...]
    """Requests that were definitely not served; repeat them, here or at the current leader."""
    role_state: RoleState | None
    """Role, term and leader, set when one of them changed."""
    install_offer: InstallOffer | None
    """Offer to fetch the entries that this log lacks.

    If the leader has trimmed some of them, the driver first fetches the leader's files, which replace this log
    (`install`). It fetches the remaining entries as appends, which the leader's core supplies (`supply`)."""
    has_only_messages: bool = False
    """Whether there is nothing else than `messages_now`; the number is that of the Ready before it."""


class Restart(NamedTuple):
    """Stored state from which a replica starts, except for its log."""

    hard_state: HardState
    configurations: tuple[Configuration, ...]
    """Configurations, ascending: the one in effect at the log's start, and all later ones."""
    committed_hint: Index = Index(0)
    applied_index: Index = Index(0)
    """Last index that the state machine has applied."""
    voting_position: EntryId | None = None
    """Id of the entry that a quarantined replica lost at its log's end."""
    is_quarantined: bool = False


class Installed(NamedTuple):
    """A log that was fetched as files and replaced the replica's own; all of it is durable."""

    configurations: tuple[Configuration, ...]
    committed_index: Index
    applied_index: Index


class Accepted(NamedTuple):
    """Term and indexes of appended proposals.

    The outcome is known once an entry, this or another, is applied at its index; a cut of the log leaves it unknown."""

    term: Term
    first_index: Index
    last_index: Index


class RefusalReason(Enum):
    """Reason for a refusal. Each is definite: nothing was done, nor will be."""

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
    """A refusal, and the leader if one is known."""

    reason: RefusalReason
    leader: ReplicaId | None
    detail: str = ""


class FollowerStatus(NamedTuple):
    """Progress of a member as its leader sees it."""

    member: ReplicaId
    state: str
    match_index: Index
    next_index: Index
    is_active: bool
    """Whether the member answered in this period of CheckQuorum, or in the one before."""
    lag_ticks: int = 0
    """Number of ticks for which the member has lacked committed entries, as the leader knows it; 0: it lacks none."""


class Status(NamedTuple):
    """Status of one replica, for people, metrics and tests."""

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
    is_quiesced: bool
    is_quarantined: bool
    followers: tuple[FollowerStatus, ...]
    is_transferring: bool
    """Whether the replica leads and refuses proposals because of a leadership transfer."""
