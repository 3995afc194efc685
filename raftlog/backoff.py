"""Pauses between attempts: doubled each time up to a bound, and short again after a success."""

from math import inf
from random import Random


class Backoff:
    """`min_s` ≤ pause ≤ `max_s`; with `random` half of that to all of it, so that processes do not retry in step."""

    __slots__ = ("_max_s", "_min_s", "_next_s", "_random")

    def __init__(self, min_s: float, max_s: float, random: Random | None = None) -> None:
        self._min_s, self._max_s, self._random = min_s, max_s, random
        self._next_s = min_s

    def next_s(self) -> float:
        """Return the next pause; the one after it is twice as long."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._max_s)
        return pause_s if self._random is None else pause_s * self._random.uniform(0.5, 1.0)

    def reset(self, lasted_s: float = inf) -> None:
        """Note a success; one that lasted less than the longest pause changes nothing."""
        if lasted_s >= self._max_s:
            self._next_s = self._min_s
