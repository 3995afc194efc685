"""Rate at which the free space of a disk shrinks, from samples of the last two minutes. The caller gives the time.

    samples  ≤ SAMPLES_MAX, one each `INTERVAL_S` or later
    rate     from the oldest sample to the newest one, which are at least `SPAN_S_MIN` apart

It counts everything that changes the free space: records of leaders and followers, indexes, the journal, deletions,
and other programs. Called by `DiskRoom` with every tick."""

from collections import deque
from typing import Final

INTERVAL_S: Final = 5.0
SAMPLES_MAX: Final = 25
SPAN_S_MIN: Final = 15.0


class DiskTrend:
    """Free space of one disk over the last two minutes."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)

    def note(self, now: float, free_bytes: int) -> None:
        """Add a sample at the time `now` in seconds, unless the last one is younger than `INTERVAL_S`."""
        if not self._samples or now - self._samples[-1][0] >= INTERVAL_S:
            self._samples.append((now, free_bytes))

    def shrinking_bytes_per_s(self) -> int | None:
        """Return the rate at which the free space shrinks, negative while it grows; None before `SPAN_S_MIN`."""
        if not self._samples:
            return None
        (began_at, free_before), (ended_at, free_after) = self._samples[0], self._samples[-1]
        elapsed_s = ended_at - began_at
        return round((free_before - free_after) / elapsed_s) if elapsed_s >= SPAN_S_MIN else None
