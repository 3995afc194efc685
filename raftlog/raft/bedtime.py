"""A leader's way to sleep, in two steps: ask everybody, then tell everybody.

First heartbeats ask; whoever could sleep says so and stays awake. Only when all agree do heartbeats say *now* (the
lullaby), and only when all sleep does the leader. If it were one step, a member that cannot hear the leader would keep
the leader awake, and the others half asleep: loyal to nobody when that member campaigns.

    asked ≤ sung,   members count only answers to what was asked or sung last
"""

from collections.abc import Iterable

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.progress import FollowerProgress
from raftlog.raft.replica import NEVER


class Bedtime:
    """How far a leader is with putting its group to sleep; numbers are the leader's sequence."""

    __slots__ = ("_asked", "_last_sung", "_sung", "_sung_tick")

    def __init__(self) -> None:
        self._asked = NEVER
        """The first heartbeat that asked, with nothing having come between since."""
        self._sung = NEVER
        """The first lullaby after that."""
        self._sung_tick = NEVER
        self._last_sung = 0
        """The last lullaby of this leader: whoever was not heard awake since may be asleep."""

    def disturb(self) -> None:
        """Something came between: begin again some time."""
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
        """Whether the lullaby has been going on for too long."""
        return tick - self._sung_tick >= ticks_max

    def is_refused_by(self, answered: int, is_asleep: bool) -> bool:
        """Whether an answer to a lullaby says that its sender stays awake."""
        return answered >= self._sung and not is_asleep

    def sleepers(self, progress: dict[ReplicaId, FollowerProgress]) -> list[ReplicaId]:
        """Who may be asleep on this leader's word."""
        if self._last_sung == 0:
            return []
        return [member for member, known in progress.items() if known.awake_sequence <= self._last_sung]
