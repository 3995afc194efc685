"""The leader's side of replication: messages to each follower, and the effect of their answers.

Messages are made once per Ready, from the current progress of each follower, so many proposals travel in one append.
Followers that the quorum does not need get small appends later, several in one (`deferred_bytes_max`).
Answers are matched to requests by the leader's one sequence of numbers; a late or duplicated one can neither move a
follower back nor hold it up (thesis 3.5, 10.2.1)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.entry import Entry, EntryId
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    InstallResponse,
)
from raftlog.raft.progress import FollowerProgress, ProgressState
from raftlog.raft.quorum import quorum_value
from raftlog.raft.ready import FollowerStatus
from raftlog.raft.replica import RaftReplica
from raftlog.types import Index


class _AppendContent(NamedTuple):
    """Content of an append; followers with the same next index share it."""

    previous: EntryId
    entries: tuple[Entry, ...]
    size_bytes: int


class Replication:
    """Replication from the leader of one term to its followers."""

    __slots__ = (
        "_fastest",
        "_outgoing",
        "_replica",
        "_unsent_bytes",
        "_unsent_from",
        "_voters",
        "are_appends_deferred",
        "are_notices_due",
        "is_due",
        "may_commit",
        "progress",
        "sequence",
    )

    def __init__(self, replica: RaftReplica) -> None:
        """Begin to replicate to the other members of the configuration."""
        self._replica = replica
        self.progress: dict[ReplicaId, FollowerProgress] = {}
        """Progress of every other member of the configuration in effect, in ascending order."""
        self._voters: list[FollowerProgress | None] = []
        """Progress of the voters, None for the leader's own; that of the outgoing voters, while joint, is in
        `_outgoing`."""
        self._outgoing: list[FollowerProgress | None] = []
        self._fastest: list[FollowerProgress] = []
        """Followers that get every append at once: those of the quorum that answered fastest."""
        self._unsent_from = Index(0)
        """Index of the first new entry that may not have been sent to all followers."""
        self._unsent_bytes = 0
        """Bytes of the entries from `_unsent_from` on."""
        self.are_appends_deferred = False
        """Whether some followers lack entries until `send_deferred`."""
        self.sequence = 0
        """Number of the latest request of this term, to any follower."""
        self.is_due = False
        """Whether there may be an append to send."""
        self.may_commit = False
        """Whether there may be entries to commit."""
        self.are_notices_due = False
        """Whether a follower may hold committed entries without having got the commit index."""
        self.follow_configuration()

    def follow_configuration(self) -> None:
        """Add progress of new members, and remove that of former ones."""
        replica = self._replica
        members = [member for member in replica.configuration.all_members() if member != replica.me]
        next_index = Index(replica.log.last_index + 1)
        self.progress = {
            member: self.progress.get(member) or FollowerProgress(member, next_index, self.sequence, replica.ticks)
            for member in members
        }
        self._voters = [self.progress.get(voter) for voter in replica.configuration.voters]
        self._outgoing = [self.progress.get(voter) for voter in replica.configuration.outgoing]
        self.is_due = self.may_commit = True
        self._choose_fastest()

    def _choose_fastest(self) -> None:
        """Choose the followers that get every append at once: those of a quorum; all while a configuration is joint."""
        voters = [progress for progress in self._voters if progress is not None]
        needed = len(self._voters) // 2 + 1 - (None in self._voters)
        if self._outgoing or not self._replica.settings.deferred_bytes_max:
            self._fastest = list(self.progress.values())
        else:
            prompt = self._fastest
            voters.sort(key=lambda progress: (progress.match_index, progress in prompt), reverse=True)
            self._fastest = voters[:needed]

    def next_sequence(self) -> int:
        """Return the number of the leader's next request."""
        self.sequence += 1
        return self.sequence

    # state of a quorum

    def quorum_durable(self) -> Index:
        """Return the last index that a quorum holds durably; the leader counts entries that it has synced itself."""
        own = self._replica.durability.durable_index
        return Index(
            quorum_value(
                [own if progress is None else progress.match_index for progress in self._voters],
                [own if progress is None else progress.match_index for progress in self._outgoing],
            )
        )

    def quorum_sequence(self) -> int:
        """Return the highest request number that a quorum has answered, the leader included.

        Each of these answers shows that its sender was not in a later term."""
        own = self.sequence
        return quorum_value(
            [own if progress is None else progress.acked_sequence for progress in self._voters],
            [own if progress is None else progress.acked_sequence for progress in self._outgoing],
        )

    def is_quorum_active(self) -> bool:
        """Return whether a quorum answered since the last call of `begin_period`; the leader counts itself."""
        return _is_majority_active(self._voters) and (not self._outgoing or _is_majority_active(self._outgoing))

    def begin_period(self) -> None:
        """Begin a new period of CheckQuorum."""
        for progress in self.progress.values():
            progress.was_active, progress.is_active = progress.is_active, False

    def statuses(self) -> tuple[FollowerStatus, ...]:
        """Return the progress of all followers, in ascending order."""
        committed, ticks = self._replica.committed, self._replica.ticks
        return tuple(progress.status(committed, ticks) for progress in self.progress.values())

    def note_commit(self, before: Index) -> None:
        """Record that the commit index moved up from `before`."""
        ticks, committed = self._replica.ticks, self._replica.committed
        for progress in self.progress.values():
            progress.note_commit(before, ticks)
        if len(self._fastest) < len(self.progress) and any(each.match_index < committed for each in self._fastest):
            self._choose_fastest()  # others were faster; they may lack deferred entries
            self.is_due = True

    # sending

    def note_proposed(self, first_index: Index, size_bytes: int) -> None:
        """Record that new entries from `first_index` on, of `size_bytes` in total, are to be sent to the followers."""
        self.is_due = True
        if not self._unsent_bytes:
            self._unsent_from = first_index
        self._unsent_bytes += size_bytes

    def send_appends(self) -> None:
        """Send each follower the entries that it lacks, as far as its window allows, or defer them."""
        self.is_due = False
        contents: dict[tuple[Index, int, int], _AppendContent] = {}
        self.are_appends_deferred = False
        may_defer = 0 < self._unsent_bytes <= self._replica.settings.deferred_bytes_max
        if not may_defer:
            self._unsent_bytes = 0
        for progress in self.progress.values():
            if may_defer and self._try_defer(progress):
                continue
            while self._send_next_append(progress, contents):
                pass

    def _try_defer(self, progress: FollowerProgress) -> bool:
        """Return whether this follower's append is deferred: it is outside the quorum, and lacks only new entries."""
        if (
            progress.state is not ProgressState.REPLICATE
            or progress.next_index < self._unsent_from
            or progress in self._fastest
        ):
            return False
        if progress.next_index <= self._replica.log.last_index:
            self.are_appends_deferred = True
        return True

    def send_deferred(self) -> None:
        """Plan the deferred appends for the next Ready, and choose the fastest followers again."""
        self._choose_fastest()
        self._unsent_bytes = 0
        self.is_due = True

    def send_commit_notices(self) -> None:
        """Send the commit index to followers that hold more committed entries than the last one they got."""
        replica = self._replica
        self.are_notices_due = False
        for progress in self.progress.values():
            known = min(replica.committed, progress.match_index)
            if progress.sent_commit < known:
                progress.sent_commit = known
                replica.send(Heartbeat(replica.me, progress.member, replica.term, 0, known))

    def send_heartbeats(
        self,
        quiesce_at: EntryId | None = None,
        must_quiesce: bool = False,
        to: Mapping[ReplicaId, FollowerProgress] | None = None,
    ) -> int:
        """Send heartbeats with the same number to each follower, or to those in `to`; return the number."""
        replica = self._replica
        me, term, committed, outbox = replica.me, replica.term, replica.committed, replica.outbox
        self.sequence = sequence = self.sequence + 1
        # A process with thousands of idle Raft groups spends most of its time here, so the loop avoids calls; that of
        # the constructor takes as long as making the tuple.
        new = tuple.__new__
        for member, progress in (self.progress if to is None else to).items():
            match = progress.match_index
            known = match if match < committed else committed
            if progress.sent_commit < known:
                progress.sent_commit = known
            if progress.mark_sequence == 0:
                progress.mark_heartbeat(sequence)
            outbox.append(new(Heartbeat, (me, member, term, sequence, known, quiesce_at, must_quiesce)))
        return sequence

    def send_round(self) -> int:
        """Send heartbeats to as many followers as a quorum needs, those with the latest answers; return their number.

        All followers get one while a configuration is joint, or when too few answered in this period of CheckQuorum.
        The number is the `sequence` of all these heartbeats."""
        needed = len(self._voters) // 2 + 1 - (None in self._voters)
        active = [progress for progress in self._voters if progress is not None and progress.is_active]
        if self._outgoing or len(active) < needed:
            return self.send_heartbeats()
        active.sort(key=lambda progress: progress.acked_sequence, reverse=True)
        return self.send_heartbeats(to={progress.member: progress for progress in active[:needed]})

    def _send_next_append(
        self, progress: FollowerProgress, contents: dict[tuple[Index, int, int], _AppendContent]
    ) -> bool:
        """Send one append or offer, if one is due; return true when another may be due."""
        replica = self._replica
        log = replica.log
        is_probe = progress.state is not ProgressState.REPLICATE
        if progress.next_index > log.last_index and (not is_probe or progress.is_probe_sent):
            return False
        if progress.next_index <= log.boundary.index or self._must_fetch(progress):
            self._offer_installation(progress)
            return False
        if progress.state is ProgressState.CATCH_UP:
            progress.become_probe(progress.next_index, self.sequence)
        max_entries, max_bytes = progress.find_room(replica.settings)
        if max_entries <= 0 or max_bytes <= 0:
            return False
        key = (progress.next_index, max_entries, max_bytes)
        content = contents.get(key) or contents.setdefault(key, self._read_content(*key))
        sequence = self.next_sequence()
        replica.send(
            AppendRequest(
                replica.me,
                progress.member,
                replica.term,
                sequence,
                content.previous,
                content.entries,
                replica.committed,
                is_probe,
            )
        )
        last_sent = Index(content.previous.index + len(content.entries))
        progress.sent_commit = max(progress.sent_commit, min(replica.committed, last_sent))
        if is_probe:
            progress.note_probe(sequence)
            return False
        progress.note_append(last_sent, content.size_bytes)
        return last_sent < log.last_index

    def _read_content(self, first: Index, max_entries: int, max_bytes: int) -> _AppendContent:
        """Return previous entry and entries of an append from `first` on; no entries after the end of the log."""
        log = self._replica.log
        previous = EntryId(Index(first - 1), log.term_at(Index(first - 1)))
        if first > log.last_index:
            return _AppendContent(previous, (), 0)
        entries = log.entries(first, max_entries, max_bytes)
        return _AppendContent(previous, entries, sum([entry.size_bytes for entry in entries]))

    def _must_fetch(self, progress: FollowerProgress) -> bool:
        """Return whether the follower lacks so many bytes that it must fetch them instead of receiving appends."""
        if progress.state is ProgressState.PROBE:
            return False
        lacks_bytes = self._replica.log.view.stored_bytes_from(progress.next_index)
        least = self._replica.settings.fetch_bytes_min
        return lacks_bytes > (least if progress.state is ProgressState.REPLICATE else least // 4)

    def _offer_installation(self, progress: FollowerProgress) -> None:
        """Ask the follower to fetch the entries that it lacks; at most one offer is in flight."""
        replica = self._replica
        if progress.state is not ProgressState.CATCH_UP:
            progress.become_catch_up(progress.next_index, self.sequence)
        if progress.is_probe_sent:
            return
        sequence = self.next_sequence()
        progress.note_probe(sequence)
        boundary = replica.log.boundary
        replica.send(InstallOffer(replica.me, progress.member, replica.term, sequence, boundary, replica.committed))

    # answers

    def handle_append(self, message: AppendResponse) -> None:
        """Process the answer to an append, acknowledgement or refusal; ignore it if its indexes are impossible."""
        progress = self._record_answer(message.sender, message.sequence)
        if progress is None or not self._are_possible_indexes(message.durable, message.written, message.verified):
            return
        progress.awake_sequence = max(progress.awake_sequence, message.sequence)
        if message.is_accepted:
            self._accept(progress, message)
        else:
            self._handle_rejection(progress, message)

    def handle_heartbeat(self, message: HeartbeatResponse) -> None:
        """Process the answer to a heartbeat; send again from the last common entry when it shows lost appends."""
        progress = self._record_answer(message.sender, message.sequence)
        if progress is None or not self._are_possible_indexes(message.durable, message.durable, message.verified):
            return
        if message.is_quiesced:
            progress.quiesced_sequence = max(progress.quiesced_sequence, message.sequence)
        else:
            progress.awake_sequence = max(progress.awake_sequence, message.sequence)
        if message.may_quiesce:
            progress.agreed_sequence = max(progress.agreed_sequence, message.sequence)
        self._acknowledge(progress, message.durable)
        if progress.has_lost_probe(message.sequence):
            progress.is_probe_sent = False
            self.is_due = True
        elif progress.detect_lost_appends(message.sequence, message.verified):
            progress.become_probe(Index(message.verified + 1), self.sequence)
            self.is_due = True

    def handle_install(self, message: InstallResponse) -> None:
        """Process the answer to an offer; resume appends when the follower has fetched enough."""
        progress = self._record_answer(message.sender, message.sequence)
        boundary = message.boundary
        if progress is None or not message.is_reached or boundary.index > self._replica.log.last_index:
            return
        self._acknowledge(progress, boundary.index)
        log = self._replica.log
        next_index = Index(min(message.last_index, log.last_index) + 1)
        if progress.state is not ProgressState.CATCH_UP or next_index <= log.boundary.index:
            return
        # Its log continues after the boundary, so begin at its end, unless there is much more to fetch.
        if log.view.stored_bytes_from(next_index) <= self._replica.settings.fetch_bytes_min:
            progress.become_probe(next_index, self.sequence)
            self.is_due = True

    def _are_possible_indexes(self, durable: Index, written: Index, verified: Index) -> bool:
        """Return whether these indexes are possible for a follower of this term: none above the leader's last one."""
        return durable <= written <= verified <= self._replica.log.last_index

    def _record_answer(self, sender: ReplicaId, sequence: int) -> FollowerProgress | None:
        """Record that `sender` answered, and return its progress.

        None for a replica outside of the configuration and for an answer to a request that was never sent."""
        progress = self.progress.get(sender)
        if progress is None or sequence > self.sequence:
            return None
        progress.is_active = True
        progress.acked_sequence = max(progress.acked_sequence, sequence)
        return progress

    def _acknowledge(self, progress: FollowerProgress, durable: Index) -> None:
        """Record the durable index of a follower, and plan the work that it allows.

        An index up to the commit index can commit nothing; one at the log's end may complete a transfer."""
        if progress.acknowledge(durable, self.sequence):
            self.are_notices_due = True
            last_index = self._replica.log.last_index
            if durable > self._replica.committed or durable == last_index:
                self.may_commit = True
            if progress.next_index <= last_index or progress.state is not ProgressState.REPLICATE:
                self.is_due = True
        progress.update_held_tick(self._replica.committed, self._replica.ticks)

    def _accept(self, progress: FollowerProgress, message: AppendResponse) -> None:
        """Record accepted entries; begin to pipeline after a probe, or to probe after catch-up."""
        self._acknowledge(progress, message.durable)
        agreed = max(message.verified, progress.match_index)
        if progress.state is ProgressState.PROBE and agreed >= progress.next_index - 1:
            progress.become_replicate(agreed, self.sequence)
            self.is_due = True
        elif progress.state is ProgressState.CATCH_UP and progress.match_index >= self._replica.log.boundary.index:
            if not self._must_fetch(progress):
                progress.become_probe(progress.next_index, self.sequence)
            self.is_due = True

    def _handle_rejection(self, progress: FollowerProgress, message: AppendResponse) -> None:
        """Handle a follower's rejection of an append.

        Probe again from the leader's last entry at or below the hint and of no later term. If that lies
        below the log start, the follower has to catch up."""
        hint = message.hint
        if hint is None or message.sequence <= progress.probe_sequence:
            return
        if hint.index < progress.match_index:
            if message.sequence <= progress.match_sequence:
                return
            # The follower had acknowledged more before: it lost acknowledged entries. The commit index stays.
            progress.note_loss(hint.index)
        log = self._replica.log
        self.is_due = True
        if hint.index < log.boundary.index:
            progress.become_catch_up(Index(hint.index + 1), self.sequence)
            return
        agreed = log.last_index_of_term(min(hint.index, log.last_index), hint.term)
        if log.term_at(agreed) > hint.term:
            progress.become_catch_up(log.boundary.index, self.sequence)
            return
        progress.become_probe(Index(agreed + 1), self.sequence)


def _is_majority_active(half: Sequence[FollowerProgress | None]) -> bool:
    """Return whether a majority of `half` answered in this period; None is the leader itself."""
    count = 0
    for progress in half:
        if progress is None or progress.is_active:
            count += 1
    return 2 * count > len(half)
