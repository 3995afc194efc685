"""Pauses between attempts: 50 ms, doubling up to a bound, and from the beginning again after a success."""

from typing import Final

PAUSE_S_MIN: Final = 0.05
PAUSE_S_MAX: Final = 5.0


class BackOff:
    """`next_s()` says how long to wait before the next attempt; it never exceeds `pause_s_max`."""

    __slots__ = ("_pause_s", "_pause_s_max")

    def __init__(self, pause_s_max: float = PAUSE_S_MAX) -> None:
        self._pause_s_max = pause_s_max
        self._pause_s = PAUSE_S_MIN

    def next_s(self) -> float:
        pause_s = self._pause_s
        self._pause_s = min(pause_s * 2, self._pause_s_max)
        return pause_s

    def reset(self) -> None:
        """It went well."""
        self._pause_s = PAUSE_S_MIN
