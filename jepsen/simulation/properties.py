"""Properties of one Raft group, observed from outside while it runs, in time proportional to the changes.

    election safety             one leader per term
    log matching                an entry with the same index and term is the same everywhere, and so are all before it
    commit                      a quorum holds a committed entry durably; leaders count only entries of their own term
    membership                  one change at a time, those of voters through a joint configuration; after a restart
                                the newest committed one holds, or a later one
    leader completeness         the leader of a term has all entries that were committed in earlier terms
    state machine safety        at one index all replicas commit and apply the same entry
    boundary                    the id before a trimmed log is that of the committed entry
    promises                    votes, terms and durable positions that were sent to others survive every crash
    dense offsets               a committed entry begins where the one before it ends
    acknowledgement             an acknowledged entry is committed, and visible at the replica that acknowledged it;
                                nothing uncommitted is visible
    high watermark              never falls while a process runs

All state is kept in the harness: from Readys (`observe_ready`), messages (`observe_message`), recovered logs
(`observe_restart`) and answers (`observe_acknowledgement`). A broken property is `PropertyBroken`; nothing here is an
assertion, so it works under `python -O`. Called by `cluster` and `brokers.watch`.

The entries of a replica are followed as they are appended, so by induction log matching needs one check per entry and
replica; a commit then only compares terms."""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from crc32c import crc32c

from jepsen.simulation.promises import Promises
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.raft import Configuration, Entry, EntryId, LogView, Message, Ready, ReplicaId, Role
from raftlog.raft.messages import AppendRequest, InstallOffer
from raftlog.types import Index, Offset, Term

_BASE_OFFSET: Final = struct.Struct(">q")
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_DELTA_AT: Final = 23
FIRST_INDEX: Final = Index(1)
"""Index of the roll that every initial replica writes itself; this entry counts as committed."""


class ReplicaLog(LogView, Protocol):
    """Read access to a replica's log, for the checks."""

    def offset_of(self, index: Index) -> Offset:
        """Return the offset at which the entry at an index begins."""
        ...


class Replica(NamedTuple):
    """Replica since one start of its process."""

    me: ReplicaId
    incarnation: int

    def __str__(self) -> str:
        return f"n{self.me.node_id} (disk {str(self.me.disk_uuid)[:8]}, process {self.incarnation})"


class ObservedEntry(NamedTuple):
    """Entry as first observed: CRC-32C and size of its bytes, term of the entry before it, and its offsets."""

    checksum: int
    size: int
    previous_term: Term
    base_offset: Offset
    next_offset: Offset
    seen_by: str


class RecoveredState(NamedTuple):
    """State that a process recovered at its start: the newest readable entries, and its committed index."""

    entries: Sequence[Entry]
    committed: Index
    high_watermark: Offset
    term: Term
    configuration: Configuration
    voting_position: EntryId | None
    """Last entry of a log whose end was lost, if the replica reports that and votes as if it still held the entry."""
    is_damaged: bool = False
    """Whether it has unreadable entries, which may contain its Raft configuration."""


class ReplicaState(NamedTuple):
    """State of a replica after a Ready."""

    term: Term
    leads: bool
    configuration: Configuration
    high_watermark: Offset


def _ignore_configuration(*_: object) -> None:
    return None


class ObservedReplica:
    """Observed progress of a replica since one start of its process."""

    __slots__ = ("committed", "configurations", "held", "high_watermark")

    def __init__(self) -> None:
        self.committed = Index(0)
        self.held: Configuration | None = None
        """Configuration in use."""
        self.configurations: list[Configuration] = []
        """Configurations in its log that were observed, in ascending order."""
        self.high_watermark = Offset(0)


def configuration_error(before: Configuration, after: Configuration, committed: Index) -> str | None:
    """Return the error in the step from one configuration to the next in a log; None without any."""
    if before.index > committed:
        return "the one before is not committed"
    if before.is_joint:
        is_exit = not after.is_joint and after.voters == before.voters
        return None if is_exit else "only the exit follows a joint one"
    if after.voters != before.voters and after.outgoing != before.voters:
        return "voters change without a joint one"
    return None


