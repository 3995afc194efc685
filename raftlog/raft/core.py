"""The Raft core of one replica: requests, messages and ticks in, `Ready` out. No disk, no network, no clock.

    core = RaftCore(me, settings, random, log, restart)
    core.propose(…) · propose_configuration(…) · read_index(…) · transfer_leadership(…)      requests of clients
    core.step(message) · tick() · note_process(…)                                       events
    ready = core.ready()                                                                     work to do
    core.advance(durable=ready.number, applied=…)                                            work done

`raftlog.raft.ready` gives the order in which to do the work of a Ready. The driver (one per process) calls all this
from one thread. Here are the one check of terms and the only places where a replica changes its role; the roles
themselves are in `follower`, `candidate` and `leader`. The core follows the Raft thesis (Ongaro, 2014) with PreVote
and CheckQuorum."""

from collections.abc import Hashable, Sequence
from random import Random

from raftlog.raft import admission, election
from raftlog.raft.candidate import Candidate
from raftlog.raft.configuration import Configuration, ConfigurationChange, ReplicaId
from raftlog.raft.entry import ControlPayloads, EmptyPayloads, EntryId, Proposal, is_more_up_to_date
from raftlog.raft.follower import Follower
from raftlog.raft.leader import Leader
from raftlog.raft.log_view import LogView
from raftlog.raft.message_errors import Contradiction, without_entries
from raftlog.raft.messages import (
    FROM_LEADER,
    AppendRequest,
    HeartbeatResponse,
    Message,
    PreVoteRequest,
    VoteRequest,
    Wake,
    WakeResponse,
)
from raftlog.raft.readable_core import ReadableCore
from raftlog.raft.ready import Accepted, Installed, Ready, RefusalReason, RefusedProposal, Restart, Role
from raftlog.raft.ready_builder import ReadyBuilder
from raftlog.raft.replica import RaftReplica
from raftlog.raft.role import RoleChange
from raftlog.raft.settings import RaftSettings
from raftlog.raft.supply import SupplyRefusal, SupplyRequest, supply
from raftlog.types import Index, NodeId, Term


