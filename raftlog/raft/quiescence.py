"""A leader's handshake to quiesce its Raft group, in two phases like a two-phase commit.

Heartbeats of the first phase ask each member whether it could quiesce; members answer and stay awake. When all agree,
heartbeats of the second phase ask them to quiesce now, and when all have quiesced, the leader does so too. With
one phase, a member that cannot reach the leader would keep the leader awake and the others quiesced, without contact
to a leader when that member campaigns.

    prepared ≤ committed,   only answers to a request of the current phase count"""

from collections.abc import Iterable

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.progress import FollowerProgress
from raftlog.raft.replica import NEVER


class QuiescenceHandshake:
    """State of a leader's two-phase handshake with which its idle Raft group quiesces.

    All numbers are sequences of the leader's heartbeats."""

    __slots__ = ("_committed", "_committed_tick", "_last_committed", "_prepared")

    def __init__(self) -> None:
        self._prepared = NEVER
        """Number of the first heartbeat that asked for agreement without any work since."""
        self._committed = NEVER
        """Number of the first heartbeat of the second phase."""
        self._committed_tick = NEVER
        self._last_committed = 0
        """Number of this leader's last heartbeat of the second phase: members without a later awake answer may be
        quiesced."""

    def abandon(self) -> None:
        """Abandon the handshake because there is work; a later heartbeat begins it again."""
        self._prepared = self._committed = self._committed_tick = NEVER

    def all_agree(self, members: Iterable[FollowerProgress]) -> bool:
        """Return whether all `members` answered the first phase as ready to quiesce."""
        return all(progress.agreed_sequence >= self._prepared for progress in members)

    def all_quiesced(self, members: Iterable[FollowerProgress]) -> bool:
        """Return whether all `members` answered the second phase as quiesced."""
        return all(progress.quiesced_sequence >= self._committed for progress in members)

    def note_prepared(self, sequence: int) -> None:
        """Record the sequence of a heartbeat of the first phase, which asks followers whether they may quiesce."""
        self._prepared = min(self._prepared, sequence)

    def note_committed(self, sequence: int, tick: int) -> None:
        """Record the sequence of a heartbeat of the second phase, which lets followers quiesce; sent at `tick`."""
        self._committed = min(self._committed, sequence)
        self._committed_tick = min(self._committed_tick, tick)
        self._last_committed = sequence

    def is_committing(self) -> bool:
        """Return whether the second phase has begun."""
        return self._committed != NEVER

    def is_late(self, tick: int, ticks_max: int) -> bool:
        """Return whether the second phase has taken `ticks_max` ticks or more."""
        return tick - self._committed_tick >= ticks_max

    def is_refused_by(self, answered: int, is_quiesced: bool) -> bool:
        """Return whether an answer to the second phase shows that its sender does not quiesce."""
        return answered >= self._committed and not is_quiesced

    def find_possibly_quiesced(self, progress: dict[ReplicaId, FollowerProgress]) -> list[ReplicaId]:
        """Return the members that may be quiesced because of a request of this leader."""
        if self._last_committed == 0:
            return []
        return [member for member, known in progress.items() if known.awake_sequence <= self._last_committed]
