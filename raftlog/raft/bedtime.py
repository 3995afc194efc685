"""A leader's handshake to quiesce its Raft group, in two phases like a two-phase commit.

Heartbeats of the first phase ask each member whether it could quiesce; members answer and stay awake. Only when all
agree do heartbeats of the second phase ask them to quiesce now, and only when all have done so does the leader. With
one phase, a member that cannot reach the leader would keep the leader awake and the others quiesced, without loyalty
to a leader when that member campaigns.

    prepared ≤ committed,   only answers to a request of the current phase count"""

from collections.abc import Iterable

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.progress import FollowerProgress
from raftlog.raft.replica import NEVER


class Bedtime:
    """Progress of a leader in quiescing its Raft group; numbers are the leader's sequence."""

    __slots__ = ("_asked", "_last_sung", "_sung", "_sung_tick")

    def __init__(self) -> None:
        self._asked = NEVER
        """Number of the first heartbeat that asked for agreement without any work since."""
        self._sung = NEVER
        """Number of the first heartbeat of the second phase."""
        self._sung_tick = NEVER
        self._last_sung = 0
        """Number of this leader's last heartbeat of the second phase: members without a later awake answer may be
        quiesced."""

    def disturb(self) -> None:
        """Abandon the handshake because there is work; a later heartbeat begins it again."""
        self._asked = self._sung = self._sung_tick = NEVER

    def all_agree(self, members: Iterable[FollowerProgress]) -> bool:
        return all(progress.agreed_sequence >= self._asked for progress in members)

    def all_sleep(self, members: Iterable[FollowerProgress]) -> bool:
        return all(progress.asleep_sequence >= self._sung for progress in members)

    def note_asked(self, sequence: int) -> None:
        self._asked = min(self._asked, sequence)

    def note_sung(self, sequence: int, tick: int) -> None:
        self._sung = min(self._sung, sequence)
        self._sung_tick = min(self._sung_tick, tick)
        self._last_sung = sequence

    def has_begun(self) -> bool:
        return self._sung != NEVER

    def is_late(self, tick: int, ticks_max: int) -> bool:
        """Return whether the second phase has taken `ticks_max` ticks or more."""
        return tick - self._sung_tick >= ticks_max

    def is_refused_by(self, answered: int, is_asleep: bool) -> bool:
        """Return whether an answer to the second phase shows that its sender stays awake."""
        return answered >= self._sung and not is_asleep

    def sleepers(self, progress: dict[ReplicaId, FollowerProgress]) -> list[ReplicaId]:
        """Return the members that may be quiesced because this leader asked them to."""
        if self._last_sung == 0:
            return []
        return [member for member, known in progress.items() if known.awake_sequence <= self._last_sung]
