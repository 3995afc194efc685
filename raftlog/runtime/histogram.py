"""Latencies counted into fixed buckets: plain integers that a hot path adds to, once for each batch or turn.

No decision depends on a measurement, so the stopwatch is the machine's and not the loop's, whose clock a turn moves by
whole milliseconds. Metrics are made of it only on a scrape (`raftlog.api.http.metrics.metrics`)."""

from bisect import bisect_left
from collections.abc import Sequence
from time import perf_counter as stopwatch
from typing import Final

BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
)  # fmt: skip
"""Upper ends of the buckets, in seconds; the last bucket has none."""

__all__ = ["BOUNDS_S", "Histogram", "stopwatch"]


class Histogram:
    """Histogram: `counts[i]` observations lie between `bounds[i - 1]` and `bounds[i]`; their sum is `sum_s`."""

    __slots__ = ("bounds", "counts", "sum_s")

    def __init__(self, bounds: Sequence[float] = BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Add a duration to the counts and the sum."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_s += seconds

    def observe_since(self, began: float) -> None:
        """Observe the time since `stopwatch()` returned `began`."""
        seconds = stopwatch() - began
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_s += seconds

    def cumulative_buckets(self) -> list[tuple[str, int]]:
        """Return the cumulative buckets of Prometheus: upper bounds as text, each with the count up to it."""
        total, rows = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            rows.append((bound, total))
        return rows
