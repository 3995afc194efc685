"""Pauses between attempts: doubled each time up to a bound, and short again after a success."""

from math import inf
from random import Random


class Backoff:
    """Source of growing pauses between retries, from `min_s` to `max_s` seconds.

    `random` shortens each pause by up to half, so that the retries of several processes do not coincide."""

    __slots__ = ("_max_s", "_min_s", "_next_s", "_random")

    def __init__(self, min_s: float, max_s: float, random: Random | None = None) -> None:
        """Begin with pauses of `min_s` seconds, which grow up to `max_s`; `random` shortens each by up to half."""
        self._min_s, self._max_s, self._random = min_s, max_s, random
        self._next_s = min_s

    def next_pause_s(self) -> float:
        """Return the next pause in seconds; the one after it is twice as long."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._max_s)
        return pause_s if self._random is None else pause_s * self._random.uniform(0.5, 1.0)

    def reset(self, lasted_s: float = inf) -> None:
        """Start again with the shortest pause, unless the connection or attempt that ended lasted less than `max_s`."""
        if lasted_s >= self._max_s:
            self._next_s = self._min_s
