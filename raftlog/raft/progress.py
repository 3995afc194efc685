"""Progress of one follower as its leader sees it, and the room for more appends.

    match < next ≤ last index + 1 while replicating,   in flight = next − 1 − match, bounded by entries and by bytes

PROBE: the last common entry is not known; one append at a time. REPLICATE: appends are pipelined, optimistically.
CATCH_UP: the follower lacks entries that the leader trimmed away, or so many that it fetches them; no append is sent.
"""

from collections import deque
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Final

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.ready import FollowerStatus
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index

_LOST_TICK: Final = -(1 << 40)
"""`held_tick` of a follower that lost acknowledged entries: its lag exceeds every bound."""


class ProgressState(Enum):
    """State of replication to a follower; see the module."""

    PROBE = "probe"
    REPLICATE = "replicate"
    CATCH_UP = "catch-up"


@dataclass(slots=True, eq=False)
class FollowerProgress:
    """Progress of replication to one follower, as its leader knows it; kept while the follower is a member."""

    member: ReplicaId
    next_index: Index
    sequence: InitVar[int]
    tick: InitVar[int] = 0
    state: ProgressState = ProgressState.PROBE
    match_index: Index = Index(0)
    """Last index up to which the follower's log is durable and equal to the leader's.

    Raised by `acknowledge`, lowered only by `note_loss`."""
    match_sequence: int = 0
    """The leader's sequence when `match_index` last rose: requests up to this number may have been sent before."""
    probe_sequence: int = 0
    """Number up to which refusals are stale: they answer requests of a former state."""
    is_probe_sent: bool = False
    probe_sent_sequence: int = 0
    """Number of the latest probe or offer; an answer to a later request means that the probe was lost."""
    in_flight_bytes: int = 0
    _flights: deque[tuple[Index, int]] = field(default_factory=deque)
    is_active: bool = True
    """Whether the follower answered in this period of CheckQuorum; true for a new one, which has a period to answer."""
    was_active: bool = False
    """Whether the follower answered in the period of CheckQuorum before, which counts at the beginning of a new one."""
    agreed_sequence: int = 0
    """Number of the latest request that the follower answered as ready to quiesce."""
    awake_sequence: int = 0
    """Number of the latest request that the follower answered as awake."""
    quiesced_sequence: int = 0
    """Number of the latest request that the follower answered as quiesced."""
    acked_sequence: int = 0
    """Number of the latest request that was answered."""
    mark_sequence: int = 0
    """Number of a heartbeat without an answer yet; 0 without such a heartbeat."""
    mark_index: int = 0
    """Last index sent before the heartbeat `mark_sequence`."""
    sent_commit: Index = Index(0)
    held_tick: int = 0
    """Latest tick at which the follower is known to have held all committed entries; for a new one, its first tick."""
    target_index: Index = Index(0)
    """Commit index at an earlier tick: `held_tick` becomes at least `target_tick` once the follower holds it."""
    target_tick: int = 0

    def __post_init__(self, sequence: int, tick: int) -> None:
        self.match_sequence = self.probe_sequence = sequence
        self.held_tick = self.target_tick = tick

    def become_probe(self, next_index: Index, sequence: int) -> None:
        """Look for the last common entry again; refusals of requests up to `sequence` are stale."""
        self.state = ProgressState.PROBE
        self.next_index = max(next_index, Index(self.match_index + 1))
        self.probe_sequence = sequence
        self.is_probe_sent = False
        self._clear_in_flight()

    def become_replicate(self, verified: Index, sequence: int) -> None:
        """Pipeline appends after `verified`, the last entry that is known to equal the leader's."""
        self.state = ProgressState.REPLICATE
        self.is_probe_sent = False
        self.next_index = Index(max(verified, self.match_index) + 1)
        self.probe_sequence = sequence
        self._clear_in_flight()

    def become_catch_up(self, next_index: Index, sequence: int) -> None:
        """Stop sending appends: the follower fetches entries from `next_index` on, or from an earlier one."""
        self.state = ProgressState.CATCH_UP
        self.next_index = max(next_index, Index(self.match_index + 1))
        self.probe_sequence = sequence
        self.is_probe_sent = False
        self._clear_in_flight()

    def find_room(self, settings: RaftSettings) -> tuple[int, int]:
        """Return the numbers of entries and bytes that the next append may have; no append fits when either is ≤ 0."""
        if self.state is ProgressState.REPLICATE:
            entries = settings.in_flight_entries_max - (self.next_index - 1 - self.match_index)
            return (
                min(entries, settings.entries_per_message_max),
                min(settings.in_flight_bytes_max - self.in_flight_bytes, settings.message_bytes_max),
            )
        if self.state is ProgressState.PROBE and not self.is_probe_sent:
            return settings.entries_per_message_max, settings.message_bytes_max
        return 0, 0

    def note_append(self, last_index: Index, size_bytes: int) -> None:
        """Record a pipelined append that ends at `last_index` as in flight."""
        assert self.state is ProgressState.REPLICATE, f"pipelined append in state {self.state}"
        self.next_index = Index(last_index + 1)
        self._flights.append((last_index, size_bytes))
        self.in_flight_bytes += size_bytes

    def note_probe(self, sequence: int) -> None:
        """Record a probe or an offer as in flight; no other is sent until it is answered or known to be lost."""
        assert self.state is not ProgressState.REPLICATE, f"probe in state {self.state}"
        self.is_probe_sent = True
        self.probe_sent_sequence = sequence

    def has_lost_probe(self, answered: int) -> bool:
        """Return whether an answer to request `answered` means that the probe got lost (or was overtaken)."""
        return self.is_probe_sent and answered > self.probe_sent_sequence

    def mark_heartbeat(self, sequence: int) -> None:
        """Mark the heartbeat of this number; the answer to it, or to a later one, shows whether appends got lost.

        The caller marks no other heartbeat before that answer: otherwise, with round trips longer than the heartbeat
        interval, no mark would ever be answered."""
        if self.state is ProgressState.REPLICATE:
            self.mark_sequence, self.mark_index = sequence, self.next_index - 1

    def detect_lost_appends(self, answered: int, verified: Index) -> bool:
        """Return whether the answer to the marked heartbeat lacks entries sent before it.

        An answered mark is removed."""
        if not 0 < self.mark_sequence <= answered:
            return False
        has_lost = self.state is ProgressState.REPLICATE and verified < self.mark_index
        self.mark_sequence = self.mark_index = 0
        return has_lost

    def acknowledge(self, durable: Index, sequence: int) -> bool:
        """Record an answer to the requests up to `sequence`; return true when `match_index` moved."""
        if durable <= self.match_index:
            return False
        self.match_index = durable
        self.match_sequence = sequence
        self.next_index = max(self.next_index, Index(durable + 1))
        while self._flights and self._flights[0][0] <= durable:
            self.in_flight_bytes -= self._flights.popleft()[1]
        return True

    def note_loss(self, index: Index) -> None:
        """Record the loss of acknowledged entries above `index`: damage, or a disk that lost synced bytes."""
        self.match_index = min(self.match_index, index)
        self.held_tick = self.target_tick = _LOST_TICK

    def update_held_tick(self, committed: Index, tick: int) -> None:
        """Raise `held_tick` to `target_tick` if the follower has all entries up to `target_index`.

        Then `committed` and `tick` become the next target. Called after each answer with a durable index."""
        if self.match_index >= self.target_index:
            self.held_tick = max(self.held_tick, self.target_tick)
            self.target_index, self.target_tick = committed, tick

    def note_commit(self, before: Index, tick: int) -> None:
        """Set `held_tick` to `tick` if the follower has all entries up to `before`, the last commit index."""
        if self.match_index >= before:
            self.held_tick = tick

    def status(self, committed: Index, tick: int) -> FollowerStatus:
        """Return the progress at `tick`; its lag is 0 when the follower holds everything up to `committed`."""
        is_active = self.is_active or self.was_active
        lag_ticks = 0 if self.match_index >= committed else max(1, tick - self.held_tick)
        return FollowerStatus(self.member, self.state.value, self.match_index, self.next_index, is_active, lag_ticks)

    def _clear_in_flight(self) -> None:
        """Discard the record of appends in flight and of the marked heartbeat."""
        self.mark_sequence = self.mark_index = 0
        self._flights.clear()
        self.in_flight_bytes = 0
