"""Linearizable reads without a log entry: ReadIndex (thesis 6.4).

A leader that has committed in its own term records its commit index as the read's index. Then a quorum must confirm
that it still leads, by answers to requests that were sent *after* that. All reads that wait when a Ready is prepared
share one round of heartbeats, and those that arrive during the round share the next one. A round goes to as many
followers as a quorum needs, and to all at the next tick if too few answered. A round has a number of the leader's one
sequence of requests, so answers to later requests confirm it as well.

    a read's index ≥ every index acknowledged before its request;   rounds under way ≤ 1

No clock and no lease is involved."""

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.ready import ReadReady
from raftlog.types import Index


class WaitingRead(NamedTuple):
    """Requested read, identified by `request`; `origin` is the replica that forwarded it, None for a local read."""

    request: Hashable
    origin: ReplicaId | None


class _Round(NamedTuple):
    """Heartbeats with one sequence number, whose answers confirm all reads in `reads` at commit index `index`."""

    sequence: int
    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    reads: list[WaitingRead]


class LeaderReads:
    """Reads of one leader, from request to confirmation."""

    __slots__ = ("_bound", "_count", "_rounds", "_waiting")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._count = 0
        self._waiting: list[WaitingRead] = []
        self._rounds: deque[_Round] = deque()

    def __len__(self) -> int:
        return self._count

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def has_rounds(self) -> bool:
        return bool(self._rounds)

    def try_add(self, read: WaitingRead) -> bool:
        """Add a read to those that the next round of heartbeats confirms; return false if too many are pending."""
        if self._count >= self._bound:
            return False
        self._count += 1
        self._waiting.append(read)
        return True

    def begin_round(self, sequence: int, committed: Index) -> None:
        """Assign the commit index to all reads that wait; messages numbered `sequence` or later confirm them."""
        assert not self._rounds or self._rounds[-1].sequence < sequence, f"round {sequence} is not a new one"
        self._rounds.append(_Round(sequence, committed, self._waiting))
        self._waiting = []

    def confirm(self, sequence: int) -> list[tuple[WaitingRead, Index]]:
        """Return the reads that are confirmed by a quorum's answers to messages numbered up to `sequence`."""
        confirmed: list[tuple[WaitingRead, Index]] = []
        while self._rounds and self._rounds[0].sequence <= sequence:
            done = self._rounds.popleft()
            confirmed.extend((read, done.index) for read in done.reads)
        self._count -= len(confirmed)
        return confirmed

    def drop_all(self) -> list[WaitingRead]:
        """Remove and return all reads at the end of leadership, when none can be confirmed any more."""
        dropped = [read for done in self._rounds for read in done.reads] + self._waiting
        self._rounds.clear()
        self._waiting = []
        self._count = 0
        return dropped


class ForwardedReads:
    """Reads of a replica that does not lead, on their way to the leader and back."""

    __slots__ = ("_bound", "_requests")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._requests: dict[int, tuple[Hashable, int]] = {}
        """Request and tick by sequence, oldest first."""

    def __len__(self) -> int:
        return len(self._requests)

    def try_add(self, sequence: int, request: Hashable, tick: int) -> bool:
        """Record a read sent to the leader at `tick`; return false when too many reads are pending."""
        if len(self._requests) >= self._bound:
            return False
        self._requests[sequence] = (request, tick)
        return True

    def pop(self, sequence: int) -> Hashable | None:
        """Remove and return the request with this number; None if it was dropped."""
        request, _ = self._requests.pop(sequence, (None, 0))
        return request

    def drop_before(self, tick: int) -> list[Hashable]:
        """Remove and return requests made before `tick`."""
        old = [sequence for sequence, (_, requested_tick) in self._requests.items() if requested_tick < tick]
        return [self._requests.pop(sequence)[0] for sequence in old]


class ReadsToApply:
    """Confirmed reads: those that wait until their index is applied here, and those that are ready."""

    __slots__ = ("_confirmed", "failed", "ready")

    def __init__(self) -> None:
        self._confirmed: list[ReadReady] = []
        self.ready: list[ReadReady] = []
        self.failed: list[Hashable] = []

    def __len__(self) -> int:
        """Return the number of reads that wait to be applied."""
        return len(self._confirmed)

    def confirm(self, read: ReadReady, applied: Index) -> None:
        """Add a confirmed read: ready if its index is applied, otherwise waiting for that."""
        (self.ready if read.index <= applied else self._confirmed).append(read)

    def apply_to(self, applied: Index) -> None:
        """Make the reads ready whose index is at most `applied`."""
        if self._confirmed:
            self.ready.extend(read for read in self._confirmed if read.index <= applied)
            self._confirmed = [read for read in self._confirmed if read.index > applied]

    def take(self) -> tuple[tuple[ReadReady, ...], tuple[Hashable, ...]]:
        """Return the reads that are ready and those that failed since the last call."""
        ready, failed = tuple(self.ready), tuple(self.failed)
        self.ready.clear()
        self.failed.clear()
        return ready, failed