class RaftCore(ReadableCore):
    """Raft core of one replica of one Raft group."""

    __slots__ = ("_builder", "_has_only_messages", "_is_dirty", "_leader_message", "_reason", "messages_refused")

    def __init__(
        self,
        me: ReplicaId,
        settings: RaftSettings,
        random: Random,
        log: LogView,
        restart: Restart,
        payloads: ControlPayloads | None = None,
    ) -> None:
        self._replica = RaftReplica(me, settings, random, log, payloads or EmptyPayloads(), restart)
        self._role = Follower(self._replica, None)
        self._reason = "started"
        self._builder = ReadyBuilder(self._replica)
        self._leader_message: Message | None = None
        """The first message of the leader that this replica follows, or followed last."""
        self._is_dirty = True
        """Whether there may be work for a Ready."""
        self._has_only_messages = False
        """Whether the only work is messages that a leader's tick produced; `_mark_dirty` clears it."""
        self.messages_refused = 0
        """Messages dropped: for another replica, of an impossible term, malformed, or from a replica that is no member.
        """

    # requests of clients

    def propose(self, proposals: Sequence[Proposal]) -> Accepted | RefusedProposal:
        """Append data in this order, all or none of it; `proposals` is not empty.

        `Accepted` has the indexes. The outcome stays unknown until an entry at that index is applied: success if its
        term is the accepted one, failure if it is another. A cut of the local log decides nothing: some other replica
        may still hold the entry, become leader with it and commit it. A refusal is definite."""
        leader = self._wake_and_get_leader()
        return leader.propose(proposals) if leader else self._refuse_as_follower()

    def propose_configuration(self, change: ConfigurationChange) -> Accepted | RefusedProposal:
        """Propose a change of voters and learners.

        `Accepted` has the index of the first, perhaps joint, configuration."""
        leader = self._wake_and_get_leader()
        return leader.propose_configuration(change) if leader else self._refuse_as_follower()

    def read_index(self, request: Hashable) -> RefusedProposal | None:
        """Request a linearizable read, on any replica; return a refusal, or None if the read was accepted.

        An accepted `request` is returned in the `reads` or `reads_failed` of a later Ready."""
        self._wake_for_request()
        role, replica = self._role, self._replica
        if len(replica.reads) >= replica.settings.pending_reads_max:
            return RefusedProposal(RefusalReason.OVERLOADED, role.leader)
        return self._refuse_as_follower() if isinstance(role, Candidate) else role.read_index(request)

    def transfer_leadership(self, target: ReplicaId) -> RefusedProposal | None:
        """Begin a transfer to a voter that is caught up; return a refusal, or None if the transfer began.

        An unfinished transfer is aborted after an election timeout."""
        leader = self._wake_and_get_leader()
        return leader.transfer_leadership(target) if leader else self._refuse_as_follower()

    # decisions of the driver

    def campaign(self) -> bool:
        """Request pre-votes without waiting for the election timeout; return false if the replica may not campaign."""
        if not isinstance(self._role, Follower) or not self._replica.may_campaign():
            return False
        self._wake_for_request()
        self._become(RoleChange(Role.PRE_CANDIDATE, "asked to campaign"))
        return True

    def step_down(self, reason: str) -> bool:
        """Stop leading or campaigning, for a stalled disk or loop; return false for a follower."""
        if isinstance(self._role, Follower):
            return False
        self._wake_for_request()
        self._become(RoleChange(Role.FOLLOWER, reason))
        return True

    @property
    def are_appends_deferred(self) -> bool:
        """Whether followers beyond the quorum lack entries until `send_deferred_appends`."""
        role = self._role
        return type(role) is Leader and role.replication.are_appends_deferred

    def send_deferred_appends(self) -> None:
        """Send the deferred appends with the next Ready; called by the driver's timer."""
        role = self._role
        if type(role) is Leader and role.replication.are_appends_deferred:
            self._mark_dirty()
            role.replication.send_deferred()

    def set_unfit(self, is_unfit: bool) -> None:
        """Set whether the replica is unfit to lead: an unfit one campaigns some election timeouts later than others."""
        self._replica.is_unfit = is_unfit

    def quarantine(self, voting_position: EntryId | None = None) -> None:
        """Stop campaigning until `lift_quarantine` because an entry of the log is damaged.

        A leader asks another replica to lead. `voting_position` is the id of the damaged entry if it was the last one:
        until the durable log has reached it, the replica votes only for candidates whose logs have."""
        self._mark_dirty()
        self._replica.is_quarantined = True
        if voting_position is not None and is_more_up_to_date(voting_position, self._replica.vote_floor):
            self._replica.voting_position = voting_position
        if isinstance(self._role, Leader):
            self._role.ask_most_up_to_date_voter()
        self.step_down("quarantined")

    def lift_quarantine(self) -> None:
        """Allow campaigns again after a repair. A voting position stays until the durable log has reached it."""
        self._replica.is_quarantined = False

    def restore_configurations(self, configurations: Sequence[Configuration]) -> None:
        """Restore the configurations of entries that were damaged and are readable again (see `Restart`)."""
        assert not isinstance(self._role, Leader), "a leader whose log was damaged"
        self._mark_dirty()
        self._replica.history.restore(configurations)
        self._replica.history.commit_to(self._replica.committed)

    def needs_install(self, boundary: EntryId) -> bool:
        """Return whether fetched files that begin after `boundary` should replace the log; precedes `install`."""
        log, committed = self._replica.log, self._replica.committed
        return not isinstance(self._role, Leader) and boundary.index > committed and not log.has_entry(boundary)

    def install(self, installed: Installed) -> None:
        """Continue with the log of fetched files, which is durable and committed up to `committed_index`.

        No Ready may be outstanding between `needs_install` and this call; the content of the old log is lost."""
        self._mark_dirty()
        replica, leader = self._replica, self._role.leader
        term = replica.term
        replica.replace_log(installed)
        # The source may have entered a later term while its files were fetched; the leader of that is not known.
        self._become_follower(leader if replica.term == term else None, "installed the leader's files")

    def supply(self, wanted: SupplyRequest) -> AppendRequest | SupplyRefusal:
        """Return the append that a follower fetches, see `raftlog.raft.supply`; raises errors of reading the log."""
        return supply(self._replica, wanted) if isinstance(self._role, Leader) else SupplyRefusal.NOT_LEADING

    # events

    def step(self, message: Message) -> None:
        """Process a message; answers are in the next Ready.

        Raises `Contradiction` and `TermRefused` for messages that no correct replica sends; log and vote are
        unchanged then."""
        replica = self._replica
        if not admission.is_acceptable(replica, message):
            self.messages_refused += 1
            return
        self._mark_dirty()
        if isinstance(message, (PreVoteRequest, VoteRequest)):
            self._step_vote_request(message)
        elif isinstance(message, (Wake, WakeResponse)):
            self._step_wake(message)
        elif message.term < replica.term:
            admission.answer_stale(replica, message)
        else:
            if type(message) in FROM_LEADER:
                self._follow_sender(message)
            elif message.term > replica.term:
                self._adopt_term(message.term, None)
            if replica.quiescence.is_quiesced and self._ends_quiescence(message):
                self._wake()
            become = self._role.step(message)
            if become is not None:
                self._become(become)

    def _follow_sender(self, message: Message) -> None:
        """Follow the sender as leader of the message's term. Raises `Contradiction` when another replica leads it."""
        replica = self._replica
        if message.term > replica.term:
            self._adopt_term(message.term, message.sender)
        elif isinstance(self._role, Candidate):
            self._become_follower(message.sender, "another replica leads")
        elif self._role.leader == message.sender:
            return
        elif self._role.leader is not None:
            raise Contradiction(
                f"two leaders in term {replica.term}: {self._role.leader} and {message.sender}",
                message,
                self._leader_message,
            )
        self._leader_message = without_entries(message)

    def tick(self) -> bool:
        """Advance the clock by one tick; return true when there may be a Ready."""
        replica = self._replica
        replica.ticks = ticks = replica.ticks + 1
        if ticks < replica.next_tick:
            return self._is_dirty
        role = self._role
        become = role.tick()
        # The most frequent case: heartbeats of a leader, and no other change.
        self._has_only_messages = (
            (self._has_only_messages or not self._is_dirty)
            and become is None
            and type(role) is Leader
            and not role.has_decisions()
        )
        self._is_dirty = True
        if become is not None:
            self._become(become)
        return True

    def note_process(self, node: NodeId, is_alive: bool) -> None:
        """Record that the process of `node` is alive now, or has failed; called only on a change.

        A restart (new boot epoch) is reported as a failure, then as alive. A failure wakes a quiesced leader, and the
        followers of a leader on that node. When the process is alive again, a follower without contact to its leader
        there wakes the leader, and waits for a heartbeat before it campaigns."""
        replica, role = self._replica, self._role
        replica.quiescence.note_process(node, is_alive)
        is_quiesced = replica.quiescence.is_quiesced
        if isinstance(role, Leader):
            if is_quiesced and role.must_wake_for(node, is_alive):
                self._wake()
        elif isinstance(role, Follower) and role.leader is not None and role.leader.node_id == node:
            if is_quiesced and not is_alive:
                self._wake()
                # A leader that is only unreachable from here will send heartbeats to the others.
                replica.send_wake(replica.configuration.all_voters())
            elif is_alive and not is_quiesced and not role.has_leader_contact():
                self._mark_dirty()
                role.wake_leader()

    # work to do, and work done

    @property
    def is_dirty(self) -> bool:
        """Whether `ready` may return work."""
        return self._is_dirty

    def ready(self) -> Ready | None:
        """Return the work to do now, or None. See `raftlog.raft.ready` for the order."""
        if not self._is_dirty:
            return None
        self._is_dirty = False
        if self._has_only_messages:
            self._has_only_messages = False
            return self._builder.take_messages() if self._replica.outbox else None
        while (become := self._role.prepare()) is not None:
            self._become(become)
        return self._builder.build_if_changed(self._role, self._reason)

    def advance(self, *, durable: int = 0, applied: Index | None = None) -> None:
        """Record that all Readys up to number `durable` are synced, and entries up to `applied` applied.

        0 and None mean that nothing is new."""
        replica, role = self._replica, self._role
        if durable:
            is_moved = replica.advance_durable_index(durable)
            if is_moved and isinstance(role, Leader):
                role.note_durable()
            if is_moved or isinstance(role, Candidate):  # its own vote may be durable now
                self._mark_dirty()
        if applied is not None:
            replica.apply_to(applied)
            if replica.reads.ready:
                self._mark_dirty()

    # messages

    def _step_vote_request(self, request: PreVoteRequest | VoteRequest) -> None:
        """Answer a request for a pre-vote or a vote: check eligibility, leader contact and term, in this order."""
        replica = self._replica
        if request.term < replica.term or not election.is_eligible(replica, request):
            election.send_answer(replica, request, False)
            return
        if replica.quiescence.is_quiesced:
            self._wake()
        is_transfer = isinstance(request, VoteRequest) and request.is_transfer
        if self._role.has_leader_contact() and not is_transfer:
            # The term is not adopted: a candidate that cannot reach the leader must not unseat it.
            election.send_answer(replica, request, False)
            return
        if request.term > replica.term:
            self._adopt_term(request.term, None)
        if isinstance(request, PreVoteRequest):
            election.send_answer(replica, request, election.grants_pre_vote(replica, request))
            if isinstance(self._role, Follower) and election.is_better_candidate(replica, request):
                become = self._role.campaign_soon()
                if become is not None:
                    self._become(become)
            return
        is_granted = election.decide_vote(replica, request)
        if is_granted:
            self._yield_to_candidate()
        election.send_answer(replica, request, is_granted)

    def _yield_to_candidate(self) -> None:
        """Restart the election timer after a granted vote, so that the candidate has a full election timeout."""
        if isinstance(self._role, Follower):
            self._role.restart_timer()
        else:
            self._become_follower(None, "voted for another candidate")

    def _step_wake(self, message: Wake | WakeResponse) -> None:
        """Process a wake or its answer.

        A wake ends quiescence and is answered; a replica that answers gets no more wakes."""
        replica = self._replica
        if isinstance(message, WakeResponse):
            replica.quiescence.remove_replica_to_wake(message.sender)
            return
        if replica.quiescence.is_quiesced:
            self._wake()
        replica.send(WakeResponse(replica.me, message.sender, replica.term))

    # roles

    def _become(self, become: RoleChange) -> None:
        """Change the role within the term; no other method does."""
        if become.role is Role.FOLLOWER:
            self._become_follower(None, become.reason)
        elif become.role is Role.PRE_CANDIDATE:
            self._become_pre_candidate(become.reason)
        elif become.role is Role.CANDIDATE:
            self._become_candidate(become.reason, become.is_transfer)
        else:
            self._become_leader(become.reason)

    def _become_follower(self, leader: ReplicaId | None, reason: str) -> None:
        """Follow `leader`, None while it is unknown, and end quiescence."""
        self._role.leave()
        self._replica.quiescence.is_quiesced = False
        self._role = Follower(self._replica, leader)
        self._reason = reason

    def _become_pre_candidate(self, reason: str) -> None:
        """Begin a pre-vote campaign, for this reason."""
        assert not isinstance(self._role, Leader), f"a leader of term {self.term} asks for pre-votes"
        assert self._replica.may_campaign(), f"{self._replica.me} may not campaign"
        self._role.leave()
        self._role = Candidate(self._replica, Role.PRE_CANDIDATE)
        self._reason = reason

    def _become_candidate(self, reason: str, is_transfer: bool) -> None:
        """Begin an election: raise the term, vote for this replica and request votes."""
        replica = self._replica
        assert is_transfer or self.role is Role.PRE_CANDIDATE, f"candidate out of {self.role.value}"
        assert not isinstance(self._role, Leader), f"a leader of term {self.term} campaigns"
        assert replica.may_campaign(), f"{replica.me} may not campaign"
        self._role.leave()
        replica.set_hard_state(Term(replica.term + 1), replica.me)
        self._role = Candidate(replica, Role.CANDIDATE, is_transfer=is_transfer)
        self._reason = reason

    def _become_leader(self, reason: str) -> None:
        """Lead the term after a won election; the own vote must be durable."""
        replica = self._replica
        assert self.role is Role.CANDIDATE, f"leader out of {self.role.value}"
        assert replica.vote == replica.me, f"leads term {replica.term} with a vote for {replica.vote}"
        assert replica.is_hard_state_durable, f"leads term {replica.term} before its vote is durable"
        self._role.leave()
        replica.quiescence.clear_replicas_to_wake()
        self._leader_message = None
        self._role = Leader(replica)
        self._reason = reason

    def _adopt_term(self, term: Term, leader: ReplicaId | None) -> None:
        """Become a follower in a later term. Only this clears the vote of the old term."""
        assert term > self._replica.term, f"term {term} after {self._replica.term}"
        self._replica.set_hard_state(term, None)
        self._become_follower(leader, "a later term")

    # requests, quiescence

    def _wake_and_get_leader(self) -> Leader | None:
        """Wake a quiesced replica for a request; return its role if it leads, otherwise None."""
        self._wake_for_request()
        return self._role if isinstance(self._role, Leader) else None

    def _refuse_as_follower(self) -> RefusedProposal:
        """Return the refusal of a proposal by a replica that does not lead."""
        return RefusedProposal(RefusalReason.NOT_LEADER, self._role.leader)

    def _ends_quiescence(self, message: Message) -> bool:
        """Return whether the message wakes a quiesced leader: any except the answer of a quiesced member.

        A follower decides in its handler."""
        if isinstance(self._role, Follower):
            return False
        return not (isinstance(message, HeartbeatResponse) and message.is_quiesced)

    def _mark_dirty(self) -> None:
        """Record that the next `ready` must examine the role for new decisions and messages."""
        self._is_dirty = True
        self._has_only_messages = False

    def _wake_for_request(self) -> None:
        """Plan a Ready for a client's request, and wake a quiesced replica."""
        self._mark_dirty()
        if self._replica.quiescence.is_quiesced:
            self._wake()

    def _wake(self) -> None:
        """End the quiescence of this replica and let its role resume work."""
        assert self._replica.quiescence.is_quiesced, "woken while awake"
        self._mark_dirty()
        self._replica.quiescence.is_quiesced = False
        self._role.wake()
