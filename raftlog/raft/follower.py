"""A follower (or learner): appends the leader's entries, acknowledges them, and monitors the leader.

    committed ≤ verified ≤ last index,   acknowledged = min(durable, verified)

Up to `verified` the log is known to equal that of this term's leader. Messages of the term's leader never make the
follower cut below it, and the follower takes the leader's commit index only up to it."""

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.entry import Entry, EntryId
from raftlog.raft.message_errors import Contradiction
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    InstallResponse,
    Message,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
)
from raftlog.raft.read_index import ForwardedReads
from raftlog.raft.ready import ReadReady, RefusalReason, RefusedProposal, Role
from raftlog.raft.replica import NEVER, RaftReplica
from raftlog.raft.role import RoleChange
from raftlog.types import Index

_SKIPPED_TIMEOUTS_MAX = 3
"""Election timeouts for which an unfit replica does not campaign; after them it does: there may be no fit candidate."""


class Follower:
    """Role of a replica that follows a leader, or waits for one, in one term."""

    __slots__ = (
        "_acknowledged",
        "_contact_tick",
        "_heartbeat_sequence",
        "_is_answer_owed",
        "_reads",
        "_replica",
        "_sequence",
        "_skipped_timeouts",
        "_timeout",
        "_timer_tick",
        "_wake_deadline_tick",
        "_wake_tick",
        "leader",
        "role",
        "verified",
    )

    def __init__(self, replica: RaftReplica, leader: ReplicaId | None) -> None:
        """Begin as follower of `leader`, None if it is unknown."""
        self.role = Role.FOLLOWER
        self._replica = replica
        self.leader = leader
        self.verified = replica.committed
        """Last index up to which the log is known to equal the leader's, raised by the leader's appends.

        At first it is the commit index, because every leader has all committed entries."""
        self._acknowledged = min(replica.durability.durable_index, self.verified)
        self._sequence = 0
        """Number of the latest append that was accepted."""
        self._heartbeat_sequence = 0
        """Number of the latest heartbeat that was answered."""
        self._is_answer_owed = False
        self._contact_tick = replica.ticks if leader else -NEVER
        """Tick of the last message of this term's leader; votes are refused for a time after it."""
        self._wake_deadline_tick = -NEVER
        """Tick until which a leader that was sent a wake has time for a heartbeat, as long as its process is alive."""
        self._timer_tick = replica.ticks
        """Tick at which the election timer began; a message of the leader and a granted vote restart it."""
        self._timeout = replica.draw_election_ticks()
        self._skipped_timeouts = 0
        """Number of consecutive election timeouts that an unfit replica let pass."""
        self._wake_tick = replica.ticks if replica.quiescence.replicas_to_wake else NEVER
        self._reads = ForwardedReads(replica.settings.pending_reads_max)
        self._schedule_tick()

    def has_leader_contact(self) -> bool:
        """Return whether the leader sent a message recently, or has time left to answer a wake."""
        replica = self._replica
        if replica.ticks - self._contact_tick < replica.settings.election_ticks_min:
            return True
        return (
            replica.ticks < self._wake_deadline_tick
            and self.leader is not None
            and replica.quiescence.is_process_alive(self.leader)
        )

    def restart_timer(self) -> None:
        """Restart the election timer after a granted vote, so that the candidate has time to win."""
        self._timer_tick = self._replica.ticks

    def campaign_soon(self) -> RoleChange | None:
        """Return the change to pre-candidate; or None, after a shorter election timeout was set.

        The shorter timeout is some random ticks. It avoids split votes if several voters may hold the same log."""
        replica = self._replica
        rivals = max(1, len(replica.configuration.voters) - 2)
        ticks = replica.random.randrange(rivals)
        if ticks == 0:
            return RoleChange(Role.PRE_CANDIDATE, "a candidate lacks entries that this replica holds")
        self._timer_tick = min(self._timer_tick, replica.ticks + ticks - self._timeout)
        self._schedule_tick()
        return None

    def read_index(self, request: Hashable) -> RefusedProposal | None:
        """Forward a read to the leader; return a refusal, or None if it was sent.

        The leader answers with the index that the read must wait for."""
        replica = self._replica
        if self.leader is None:
            return RefusedProposal(RefusalReason.NOT_LEADER, None)
        sequence = replica.next_sequence()
        if not self._reads.try_add(sequence, request, replica.ticks):
            return RefusedProposal(RefusalReason.OVERLOADED, self.leader)
        replica.send(ReadIndexRequest(replica.me, self.leader, replica.term, sequence))
        return None

    def step(self, message: Message) -> RoleChange | None:
        """Process a message of this term; ignore types that a follower does not expect."""
        handle = self._HANDLERS.get(type(message))
        return handle(self, message) if handle else None

    def tick(self) -> RoleChange | None:
        """Send wakes, fail old reads, and ask for pre-votes when the election timeout has passed.

        A replica that may not campaign, or is unfit to lead, forgets its leader instead and begins another timeout."""
        replica = self._replica
        if replica.ticks >= self._wake_tick:
            self._send_wake_messages()
        replica.reads.failed.extend(self._reads.drop_before(replica.ticks - replica.settings.election_ticks_min))
        if replica.ticks < self._timer_tick + self._timeout:
            self._schedule_tick()
            return None
        if replica.may_campaign():
            if not replica.is_unfit or self._skipped_timeouts >= _SKIPPED_TIMEOUTS_MAX:
                return RoleChange(Role.PRE_CANDIDATE, "no leader was heard in time")
            self._skipped_timeouts += 1
        self.leader = None
        self._timer_tick = replica.ticks
        self._schedule_tick()
        return None

    def prepare(self) -> RoleChange | None:
        """Acknowledge durable entries: when the leader asks for it, and whenever more became durable."""
        replica = self._replica
        leader = self.leader
        if leader is None or not (self._sequence or self._is_answer_owed):
            return None
        durable = min(replica.durability.durable_index, self.verified)
        if self._is_answer_owed or durable > self._acknowledged:
            self._acknowledged = durable
            self._is_answer_owed = False
            replica.send(
                AppendResponse(replica.me, leader, replica.term, self._sequence, True, self.verified, durable, durable)
            )
        return None

    def wake(self) -> None:
        """Forget earlier contact with the leader, and draw a new timeout, so that the timers of Raft groups differ."""
        self._contact_tick = -NEVER
        self._timeout = self._replica.draw_election_ticks()
        self.wake_leader()

    def wake_leader(self) -> None:
        """Restart the timer; wake the leader, which may be quiesced while this replica is not, if its process is alive.

        The leader has half an election timeout to send a heartbeat. Until then this replica votes for no candidate.
        Otherwise a request to one quiesced follower, or the return of a partitioned member, would depose a healthy
        leader."""
        replica, leader = self._replica, self.leader
        self._timer_tick = replica.ticks
        if leader is not None and replica.quiescence.is_process_alive(leader):
            self._wake_deadline_tick = replica.ticks + replica.settings.election_ticks_min // 2
            replica.quiescence.add_replicas_to_wake((leader,))
            self._send_wake_messages()
        self._schedule_tick()

    def leave(self) -> None:
        """End the role: fail the reads that were forwarded to the leader."""
        self._replica.reads.failed.extend(self._reads.drop_before(NEVER))

    # messages of the leader

    def handle_append(self, message: AppendRequest) -> None:
        """Append the entries that continue this log, and adopt the commit index; refuse entries after a gap."""
        self._record_contact(message.sender)
        replica = self._replica
        previous, entries = message.previous, message.entries
        if previous.index < replica.committed:
            previous, entries = self._skip_committed(message)
        if not replica.log.has_entry(previous):
            self._refuse(message)
            return
        is_new = bool(entries) and self._append_missing(entries, message)
        self.verified = max(self.verified, Index(previous.index + len(entries)))
        self._sequence = max(self._sequence, message.sequence)
        if message.is_probe or not is_new:
            self._is_answer_owed = True
        replica.advance_commit_index(min(message.committed, self.verified))

    def handle_heartbeat(self, message: Heartbeat) -> None:
        """Adopt the commit index, take part in the handshake to quiesce, and answer."""
        replica = self._replica
        is_late = message.sequence < self._heartbeat_sequence
        if is_late and replica.quiescence.is_quiesced:
            return
        replica.advance_commit_index(min(message.committed, self.verified))
        # Not for a late request to quiesce: the leader expects this replica to be awake.
        agrees = (
            not is_late and message.quiesce_at is not None and self._may_quiesce(message.sender, message.quiesce_at)
        )
        quiesces = agrees and message.must_quiesce
        self._record_contact(message.sender, stays_quiesced=quiesces)
        if quiesces:
            replica.quiesce()
        if message.sequence:
            self._heartbeat_sequence = max(self._heartbeat_sequence, message.sequence)
            durable = min(replica.durability.durable_index, self.verified)
            replica.send(
                HeartbeatResponse(
                    replica.me,
                    message.sender,
                    replica.term,
                    message.sequence,
                    self.verified,
                    durable,
                    agrees,
                    quiesces,
                )
            )

    def handle_offer(self, message: InstallOffer) -> None:
        """Pass the leader's offer to the driver; answer whether the durable log reaches the offered boundary."""
        self._record_contact(message.sender)
        replica = self._replica
        boundary = message.boundary
        if replica.committed >= boundary.index or replica.log.has_entry(boundary):
            self.verified = max(self.verified, boundary.index)
        replica.install_offer = message
        is_reached = min(self.verified, replica.durability.durable_index) >= boundary.index
        replica.send(
            InstallResponse(
                replica.me,
                message.sender,
                replica.term,
                message.sequence,
                boundary,
                is_reached,
                replica.log.last_index,
            )
        )

    def handle_timeout_now(self, message: TimeoutNow) -> RoleChange | None:
        """Begin an election at once, without pre-votes, as the leader requests."""
        self._record_contact(message.sender)
        if not self._replica.may_campaign():
            return None
        return RoleChange(Role.CANDIDATE, "the leader handed over", is_transfer=True)

    def handle_read_index(self, message: ReadIndexResponse) -> None:
        """Confirm or fail the forwarded read; ignore answers to reads that were dropped."""
        request = self._reads.pop(message.sequence)
        if request is None:
            return
        reads = self._replica.reads
        if message.index is None:
            reads.failed.append(request)
        else:
            reads.confirm(ReadReady(request, message.index), self._replica.applied)

    # parts of the above

    def _record_contact(self, sender: ReplicaId, *, stays_quiesced: bool = False) -> None:
        """Record a message of this term's leader: restart the election timer, and wake unless `stays_quiesced`."""
        replica = self._replica
        assert self.leader in (None, sender), f"{sender} was let through, and {self.leader} leads term {replica.term}"
        self.leader = sender
        quiescence = replica.quiescence
        if quiescence.is_quiesced and not stays_quiesced:
            quiescence.is_quiesced = False
            self._timeout = replica.draw_election_ticks()
            replica.next_tick = replica.ticks + self._timeout
        if self._wake_tick != NEVER:
            # The new leader's heartbeats wake replicas that are still quiesced.
            quiescence.clear_replicas_to_wake()
            self._wake_tick = NEVER
        self._contact_tick = self._timer_tick = replica.ticks
        self._skipped_timeouts = 0

    def _skip_committed(self, message: AppendRequest) -> tuple[EntryId, tuple[Entry, ...]]:
        """Return the id of the last committed entry, and the entries of the append that follow it.

        Every leader has all committed entries, so they need not be compared, and trimmed ones cannot be. Raises
        `Contradiction` when the last committed entry, which can be compared, differs."""
        replica, previous, entries = self._replica, message.previous, message.entries
        committed, term = replica.committed, replica.log.term_at(replica.committed)
        skipped = committed - previous.index
        if skipped <= len(entries):
            leader_term = entries[skipped - 1].term
            if leader_term != term:
                reason = f"entry {committed} is committed with term {term}; a leader has it with term {leader_term}"
                raise Contradiction(reason, message, None)
        return EntryId(committed, term), entries[skipped:]

    def _append_missing(self, entries: tuple[Entry, ...], message: AppendRequest) -> bool:
        """Append missing entries, after cutting those that conflict (and only then); return true when any was appended.

        Raises `Contradiction` for entries that differ from those that this term's leader sent before."""
        replica = self._replica
        log = replica.log
        last_index = log.last_index
        if entries[0].index <= last_index:
            missing = next(
                (at for at, entry in enumerate(entries) if not log.has_entry(EntryId(entry.index, entry.term))), None
            )
            if missing is None:
                return False
            entries = entries[missing:]
            if entries[0].index <= last_index:
                conflict = entries[0].index
                if conflict <= self.verified:
                    reason = (
                        f"entry {conflict} of a leader differs from what it had, up to {self.verified}, in this term"
                    )
                    raise Contradiction(reason, message, None)
                replica.cut_to(Index(conflict - 1))
        replica.append(entries)
        return True

    def _refuse(self, message: AppendRequest) -> None:
        """Refuse an append whose previous entry is not in this log; the hint is the last entry that may be common.

        The hint skips a whole term at a time."""
        replica = self._replica
        log = replica.log
        highest = min(message.previous.index, log.last_index)
        durable = min(replica.durability.durable_index, self.verified)
        hint = max(log.last_index_of_term(highest, message.previous.term), replica.committed)
        replica.send(
            AppendResponse(
                replica.me,
                message.sender,
                replica.term,
                message.sequence,
                False,
                self.verified,
                durable,
                durable,
                EntryId(hint, log.term_at(hint)),
            )
        )

    def _may_quiesce(self, leader: ReplicaId, at: EntryId) -> bool:
        """Return whether the log ends at the leader's last entry `at`, durable and committed, and no read waits."""
        replica = self._replica
        last = replica.log.last_id
        return (
            at == last
            and replica.committed == last.index == replica.durability.durable_index == self.verified
            and replica.quiescence.is_process_alive(leader)
            and len(self._reads) == 0
        )

    def _send_wake_messages(self) -> None:
        """Send wakes to all replicas that have not answered yet, and schedule the next ones a heartbeat later."""
        replica = self._replica
        to_wake = replica.quiescence.replicas_to_wake
        replica.send_wake(to_wake)
        self._wake_tick = replica.ticks + replica.settings.heartbeat_ticks if to_wake else NEVER

    def _schedule_tick(self) -> None:
        """Set the next tick with work: the election timeout or the next wake to send."""
        self._replica.next_tick = min(self._timer_tick + self._timeout, self._wake_tick)

    _HANDLERS: ClassVar[dict[type, Callable[["Follower", Any], RoleChange | None]]] = {
        AppendRequest: handle_append,
        Heartbeat: handle_heartbeat,
        InstallOffer: handle_offer,
        TimeoutNow: handle_timeout_now,
        ReadIndexResponse: handle_read_index,
    }
