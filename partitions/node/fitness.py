"""Which processes should lead nothing now: their disk or their loop stood still, their disk has no room, or operators
want it so.

    slow for slow_rest_ms · 2^n after the (n + 1)-th relapse;    full for as long as it says so, and FULL_S longer

Each process judges itself and tells the others, again and again while it lasts (`notices`); what is not repeated
expires. A hint: it moves leaderships and election timeouts, and no safety rests on it. Pure; times are the loop's.
Owned by the node.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from raftlog.types import NodeId

FULL_S: Final = 5.0
"""A disk is taken for full for so long after its process said so last."""
_DOUBLINGS_MAX: Final = 5
_RELAPSE: Final = 4
"""A stall within so many rests after the end of a rest doubles the next one."""


class _Standing(NamedTuple):
    slow_until: float
    full_until: float


_FIT: Final = _Standing(0.0, 0.0)


class Fitness:
    """`me` among the others."""

    def __init__(self, me: NodeId, slow_rest_ms: int) -> None:
        self._me, self._rest_s = me, slow_rest_ms / 1000
        self.is_unwanted: Callable[[NodeId], bool] = lambda node: False
        """Whether the operators want a process to lead nothing; set by the façade."""
        self._standings: dict[NodeId, _Standing] = {}
        self._relapses = 0
        self._is_full = False

    # of itself

    def note_stall(self, now: float) -> None:
        """The disk or the loop here stood still: this process leads nothing for a while, if others can."""
        slow_until = self._standing(self._me).slow_until
        if now >= slow_until:
            is_relapse = slow_until > 0 and now < slow_until + _RELAPSE * self._rest_s * 2**self._relapses
            self._relapses = min(self._relapses + 1, _DOUBLINGS_MAX) if is_relapse else 0
        self._standings[self._me] = self._standing(self._me)._replace(slow_until=now + self._rest_s * 2**self._relapses)

    def note_full(self, is_full: bool) -> None:
        """Whether the disk here has no room for records."""
        self._is_full = is_full

    def own(self, now: float) -> tuple[int, bool]:
        """What the others are to be told: for how many more ms it is slow, and whether it is full."""
        left_s = self._standing(self._me).slow_until - now
        return max(0, round(left_s * 1000)), self._is_full

    # of anybody

    def note_told(self, node: NodeId, slow_ms: int, is_full: bool, now: float) -> None:
        """Another process said how it is; the newest word counts."""
        self._standings[node] = _Standing(now + slow_ms / 1000, now + FULL_S if is_full else 0.0)

    def forget(self, node: NodeId) -> None:
        """It is there in a new life, perhaps with a sound disk."""
        self._standings.pop(node, None)

    def is_slow(self, node: NodeId, now: float) -> bool:
        return now < self._standing(node).slow_until

    def is_full(self, node: NodeId, now: float) -> bool:
        return self._is_full if node == self._me else now < self._standing(node).full_until

    def is_fit(self, node: NodeId, now: float) -> bool:
        """Whether it may be given leaderships, or keep its own."""
        return not self.is_slow(node, now) and not self.is_full(node, now) and not self.is_unwanted(node)

    def is_anybody_full(self, now: float) -> bool:
        return self._is_full or any(now < standing.full_until for standing in self._standings.values())

    def _standing(self, node: NodeId) -> _Standing:
        return self._standings.get(node, _FIT)
