"""State of a replica in every role: term, vote, log, configuration, commit index, and messages to send.

    applied ≤ delivered ≤ min(committed, durable),   committed ≤ last index,   durable ≤ last index

Each of these is asserted at its single setter here. The term never falls, a term's vote never changes, `committed`
never moves back, and nothing at or below it is ever cut. Roles (`follower`, `candidate`, `leader`) act on this state;
only `core` changes the role."""

from random import Random

from raftlog.raft.configuration import Configuration, ConfigurationHistory, ReplicaId
from raftlog.raft.durability import Durability
from raftlog.raft.entry import TERM_MAX, ControlPayloads, Entry, EntryId, EntryKind, is_at_least_as_up_to_date
from raftlog.raft.log_view import LogView
from raftlog.raft.messages import InstallOffer, Message, Wake
from raftlog.raft.quiescence_state import QuiescenceState
from raftlog.raft.read_index import ReadsToApply
from raftlog.raft.ready import HardState, Installed, Restart
from raftlog.raft.settings import RaftSettings
from raftlog.raft.tail import LogTail
from raftlog.types import Index, Term

NEVER = 1 << 62
"""Tick that is never reached."""


class RaftReplica:
    """State of a replica that all its roles share."""

    __slots__ = (
        "applied",
        "committed",
        "delivered",
        "durability",
        "hard_state_number",
        "history",
        "install_offer",
        "is_hard_state_changed",
        "is_quarantined",
        "is_unfit",
        "log",
        "me",
        "next_tick",
        "outbox",
        "payloads",
        "quiescence",
        "random",
        "reads",
        "sequence",
        "settings",
        "term",
        "ticks",
        "vote",
        "voting_position",
    )

    def __init__(
        self,
        me: ReplicaId,
        settings: RaftSettings,
        random: Random,
        log: LogView,
        payloads: ControlPayloads,
        restart: Restart,
    ) -> None:
        """Restore a replica from its log and its restart state."""
        self.me, self.settings, self.random, self.payloads = me, settings, random, payloads
        self.log = LogTail(log)
        self.history = ConfigurationHistory(restart.configurations)
        assert self.configuration.index <= self.log.last_index, (
            f"configuration {self.configuration.index} beyond the log's end {self.log.last_index}"
        )
        # A log can be ahead of a hard state that was lost with its last write: the term never falls below its entries.
        self.term: Term = max(restart.hard_state.term, self.log.last_term)
        """Current term; never falls, never exceeds TERM_MAX; set by `set_hard_state`."""
        self.vote: ReplicaId | None = restart.hard_state.vote if self.term == restart.hard_state.term else None
        """Candidate that got this replica's vote in `term`; set once per term by `set_hard_state`."""
        self.is_hard_state_changed = self.term != restart.hard_state.term
        """Whether term or vote changed since the last Ready."""
        self.hard_state_number = 0
        """Number of the Ready that had the last change of term or vote."""
        hint = min(restart.committed_hint, self.log.last_index)
        self.committed: Index = max(hint, self.log.boundary.index)
        """Commit index; moved up by `advance_commit_index`, never beyond the log's end."""
        self.applied: Index = restart.applied_index
        """Last index that the state machine reported; ≤ delivered."""
        assert self.applied <= self.log.last_index, f"applied {self.applied} > last index {self.log.last_index}"
        self.committed = max(self.committed, self.applied)
        self.delivered: Index = max(self.applied, self.log.boundary.index)
        """Last index given to the driver to be applied; ≤ committed, ≤ durable."""
        self.history.commit_to(self.committed)
        self.durability = Durability(self.log.last_index)
        self.ticks = 0
        self.next_tick = 0
        """Tick at which the role has work; the role sets it, NEVER while quiesced."""
        self.sequence = random.getrandbits(32)
        """Number of the last campaign or forwarded read; starts at random, so that answers to a former process do not
        match."""
        self.outbox: list[Message] = []
        self.reads = ReadsToApply()
        self.quiescence = QuiescenceState()
        self.install_offer: InstallOffer | None = None
        self.is_quarantined = restart.is_quarantined
        self.is_unfit = False
        """Whether the broker is unfit to lead: election timeouts pass before the replica campaigns (see
        `Follower.tick`)."""
        self.voting_position = restart.voting_position
        """Id of the last entry that was lost to damage; None once the durable log is as up to date."""
        self.clear_reached_voting_position()

    # identity

    @property
    def configuration(self) -> Configuration:
        """Configuration in effect: the latest in the log."""
        return self.history.current

    @property
    def durable_index(self) -> Index:
        return self.durability.durable_index

    def may_campaign(self) -> bool:
        """Return whether the replica may campaign.

        Learners, quarantined and removed replicas may not. Nor may a replica that lost an entry to damage, until its
        durable log is as up to date again (`voting_position`). In term `TERM_MAX` no replica may, because there is no
        higher term."""
        return (
            not self.is_quarantined
            and self.voting_position is None
            and self.term < TERM_MAX
            and self.history.may_be_voter(self.me)
        )

    def next_sequence(self) -> int:
        """Return the number of the next campaign or forwarded read."""
        self.sequence += 1
        return self.sequence

    def draw_election_ticks(self) -> int:
        """Return a random election timeout in ticks: from `election_ticks_min` to below twice that (thesis 3.4)."""
        least = self.settings.election_ticks_min
        return least + self.random.randrange(least)

    def send(self, message: Message) -> None:
        """Add a message to those that the next Ready contains."""
        self.outbox.append(message)

    # term and vote

    def set_hard_state(self, term: Term, vote: ReplicaId | None) -> None:
        """Set term and vote; the only setter of both."""
        assert self.term <= term <= TERM_MAX, f"term would go from {self.term} to {term}"
        assert term > self.term or self.vote is None or self.vote == vote, (
            f"vote of term {term} would change from {self.vote} to {vote}"
        )
        if (term, vote) != (self.term, self.vote):
            self.term, self.vote = term, vote
            self.is_hard_state_changed = True

    @property
    def hard_state(self) -> HardState:
        return HardState(self.term, self.vote)

    @property
    def is_hard_state_durable(self) -> bool:
        """Whether the current term and vote are synced."""
        return not self.is_hard_state_changed and self.durability.durable_number >= self.hard_state_number

    @property
    def vote_floor(self) -> EntryId:
        """Id that the last entry of a candidate's log has to reach to get this replica's vote."""
        last = self.log.last_id
        lost = self.voting_position
        return last if lost is None or is_at_least_as_up_to_date(last, lost) else lost

    # the log

    def append(self, entries: tuple[Entry, ...]) -> None:
        """Append entries that follow the log's end; configurations among them take effect at once (thesis 4.1)."""
        self.log.append(entries)
        for entry in entries:
            if entry.kind is EntryKind.CONFIGURATION:
                assert entry.configuration is not None, f"configuration entry {entry.index} was not decoded"
                self.history.append(entry.configuration)
            elif entry.configuration is not None and entry.configuration.index <= entry.index:
                self.history.set_initial(entry.configuration)

    def cut_to(self, index: Index) -> None:
        """Remove the entries after `index`, which conflict with the leader's; their configurations lose effect."""
        assert index >= self.committed, f"cut to {index} below committed {self.committed}"
        self.log.cut_to(index)
        self.durability.cut_to(index)
        self.history.roll_back_to(index)

    def replace_log(self, installed: Installed) -> None:
        """Continue with a replaced log, which is durable, and whose beginning is committed and applied."""
        self.install_offer = None
        self.log.reload()
        self.durability.restart_at(self.log.last_index)
        self.history = ConfigurationHistory(installed.configurations)
        if self.log.last_term > self.term:
            self.set_hard_state(self.log.last_term, None)
        self.advance_commit_index(max(installed.committed_index, self.log.boundary.index))
        assert installed.applied_index <= self.committed, (
            f"installed: applied {installed.applied_index} > committed {self.committed}"
        )
        self.delivered = max(self.delivered, installed.applied_index, self.log.boundary.index)
        self.apply_to(max(self.applied, installed.applied_index))
        self.clear_reached_voting_position()

    def advance_commit_index(self, index: Index) -> bool:
        """Raise `committed` to `index` and return true; do nothing and return false if it is as high already."""
        if index <= self.committed:
            return False
        assert index <= self.log.last_index, f"commit {index} > last index {self.log.last_index}"
        self.committed = index
        self.history.commit_to(index)
        return True

    def advance_durable_index(self, durable: int) -> bool:
        """Process the report that all Readys up to number `durable` are synced.

        Return true when the durable index moved."""
        is_moved = self.durability.advance_durable_index(durable)
        durable_index = self.durability.durable_index
        assert durable_index <= self.log.last_index, f"durable {durable_index} > {self.log.last_index}"
        if is_moved and self.voting_position is not None:
            self.clear_reached_voting_position()
        return is_moved

    def apply_to(self, index: Index) -> None:
        """Record that entries up to `index` are applied, and release the reads that waited for it."""
        assert self.applied <= index <= self.delivered, (
            f"applied {index} outside [{self.applied}, {self.delivered} delivered]"
        )
        self.applied = index
        self.reads.apply_to(index)

    def clear_reached_voting_position(self) -> None:
        """Clear the voting position when the durable log is as up to date; called whenever more became durable."""
        durable = self.durable_index
        if self.voting_position is not None and is_at_least_as_up_to_date(
            EntryId(durable, self.log.term_at(durable)), self.voting_position
        ):
            self.voting_position = None

    # quiescence

    def quiesce(self) -> None:
        """Stop ticks and messages; every entry of the log must be committed and durable."""
        assert self.committed == self.log.last_index == self.durable_index, (
            f"quiesced at {self.log.last_index} with committed {self.committed}, durable {self.durable_index}"
        )
        self.quiescence.is_quiesced = True
        self.next_tick = NEVER

    def send_wake(self, replicas: tuple[ReplicaId, ...]) -> None:
        """Send a wake to each of `replicas` except this one."""
        for replica in replicas:
            if replica != self.me:
                self.send(Wake(self.me, replica, self.term))
