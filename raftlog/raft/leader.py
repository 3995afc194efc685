"""The leader of one term.

    first own index ≤ any index committed by counting;   one configuration change at a time

The leader accepts proposals and replicates them at once. It counts itself only after its own sync. It commits only
entries that a quorum holds durably and that lie at or after the no-op that opened its term (thesis 3.6.2). Commits and
messages are decided in `prepare`, once for all events since the last Ready."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from raftlog.raft.configuration import Configuration, ConfigurationChange, ReplicaId, change_error
from raftlog.raft.entry import Entry, EntryKind, Proposal
from raftlog.raft.messages import (
    AppendResponse,
    HeartbeatResponse,
    InstallResponse,
    Message,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
)
from raftlog.raft.progress import FollowerProgress
from raftlog.raft.quiescence import QuiescenceHandshake
from raftlog.raft.read_index import LeaderReads, WaitingRead
from raftlog.raft.ready import Accepted, ReadReady, RefusalReason, RefusedProposal, Role
from raftlog.raft.replica import RaftReplica
from raftlog.raft.replication import Replication
from raftlog.raft.role import RoleChange
from raftlog.raft.transfer import Transfer, transfer_refusal
from raftlog.types import Index, NodeId


class Leader:
    """Role of the replica that leads its Raft group in one term."""

    __slots__ = (
        "_active_tick",
        "_handshake",
        "_heartbeat_tick",
        "_quorum_tick",
        "_reads",
        "_replica",
        "_transfer",
        "_uncommitted",
        "_uncommitted_bytes",
        "first_own_index",
        "leader",
        "replication",
        "role",
    )

    def __init__(self, replica: RaftReplica) -> None:
        """Begin a leadership: append a no-op of the term, and replicate to all other members."""
        self.role = Role.LEADER
        self.leader: ReplicaId | None = replica.me
        self._replica = replica
        self.replication = Replication(replica)
        self._reads = LeaderReads(replica.settings.pending_reads_max)
        self._transfer = Transfer()
        self._uncommitted: deque[tuple[Index, int]] = deque()
        """Last index and bytes of every proposal that is not committed, oldest first."""
        self._uncommitted_bytes = 0
        self._active_tick = replica.ticks
        """Tick of the last work other than heartbeats."""
        self._handshake = QuiescenceHandshake()
        # Random, so that the Raft groups of a process do not all send at the same tick.
        self._heartbeat_tick = replica.ticks + 1 + replica.random.randrange(replica.settings.heartbeat_ticks)
        self._quorum_tick = replica.ticks + replica.settings.election_ticks_min
        replica.next_tick = self._heartbeat_tick
        self.first_own_index = self._append_control(EntryKind.NO_OP, replica.payloads.no_op(), None)
        """Index of this leader's no-op: no earlier entry is committed by counting the replicas that hold it."""

    @property
    def has_own_term_commit(self) -> bool:
        """Whether an entry of this leader's term is committed."""
        return self._replica.committed >= self.first_own_index

    @property
    def is_transferring(self) -> bool:
        """Whether a leadership transfer is in progress."""
        return self._transfer.target is not None

    def has_leader_contact(self) -> bool:
        """Return true: the replica leads itself."""
        return True

    # requests

    def propose(self, proposals: Sequence[Proposal]) -> Accepted | RefusedProposal:
        """Append data, all of it or none; return the indexes, or the reason for the refusal."""
        replica, settings = self._replica, self._replica.settings
        if self._transfer.target is not None:
            return self._refuse(RefusalReason.TRANSFERRING)
        last_index = replica.log.last_index
        if (
            last_index - replica.committed + len(proposals) > settings.uncommitted_entries_max
            or self._uncommitted_bytes >= settings.uncommitted_bytes_max
        ):
            return self._refuse(RefusalReason.OVERLOADED)
        assert proposals, "nothing was proposed"
        term, data = replica.term, EntryKind.DATA
        replica.log.append(
            [
                Entry(Index(index), term, data, proposal.size_bytes, proposal.payload)
                for index, proposal in enumerate(proposals, last_index + 1)
            ]
        )
        size_bytes = sum([proposal.size_bytes for proposal in proposals])
        self._uncommitted.append((replica.log.last_index, size_bytes))
        self._uncommitted_bytes += size_bytes
        self._mark_active()
        self.replication.note_proposed(Index(last_index + 1), size_bytes)
        return Accepted(term, Index(last_index + 1), replica.log.last_index)

    def propose_configuration(self, change: ConfigurationChange) -> Accepted | RefusedProposal:
        """Append a configuration, which takes effect at once; a joint one is left later without another call."""
        replica = self._replica
        current = replica.configuration
        if self._transfer.target is not None:
            return self._refuse(RefusalReason.TRANSFERRING)
        if not self.has_own_term_commit:
            return self._refuse(RefusalReason.NOT_COMMITTED_IN_TERM)
        if current.is_joint or current.index > replica.committed:
            return self._refuse(RefusalReason.CHANGE_PENDING, f"configuration {current.index}")
        if change.replaces_index != current.index:
            return self._refuse(RefusalReason.STALE_CHANGE, f"configuration {current.index} holds")
        problem = change_error(change)
        if problem:
            return self._refuse(RefusalReason.INVALID_CHANGE, problem)
        self._mark_active()
        index = self._append_configuration(current.begin_change(change, Index(replica.log.last_index + 1)))
        return Accepted(replica.term, index, index)

    def read_index(self, request: Hashable) -> RefusedProposal | None:
        """Add a read, which a later Ready answers; return a refusal if too many are pending, otherwise None."""
        if not self._reads.try_add(WaitingRead(request, None)):
            return self._refuse(RefusalReason.OVERLOADED)
        self._mark_active()
        return None

    def transfer_leadership(self, target: ReplicaId) -> RefusedProposal | None:
        """Begin a transfer to a voter that is caught up; return a refusal, or None if it began."""
        replica = self._replica
        if self._transfer.target is not None:
            return self._refuse(RefusalReason.TRANSFERRING)
        reason = transfer_refusal(replica, target, self.replication.progress.get(target))
        if reason is not None:
            return self._refuse(reason)
        self._mark_active()
        self._transfer.begin(target, replica.ticks + replica.settings.election_ticks_min)
        self._schedule_tick()
        self.replication.may_commit = True
        self.replication.send_deferred()
        return None

    def has_decisions(self) -> bool:
        """Return whether `prepare` has work that the last Ready did not include."""
        replication = self.replication
        return replication.may_commit or replication.is_due or replication.are_notices_due or self._is_round_due()

    # messages of members

    def step(self, message: Message) -> RoleChange | None:
        """Process a message of this term; ignore types that a leader does not expect."""
        handle = self._HANDLERS.get(type(message))
        if handle is not None:
            handle(self, message)
        return None

    def handle_append(self, message: AppendResponse) -> None:
        """Update the progress of a follower, and answer reads that its answer confirms."""
        self.replication.handle_append(message)
        self._answer_confirmed_reads()

    def handle_heartbeat(self, message: HeartbeatResponse) -> None:
        """Update the progress of a follower, answer confirmed reads, and go on with the handshake to quiesce."""
        self.replication.handle_heartbeat(message)
        self._answer_confirmed_reads()
        if self._handshake.is_committing():
            if self._handshake.is_refused_by(message.sequence, message.is_quiesced):
                self._mark_active()
            else:
                self._quiesce_if_agreed()

    def handle_install(self, message: InstallResponse) -> None:
        self.replication.handle_install(message)

    def handle_read_index(self, message: ReadIndexRequest) -> None:
        """Add a read that a follower forwarded, or answer that there is no room for it."""
        if self._reads.try_add(WaitingRead(message.sequence, message.sender)):
            self._mark_active()
        else:
            self._answer_read(WaitingRead(message.sequence, message.sender), None)

    # time

    def tick(self) -> RoleChange | None:
        """Step down without an active quorum, abort a late transfer, and send heartbeats that are due."""
        replica = self._replica
        ticks = replica.ticks
        if ticks >= self._quorum_tick:
            if not self.replication.is_quorum_active():
                return RoleChange(Role.FOLLOWER, "no quorum answered")
            self.replication.begin_period()
            self._quorum_tick = ticks + replica.settings.election_ticks_min
        if ticks >= self._transfer.abort_tick:
            self._transfer.abort()
            self.replication.may_commit = True
        if ticks >= self._heartbeat_tick:
            self._send_heartbeats()
        elif self._reads.has_rounds:
            self.replication.send_heartbeats()  # some of the requested quorum are slow or down: request all
        self._schedule_tick()
        return None

    def wake(self) -> None:
        """Begin a new period of CheckQuorum: followers need not answer a quiesced leader."""
        replica = self._replica
        self._quorum_tick = replica.ticks + replica.settings.election_ticks_min
        self._active_tick = replica.ticks
        self._handshake.abandon()
        self._send_heartbeats()
        self._schedule_tick()

    def must_wake_for(self, node: NodeId, is_alive: bool) -> bool:
        """Return whether a quiesced leader has to wake for a member on `node`, whose process started or ended."""
        last_index = self._replica.log.last_index
        return any(
            member.node_id == node and not (is_alive and progress.is_active and progress.match_index == last_index)
            for member, progress in self.replication.progress.items()
        )

    # before a Ready

    def prepare(self) -> RoleChange | None:
        """Commit, leave a joint configuration, transfer leadership, answer reads, replicate."""
        replication = self.replication
        if replication.may_commit:
            self._commit()
            if self._is_removed():
                return self._step_down_after_removal()
            self._leave_joint_if_committed()
            self._transfer.request_campaign_if_caught_up(self._replica, replication.progress)
        if self._is_round_due():
            self._reads.begin_round(replication.send_round(), self._replica.committed)
            self._replica.next_tick = min(self._replica.next_tick, self._replica.ticks + 1)
            self._answer_confirmed_reads()
        if replication.is_due:
            replication.send_appends()
        if replication.are_notices_due:
            replication.send_commit_notices()
        return None

    def note_durable(self) -> None:
        """Plan a check for entries to commit, because more of the leader's own log is durable."""
        self.replication.may_commit = True

    def leave(self) -> None:
        """End the role: fail reads that can no longer be confirmed, and plan wakes for members that were quiesced."""
        replica = self._replica
        replica.reads.failed.extend(read.request for read in self._reads.drop_all() if read.origin is None)
        replica.quiescence.add_replicas_to_wake(self._handshake.find_possibly_quiesced(self.replication.progress))

    def ask_most_up_to_date_voter(self) -> None:
        """Ask the voter with the most up-to-date log to campaign; called before this replica steps down."""
        replica, progress = self._replica, self.replication.progress
        others = [voter for voter in replica.configuration.voters if voter != replica.me]
        if others:
            target = max(others, key=lambda voter: (progress[voter].match_index, progress[voter].is_active))
            replica.send(TimeoutNow(replica.me, target, replica.term))

    # parts of the above

    def _refuse(self, reason: RefusalReason, detail: str = "") -> RefusedProposal:
        """Return the refusal of a proposal."""
        return RefusedProposal(reason, self._replica.me, detail)

    def _mark_active(self) -> None:
        """Record work other than heartbeats, which restarts the idle time and ends a handshake to quiesce."""
        self._active_tick = self._replica.ticks
        self._handshake.abandon()

    def _append_control(self, kind: EntryKind, proposal: Proposal, configuration: Configuration | None) -> Index:
        """Append an entry that the leader itself makes, a no-op or a configuration; return its index."""
        replica = self._replica
        index = Index(replica.log.last_index + 1)
        replica.append((Entry(index, replica.term, kind, proposal.size_bytes, proposal.payload, configuration),))
        self.replication.send_deferred()
        return index

    def _append_configuration(self, configuration: Configuration) -> Index:
        """Append a configuration, replicate to its voters and learners from now on; return the index of its entry."""
        replica = self._replica
        payload = replica.payloads.configuration(configuration, replica.configuration.index)
        index = self._append_control(EntryKind.CONFIGURATION, payload, configuration)
        self.replication.follow_configuration()
        self._answer_confirmed_reads()  # by the quorum that counts now, which may be this replica alone
        return index

    def _commit(self) -> None:
        """Commit entries of this term that a quorum holds, with all that precede them (thesis 3.6.2)."""
        replica, replication = self._replica, self.replication
        replication.may_commit = False
        index, before = replication.quorum_durable(), replica.committed
        if index >= self.first_own_index and replica.advance_commit_index(index):
            replication.note_commit(before)
            replication.are_notices_due = True
            while self._uncommitted and self._uncommitted[0][0] <= index:
                self._uncommitted_bytes -= self._uncommitted.popleft()[1]

    def _leave_joint_if_committed(self) -> bool:
        """Propose the exit of a joint configuration once it is committed (thesis 4.3); return whether this was done."""
        replica = self._replica
        current = replica.configuration
        if (
            not current.is_joint
            or current.index > replica.committed
            or not self.has_own_term_commit
            or self._transfer.target is not None
        ):
            return False
        self._append_configuration(current.leave_joint(Index(replica.log.last_index + 1)))
        return True

    def _is_removed(self) -> bool:
        """Return whether this replica is no voter of the committed configuration."""
        replica = self._replica
        current = replica.configuration
        return current.index <= replica.committed and self.has_own_term_commit and not current.has_voter(replica.me)

    def _step_down_after_removal(self) -> RoleChange:
        """Step down after a removal, and ask the voter with the most up-to-date log to campaign (thesis 4.2.2)."""
        self.replication.send_commit_notices()
        self.ask_most_up_to_date_voter()
        return RoleChange(Role.FOLLOWER, "not a voter any more")

    def _is_round_due(self) -> bool:
        """Return whether heartbeats that confirm the waiting reads may be sent; all waiting reads share one round."""
        return self._reads.has_waiting and not self._reads.has_rounds and self.has_own_term_commit

    def _answer_confirmed_reads(self) -> None:
        """Answer the reads whose round of heartbeats a quorum has answered."""
        if not self._reads.has_rounds:
            return
        for read, index in self._reads.confirm(self.replication.quorum_sequence()):
            self._answer_read(read, index)

    def _answer_read(self, read: WaitingRead, index: Index | None) -> None:
        """Send the index of a confirmed read to the follower that forwarded it, or report a local read as ready.

        `index` is None to refuse a forwarded read."""
        replica = self._replica
        if read.origin is not None:
            assert isinstance(read.request, int), f"{read.origin} asked without a number"
            replica.send(ReadIndexResponse(replica.me, read.origin, replica.term, read.request, index))
        else:
            assert index is not None, "a read of our own was taken without room"
            replica.reads.confirm(ReadReady(read.request, index), replica.applied)

    def _send_heartbeats(self) -> None:
        """Send heartbeats, which may be part of the handshake to quiesce; repeat the request to a transfer target."""
        replica, settings = self._replica, self._replica.settings
        self._heartbeat_tick = replica.ticks + settings.heartbeat_ticks
        if settings.quiesce_after_ticks == 0:
            self.replication.send_heartbeats()
        elif self._may_quiesce():
            self._advance_handshake()
        else:
            self._handshake.abandon()
            self.replication.send_heartbeats()
        if self._transfer.target is not None:
            self._transfer.request_campaign_if_caught_up(replica, self.replication.progress)

    def _find_counted_members(self) -> list[FollowerProgress]:
        """Return the progress of the members on which quiescence depends: all voters, active or reachable learners.

        A silent learner whose process is alive counts: its replica may not be created yet, and no message would report
        its creation."""
        voters, quiescence = self._replica.configuration.voters, self._replica.quiescence
        return [
            progress
            for member, progress in self.replication.progress.items()
            if progress.is_active or member in voters or quiescence.is_process_alive(member)
        ]

    def _may_quiesce(self) -> bool:
        """Return whether the Raft group was idle for long enough, and all counted members hold every entry."""
        replica = self._replica
        if replica.ticks - self._active_tick < replica.settings.quiesce_after_ticks:
            return False
        last_index = replica.log.last_index
        return (
            replica.committed == last_index == replica.durability.durable_index == replica.applied
            and not replica.configuration.is_joint
            and len(self._reads) == 0
            and self._transfer.target is None
            and all(
                progress.match_index == last_index and replica.quiescence.is_process_alive(progress.member)
                for progress in self._find_counted_members()
            )
        )

    def _advance_handshake(self) -> None:
        """Do one step of the handshake: prepare; commit when all members agree; quiesce when all are quiesced.

        A second phase that takes too long is abandoned."""
        replica, handshake = self._replica, self._handshake
        if handshake.is_late(replica.ticks, replica.settings.election_ticks_min):
            self._mark_active()
            self.replication.send_heartbeats()
        elif handshake.all_agree(self._find_counted_members()):
            handshake.note_committed(self.replication.send_heartbeats(replica.log.last_id, True), replica.ticks)
            self._quiesce_if_agreed()
        else:
            handshake.note_prepared(self.replication.send_heartbeats(replica.log.last_id))

    def _quiesce_if_agreed(self) -> bool:
        """Quiesce when all members have quiesced and there is still no work; return whether the leader quiesced."""
        if not (self._handshake.all_quiesced(self._find_counted_members()) and self._may_quiesce()):
            return False
        self._replica.quiesce()
        return True

    def _schedule_tick(self) -> None:
        """Set the next tick with work: heartbeat, CheckQuorum or the deadline of a transfer."""
        replica = self._replica
        if not replica.quiescence.is_quiesced:
            tick = self._heartbeat_tick
            if self._quorum_tick < tick:
                tick = self._quorum_tick
            replica.next_tick = min(tick, self._transfer.abort_tick)

    _HANDLERS: ClassVar[dict[type, Callable[["Leader", Any], None]]] = {
        AppendResponse: handle_append,
        HeartbeatResponse: handle_heartbeat,
        InstallResponse: handle_install,
        ReadIndexRequest: handle_read_index,
    }