class GroupProperties:
    """Checks of the Raft properties of one group, from observed Readys and messages; `name` is used in reports."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.leaders: dict[Term, ReplicaId] = {}
        self.entries: dict[tuple[Index, Term], ObservedEntry] = {}
        self.committed: dict[Index, Term] = {}
        """The term of the entry at every committed index."""
        self.committed_index = Index(0)
        self.committed_offset = Offset(0)
        self.configurations: dict[tuple[Index, Term], Configuration] = {}
        """Configurations by the entries that contain them."""
        self.committed_configurations: list[Configuration] = []
        """Committed Raft configurations in ascending order."""
        self.promises = Promises(name)
        self.on_members: Callable[[Replica, Configuration, Entry], None] = _ignore_configuration
        """Called when a leader appends a new Raft configuration."""
        self._commit_terms: list[tuple[Term, Index]] = []
        """Highest index committed by leaders of each term that raised the committed index; terms and indexes rise."""
        self._observed: dict[Replica, ObservedReplica] = {}

    # Readys

    def observe_ready(self, replica: Replica, log: ReplicaLog, ready: Ready, now: ReplicaState) -> None:
        """Check a Ready after the driver has executed it: cut, appended, sent, applied."""
        term = now.term
        if ready.cut_to is not None:
            self._check_cut(replica, log, ready.cut_to, term)
        if ready.entries:
            self._check_entries(replica, log, ready.entries)
        role = ready.role_state
        if role is not None and role.role is Role.LEADER:
            self._check_leader(replica, log, role.term)
        observed = self._observed.get(replica)
        if observed is None:
            observed = self._observed[replica] = ObservedReplica()
        observed.held = now.configuration
        if ready.committed_index > observed.committed:
            if now.leads:
                self._check_own_term(replica, log, ready.committed_index, term)
            if now.leads and not self.promises.can_be_committed(
                replica.me, term, ready.committed_index, now.configuration, log
            ):
                self._fail("commit-without-quorum", replica, term=term, committed=ready.committed_index)
            self._check_commit(replica, log, observed, ready.committed_index, term)
        if ready.cut_to is not None or ready.entries:
            self._check_configurations(replica, observed, ready, now, log.boundary.index)
        elif observed.configurations and now.configuration.index > observed.configurations[-1].index:
            observed.configurations.append(now.configuration)  # it was damaged, and can be read again
        if ready.apply is not None and ready.apply.last > self.committed_index:
            self._fail("applied-uncommitted", replica, applied=ready.apply.last, committed=self.committed_index)
        if now.high_watermark != observed.high_watermark:
            self._check_watermark(replica, observed, now.high_watermark)

    def _check_configurations(
        self, replica: Replica, observed: ObservedReplica, ready: Ready, now: ReplicaState, boundary: Index
    ) -> None:
        """Check that leaders make one change at a time, and those of voters by a joint configuration (thesis 4.3)."""
        cut_to, known = ready.cut_to, observed.configurations
        while cut_to is not None and known and known[-1].index > cut_to:
            known.pop()
        if known and known[-1].index <= boundary:
            known.clear()  # perhaps the log was installed, and there were others between
        for entry in ready.entries:
            follows = entry.configuration
            if follows is not None:
                if now.leads and known:
                    before = known[-1]
                    if why := configuration_error(before, follows, self.committed_index):
                        self._fail("membership", replica, why=why, configuration=follows, before=before)
                    self.on_members(replica, before, entry)
                known.append(follows)

    def _check_cut(self, replica: Replica, log: ReplicaLog, cut_to: Index, term: Term) -> None:
        """Check that a cut keeps all committed and all promised entries."""
        observed = self._observed.get(replica)
        if observed is not None and cut_to < observed.committed:
            self._fail("committed-cut", replica, cut_to=cut_to, committed=observed.committed)
        self.promises.record_cut(replica.me, cut_to, term, log)

    def _check_entries(self, replica: Replica, log: ReplicaLog, entries: Sequence[Entry]) -> None:
        """Check new entries, which follow each other in the log."""
        previous = log.term_at(Index(entries[0].index - 1))
        for entry in entries:
            self._check_entry(replica, entry, previous)
            previous = entry.term

    def _check_entry(self, replica: Replica, entry: Entry, previous: Term) -> None:
        """Check that an entry equals the first observed one of its index and term (log matching), or record it.

        `previous` is the term of the entry before it."""
        payload = entry.payload
        checksum = crc32c(payload)
        known = self.entries.get((entry.index, entry.term))
        if known is None:
            base = _BASE_OFFSET.unpack_from(payload)[0]
            after = Offset(base + _LAST_OFFSET_DELTA.unpack_from(payload, _DELTA_AT)[0] + 1)
            self.entries[entry.index, entry.term] = ObservedEntry(
                checksum, len(payload), previous, base, after, str(replica)
            )
            if entry.configuration is not None:
                self.configurations[entry.index, entry.term] = entry.configuration
        elif known.checksum != checksum or known.size != len(payload) or known.previous_term != previous:
            self._fail(
                "log-matching",
                replica,
                index=entry.index,
                term=entry.term,
                here=f"{len(payload)} bytes, CRC {checksum:08x}, behind term {previous}",
                there=f"{known.size} bytes, CRC {known.checksum:08x}, behind term {known.previous_term}",
                first_seen_by=known.seen_by,
            )

    def _check_leader(self, replica: Replica, log: ReplicaLog, term: Term) -> None:
        """Check that the leader is the only one of its term, and has all entries committed in earlier terms."""
        leader = self.leaders.setdefault(term, replica.me)
        if leader != replica.me:
            self._fail("election-safety", replica, term=term, other_leader=str(leader))
        before = max((index for committed_in, index in self._commit_terms if committed_in < term), default=Index(0))
        if before == 0:
            return
        if log.last_index < before:
            self._fail("leader-completeness", replica, term=term, last=log.last_index, committed=before)
        if before > log.boundary.index and log.term_at(before) != self.committed[before]:
            self._fail(
                "leader-completeness",
                replica,
                term=term,
                index=before,
                holds_term=log.term_at(before),
                committed_term=self.committed[before],
            )

    def _check_own_term(self, replica: Replica, log: ReplicaLog, committed: Index, term: Term) -> None:
        """Check that a leader commits by counting only entries of its own term (thesis 3.6.2)."""
        of_term = log.term_at(committed)
        if committed > self.committed_index and of_term != term:
            self._fail("old-term-committed", replica, index=committed, entry_term=of_term, term=term)

    def _check_commit(
        self, replica: Replica, log: ReplicaLog, observed: ObservedReplica, committed: Index, term: Term
    ) -> None:
        """Record and check the entries that a replica learns to be committed, up to index `committed`."""
        first = max(observed.committed, log.boundary.index) + 1
        for number in range(first, min(committed, log.last_index) + 1):
            self._record_committed(replica, Index(number), log.term_at(Index(number)))
        observed.committed = committed
        if committed > self.committed_index:
            self._fail("committed-unknown", replica, committed=committed, last=log.last_index)
        if not self._commit_terms or committed > self._commit_terms[-1][1]:
            latest = max(term, self._commit_terms[-1][0]) if self._commit_terms else term
            self._commit_terms.append((latest, committed))

    def _record_committed(self, replica: Replica, index: Index, term: Term) -> None:
        """Record the term of the entry at a committed index.

        Checks that no other entry was committed there, and that the new one was observed and follows the last one."""
        known = self.committed.get(index)
        if known is not None:
            if known != term:
                self._fail("state-machine-safety", replica, index=index, commits_term=term, committed_term=known)
            return
        self.committed[index] = term
        stored = self.entries.get((index, term))
        if stored is None or index != self.committed_index + 1:
            self._fail("committed-unseen", replica, index=index, term=term, committed=self.committed_index)
        elif stored.base_offset != self.committed_offset:
            begins, ends = stored.base_offset, self.committed_offset
            self._fail("dense-offsets", replica, index=index, begins=begins, previous_ends=ends)
        else:
            self.committed_index, self.committed_offset = index, stored.next_offset
            if (index, term) in self.configurations:
                self.committed_configurations.append(self.configurations[index, term])

    def _check_watermark(self, replica: Replica, observed: ObservedReplica, high_watermark: Offset) -> None:
        """Check that the high watermark does not fall and shows only committed records."""
        if high_watermark < observed.high_watermark:
            self._fail("high-watermark-back", replica, now=high_watermark, before=observed.high_watermark)
        if high_watermark > self.committed_offset:
            self._fail("uncommitted-visible", replica, visible=high_watermark, committed=self.committed_offset)
        observed.high_watermark = high_watermark

    def held_configurations(self) -> dict[ReplicaId, Configuration]:
        """Return the last observed configuration of each replica, from its latest start."""
        return {replica.me: observed.held for replica, observed in self._observed.items() if observed.held is not None}

    # everything else that is seen

    def observe_restart(self, replica: Replica, log: ReplicaLog, recovered: RecoveredState) -> None:
        """Check a log that a process recovered from its disk, or created."""
        for entry in recovered.entries:
            self._check_recovered(replica, entry)
            if entry.index <= recovered.committed and self.committed.get(entry.index, entry.term) != entry.term:
                holds, committed = entry.term, self.committed[entry.index]
                self._fail("recovered-uncommitted", replica, index=entry.index, term=holds, committed_term=committed)
        self.promises.check_term(replica.me, recovered.term)
        self.promises.check_log(replica.me, log, recovered.voting_position)
        self._observed[replica] = observed = ObservedReplica()
        observed.committed = recovered.committed
        observed.held = recovered.configuration
        observed.configurations.append(recovered.configuration)
        if recovered.committed > max(self.committed_index, FIRST_INDEX):
            known = self.committed_index
            self._fail("recovered-uncommitted", replica, committed=recovered.committed, committed_anywhere=known)
        self._check_watermark(replica, observed, recovered.high_watermark)
        if not recovered.is_damaged:
            self._check_configuration(replica, recovered.configuration, recovered.committed)

    def _check_configuration(self, replica: Replica, configuration: Configuration, committed: Index) -> None:
        """Check that a recovered configuration is the newest one known to be committed, or a later one."""
        newest = next((each for each in reversed(self.committed_configurations) if each.index <= committed), None)
        if newest is not None and (
            configuration.index < newest.index or (configuration.index == newest.index and configuration != newest)
        ):
            self._fail("old-configuration", replica, holds=configuration, newest=newest, committed=committed)

    def _check_recovered(self, replica: Replica, entry: Entry) -> None:
        """Check that an entry recovered from a disk was observed before with the same bytes.

        The first roll need not have been observed: each initial replica writes it itself."""
        known = self.entries.get((entry.index, entry.term))
        if known is not None:
            if (known.checksum, known.size) != (crc32c(entry.payload), len(entry.payload)):
                self._fail("recovered-other-bytes", replica, index=entry.index, term=entry.term)
        elif entry.index == FIRST_INDEX:
            self._check_entry(replica, entry, Term(0))
            self._record_committed(replica, entry.index, entry.term)
        else:
            self._fail("recovered-unknown-entry", replica, index=entry.index, term=entry.term)

    def observe_message(self, message: Message, log: LogView, term: Term) -> None:
        """Check a sent message of a replica with this log and term."""
        kind = type(message)
        if kind is InstallOffer:
            self._check_boundary(message, message.boundary)  # type: ignore[union-attr]
        elif kind is AppendRequest and message.previous.index == log.boundary.index:  # type: ignore[union-attr]
            self._check_boundary(message, message.previous)  # type: ignore[union-attr]
        self.promises.observe_message(message, log, term)

    def _check_boundary(self, message: Message, boundary: EntryId) -> None:
        """Check that the entry before a trimmed log was committed, with the term in the message."""
        if boundary.index > 0 and self.committed.get(boundary.index) != boundary.term:
            committed = self.committed.get(boundary.index)
            numbers = {"group": self.name, "replica": message.sender, "told": boundary, "committed_term": committed}
            raise PropertyBroken("boundary-term", numbers)

    def observe_acknowledgement(
        self,
        replica: Replica,
        term: Term,
        first: Index,
        last: Index,
        offsets: tuple[Offset, Offset],
        visible: Offset | None,
    ) -> None:
        """Check entries that were acknowledged to a client.

        `visible` is the high watermark at this replica, None if another replica is leader, so that this one has no
        readers."""
        for number in (first, last):
            if self.committed.get(number) != term:
                held = self.committed.get(number)
                self._fail("acknowledged-uncommitted", replica, index=number, term=term, committed_term=held)
        stored = self.entries.get((first, term))
        if stored is not None and stored.base_offset != offsets[0]:
            self._fail("acknowledged-elsewhere", replica, index=first, told=offsets[0], stored=stored.base_offset)
        if visible is not None and visible < offsets[1]:
            self._fail("acknowledged-invisible", replica, visible=visible, acknowledged=offsets[1])

    def _fail(self, name: str, replica: Replica, **numbers: object) -> None:
        """Raise `PropertyBroken` with the group, the replica and the evidence."""
        raise PropertyBroken(name, {"group": self.name, "replica": str(replica), **numbers})
