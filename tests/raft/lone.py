"""Shared setups: a follower without other replicas, and a cluster that replicates.

A core by itself whose driver makes everything durable at once, and a leader with two followers that keep up."""

from collections.abc import Sequence
from random import Random

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.configuration import ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import Entry, EntryId, EntryKind
from raftlog.raft.messages import AppendRequest, AppendResponse
from raftlog.raft.ready import Accepted, HardState, Ready, RefusalReason, RefusedProposal, Restart
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index, Term
from tests.raft.cluster import Cluster, configuration, replica_id

ONE, TWO, THREE, FOUR = (replica_id(number) for number in (1, 2, 3, 4))


def entry(index: int, term: int, payload: object = None) -> Entry:
    return Entry(Index(index), Term(term), EntryKind.DATA, 1, payload)


def entry_id(index: int, term: int) -> EntryId:
    return EntryId(Index(index), Term(term))


def refusal_reason(outcome: Accepted | RefusedProposal | None) -> RefusalReason | None:
    return outcome.reason if isinstance(outcome, RefusedProposal) else None


class LoneFollower:
    """Core 2 of three (or `members`) with a log of these terms; its driver makes all changes durable at once."""

    def __init__(
        self, *terms: int, committed: int = 0, term: int | None = None, members: Sequence[int] = (1, 2, 3)
    ) -> None:
        self.log = MemoryLog([entry(index, of) for index, of in enumerate(terms, 1)])
        hard_state = HardState(Term(max(terms, default=0) if term is None else term), None)
        restart = Restart(hard_state, (configuration(list(members)),), Index(committed))
        self.core = RaftCore(TWO, RaftSettings(), Random(0), self.log, restart)
        self.sent: list[object] = []
        self.readys: list[Ready] = []
        self.handle_readys()

    def handle_readys(self) -> None:
        while (ready := self.core.ready()) is not None:
            self.readys.append(ready)
            if ready.cut_to is not None:
                self.log.cut_to(ready.cut_to)
            self.log.append(ready.entries)
            self.sent += [*ready.messages_now, *ready.messages_once_durable]
            self.core.advance(durable=ready.number, applied=ready.apply.last if ready.apply else None)

    def append(self, term: int, previous: EntryId, *terms: int, committed: int = 0, sequence: int = 1) -> None:
        """Send entries of these terms from the leader of `term`."""
        entries = tuple(entry(previous.index + at, of) for at, of in enumerate(terms, 1))
        self.sent.clear()
        self.core.step(AppendRequest(ONE, TWO, Term(term), sequence, previous, entries, Index(committed)))
        self.handle_readys()

    def terms(self) -> list[int]:
        return [each.term for each in self.log.entries_from_start()]

    def last_answer(self) -> AppendResponse:
        return next(said for said in reversed(self.sent) if isinstance(said, AppendResponse))


def make_replicating_cluster(**settings: int) -> Cluster:
    """Return a cluster of three led by node 1, with three entries committed."""
    cluster = Cluster([1, 2, 3], settings=RaftSettings(**settings))  # type: ignore[arg-type]
    cluster.elect(1)
    cluster.tick(4)
    cluster.propose(1, "a", "b", "c")
    cluster.settle()
    return cluster


def progress_of(cluster: Cluster, member: ReplicaId) -> tuple[str, int, int]:
    """Return leader 1's progress of a member: state, match index, next index."""
    status = next(known for known in cluster.core(1).status().followers if known.member == member)
    return status.state, status.match_index, status.next_index
