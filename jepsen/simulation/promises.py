"""Promises that replicas sent and must keep: terms, votes, and durable positions of their logs.

A crash may revert all state that no message carried. So promises are read from the messages themselves, as they are
handed to the network, and compared with later messages and with the state of a restarted replica. A replica whose disk
is lost returns under another disk uuid, as another replica, and is bound by no promise."""

from typing import NamedTuple

from jepsen.simulation.verdicts import PropertyBroken
from raftlog.raft import Configuration, LogView, Message, ReplicaId
from raftlog.raft.entry import EntryId, is_at_least_as_up_to_date
from raftlog.raft.messages import AppendResponse, HeartbeatResponse, InstallResponse, VoteRequest, VoteResponse
from raftlog.types import Index, Term


class DurablePromise(NamedTuple):
    """Last durable entry that a replica reported and did not cut off since, and its promise to a leader.

    The leader of term `reported_in` received the report that the logs agree up to `reported`, so the replica cuts off
    nothing of that while the term lasts."""

    entry: EntryId
    reported_in: Term
    reported: Index


class Promises:
    """Promises that the replicas of one Raft group have sent: votes, terms and durable entries."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._terms: dict[ReplicaId, Term] = {}
        """Latest term in a message of each replica. Messages of one turn to different nodes can have any order."""
        self._votes: dict[tuple[ReplicaId, Term], ReplicaId] = {}
        self._durable: dict[ReplicaId, DurablePromise] = {}
        self._former: dict[ReplicaId, EntryId] = {}
        """Entry that a replica held when the Raft group removed it, before it was added again."""
        self._candidates: dict[tuple[ReplicaId, Term], EntryId] = {}
        """Last entry of each candidate's log according to its vote request."""
        self._durable_reports: dict[tuple[ReplicaId, Term], Index] = {}
        """Durable position of each replica as reported to the leader of a term.

        A deposed leader that has not noticed may still commit by late messages."""

    def observe_message(self, message: Message, log: LogView, term: Term) -> None:
        """Check and record the promises in a sent message.

        `log` is the sender's log, and `term` its present term: the message may have waited for a sync."""
        sender = message.sender
        if message.term > self._terms.get(sender, 0):
            self._terms[sender] = message.term
        kind = type(message)
        if kind is AppendResponse or kind is HeartbeatResponse:
            if message.term == term:
                self._record_durable(sender, term, message.durable, log)  # type: ignore[union-attr]
        elif isinstance(message, VoteResponse):
            if message.is_granted:
                self._record_vote(sender, message.term, message.to)
                self._check_candidate(sender, message.term, message.to)
        elif isinstance(message, VoteRequest):
            self._candidates[sender, message.term] = message.last
            self._record_vote(sender, message.term, sender)
        elif isinstance(message, InstallResponse) and message.is_reached and message.term == term:
            self._record_durable(sender, term, message.boundary.index, log)

    def record_cut(self, replica: ReplicaId, cut_to: Index, term: Term, log: LogView) -> None:
        """Record that a replica in `term` removed all entries above `cut_to`.

        Raises `PropertyBroken` if the replica had reported one of them as durable to the leader of this term."""
        held = self._durable.get(replica)
        if held is None:
            return
        if held.reported_in == term and held.reported > cut_to:
            numbers = {
                "group": self.name,
                "replica": replica,
                "term": term,
                "promised": held.reported,
                "cut_to": cut_to,
            }
            raise PropertyBroken("durable-cut", numbers)
        if held.entry.index > cut_to:
            self._durable[replica] = held._replace(entry=EntryId(cut_to, log.term_at(cut_to)))

    def can_be_committed(
        self, leader: ReplicaId, term: Term, committed: Index, configuration: Configuration, log: LogView
    ) -> bool:
        """Return whether a quorum can hold a leader's commit durably.

        A voter counts if it has reported a durable position of at least `committed` to the leader of this term. If
        these voters are no majority, the leader must count itself, and its durable position is recorded as a
        promise."""
        for half in (configuration.voters, configuration.outgoing):
            others = sum(voter != leader and self._has_reported(voter, term, committed) for voter in half)
            majority = len(half) // 2 + 1
            if half and others < majority:
                if leader not in half or others + 1 < majority:
                    return False
                self._record_durable(leader, term, committed, log)
        return True

    def _has_reported(self, voter: ReplicaId, term: Term, index: Index) -> bool:
        """Return whether the voter reported to the leader of this term a durable position of at least `index`."""
        return self._durable_reports.get((voter, term), 0) >= index

    def has_promised(self, replica: ReplicaId) -> bool:
        """Return whether the replica has reported a durable entry to another one."""
        held = self._durable.get(replica)
        return held is not None and held.entry.index > 0

    def record_readdition(self, replica: ReplicaId) -> None:
        """Record that a removed replica is added again: its log may be empty, but votes and terms still count."""
        held = self._durable.pop(replica, None)
        if held is not None:
            self._former[replica] = held.entry
        for reported in [reported for reported in self._durable_reports if reported[0] == replica]:
            del self._durable_reports[reported]

    def check_term(self, replica: ReplicaId, term: Term) -> None:
        """Check that the term of a restarted replica is not below that of a sent message."""
        before = self._terms.get(replica, Term(0))
        if term < before:
            raise PropertyBroken("term-back", {"group": self.name, "replica": replica, "now": term, "before": before})

    def check_log(self, replica: ReplicaId, log: LogView, voting_position: EntryId | None) -> None:
        """Check that a restarted replica holds its promised entries, or votes as if it did.

        It may lack them, and vote as if it held them, only if they were damaged."""
        held = self._durable.get(replica)
        if held is None or held.entry.index <= log.boundary.index:
            return
        index, term = held.entry
        found = log.term_at(index) if index <= log.last_index else None
        if found != term and (voting_position is None or not is_at_least_as_up_to_date(voting_position, held.entry)):
            numbers = {"promised": held.entry, "last_index": log.last_index, "term_there": found}
            raise PropertyBroken("durable-lost", {"group": self.name, "replica": replica, **numbers})

    def _record_vote(self, voter: ReplicaId, term: Term, candidate: ReplicaId) -> None:
        """Record a vote, of a candidate for itself too. Raises `PropertyBroken` for a second candidate in the term."""
        given = self._votes.setdefault((voter, term), candidate)
        if given != candidate:
            raise PropertyBroken(
                "voted-twice",
                {"group": self.name, "replica": voter, "term": term, "for": candidate, "and_before_for": given},
            )

    def _check_candidate(self, voter: ReplicaId, term: Term, candidate: ReplicaId) -> None:
        """Check that a voter grants no vote to a candidate that may lack the voter's durable entries (thesis 3.6.1).

        Entries of the vote's term or a later one do not count: they were appended after the vote, and one sync can
        release the vote and their acknowledgement in any order."""
        last = self._candidates.get((candidate, term))
        held = self._durable.get(voter)
        for entry in (self._former.get(voter), held.entry if held is not None else None):
            if last is None or entry is None or entry.term >= term:
                continue
            if not is_at_least_as_up_to_date(last, entry):
                numbers = {"group": self.name, "replica": voter, "term": term, "for": candidate, "which_ends_at": last}
                raise PropertyBroken("voted-for-less", {**numbers, "promised": entry})

    def _record_durable(self, sender: ReplicaId, term: Term, durable: Index, log: LogView) -> None:
        """Record a durable position that the sender reported in `term`; `log` is the sender's log."""
        if durable > self._durable_reports.get((sender, term), 0):
            self._durable_reports[sender, term] = durable
        held = self._durable.get(sender)
        if held is not None and held.reported_in == term and held.reported >= durable:
            return
        if log.boundary.index <= durable <= log.last_index:
            is_more = held is None or durable >= held.entry.index
            entry = EntryId(durable, log.term_at(durable)) if held is None or is_more else held.entry
            self._durable[sender] = DurablePromise(entry, term, durable)
