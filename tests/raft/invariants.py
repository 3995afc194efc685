"""Invariants of every execution (thesis 3.2, figure 3.2), checked during the run outside of the cores."""

from collections.abc import Iterable
from typing import Any

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.configuration import Configuration, ReplicaId
from raftlog.raft.entry import Entry, EntryId
from raftlog.types import Index, Term


class Invariants:
    """Facts observed so far, over all replicas and their restarts."""

    def __init__(self) -> None:
        self.leaders: dict[Term, ReplicaId] = {}
        self.committed: dict[Index, tuple[Term, Any]] = {}
        """Entries that some replica delivered or some leader committed."""
        self.votes: dict[tuple[ReplicaId, Term], ReplicaId | None] = {}
        self._entries: dict[EntryId, tuple[Term, Any]] = {}

    def lead(self, leader: ReplicaId, term: Term, log: MemoryLog) -> None:
        """Check election safety (one leader per term) and leader completeness (all committed entries)."""
        first = self.leaders.setdefault(term, leader)
        assert first == leader, f"election safety: {first} and {leader} lead term {term}"
        for index, (entry_term, _) in self.committed.items():
            if index > log.boundary.index:
                assert index <= log.last_index, f"leader completeness: {leader} of term {term} ends below {index}"
                assert log.term_at(index) == entry_term, f"leader completeness: entry {index} of {leader}"

    def append(self, entries: Iterable[Entry], previous_term: Term) -> None:
        """Check log matching: index and term identify one entry, and (by induction) one prefix."""
        for entry in entries:
            name = EntryId(entry.index, entry.term)
            fact = self._entries.setdefault(name, (previous_term, entry.payload))
            assert fact == (previous_term, entry.payload), f"log matching: entry {name}: {fact} and {entry}"
            previous_term = entry.term

    def apply(self, entry: Entry) -> None:
        """Check state machine safety: no replica applies another entry at the same index."""
        fact = self.committed.setdefault(entry.index, (entry.term, entry.payload))
        assert fact == (entry.term, entry.payload), f"state machine safety: {fact} and {entry}"

    def vote(self, voter: ReplicaId, term: Term, vote: ReplicaId | None) -> None:
        """Check for one vote per term, over all restarts of a voter; called with the durable vote."""
        before = self.votes.get((voter, term))
        assert before is None or before == vote, f"{voter} voted for {before} and {vote} in term {term}"
        self.votes[voter, term] = vote

    def commit(
        self, entry: EntryId, configuration: Configuration, durable: dict[ReplicaId, MemoryLog], damaged: set[ReplicaId]
    ) -> None:
        """Check durability: a committed entry is on the synced disks of a majority (of each half)."""
        for half in (configuration.voters, configuration.outgoing):
            holders = [voter for voter in half if voter in damaged or _holds(durable.get(voter), entry)]
            assert not half or len(holders) > len(half) // 2, f"durability: {entry} is only on {holders} of {half}"


def _holds(log: MemoryLog | None, entry: EntryId) -> bool:
    if log is None or entry.index > log.last_index:
        return False
    return entry.index <= log.boundary.index or log.term_at(entry.index) == entry.term
