"""Choice between two methods for a sync, by their recent durations.

On an idle machine Linux AIO is faster than a thread, which waits for the interpreter lock. Where other processes
compete for the processor it may be slower: the kernel's worker stays on the processor that submitted the sync, and a
thread moves to a free one. So both are measured, from the submission to the completion on the loop, and the faster one
is used.
"""

from typing import Final

_WEIGHT: Final = 1 / 8
"""Weight of the newest sync in the average."""
_SAMPLE_EVERY: Final = 32
"""Number of syncs of which one uses the slower method, so that its average stays up to date."""
_SAMPLE_SLOWER_EVERY: Final = 256
"""Number in place of `_SAMPLE_EVERY` while the slower method takes more than `_SLOWER` times as long."""
_SLOWER: Final = 1.5


class SyncChoice:
    """Choice between syncs by AIO and in threads, by the average duration of each. Not thread-safe."""

    def __init__(self) -> None:
        self._average: dict[bool, float] = {}
        self._since_sample = 0

    @property
    def uses_aio(self) -> bool:
        """Whether AIO is the faster method now."""
        average = self._average
        return len(average) < 2 or average[True] <= average[False]

    def choose_aio(self) -> bool:
        """Return whether the next sync should use AIO: the faster method, and sometimes the other one."""
        fast = self.uses_aio
        self._since_sample += 1
        if self._since_sample < _SAMPLE_EVERY:
            return fast
        slower = self._average.get(not fast, 0.0)
        if self._since_sample < _SAMPLE_SLOWER_EVERY and slower > _SLOWER * self._average.get(fast, 0.0):
            return fast
        self._since_sample = 0
        return not fast

    def add_sample(self, by_aio: bool, seconds: float) -> None:
        """Add the duration of a sync, from submission to completion on the loop, to its method's average."""
        average = self._average.get(by_aio)
        self._average[by_aio] = seconds if average is None else average + _WEIGHT * (seconds - average)
