"""Counts and latencies of operations, and the longest time without a success.

    succeeded + failed + unknown = ended ≤ offered;   latencies are those of successful operations

Percentiles come from HDR histograms: three digits from a microsecond to an hour, for any number of samples."""

from collections import Counter
from typing import Any, Final

from hdrh.histogram import HdrHistogram

_UNIT_S: Final = 1e-6
_SECONDS_MAX: Final = 3_600
_DIGITS: Final = 3
_REASONS_MAX: Final = 32
PERCENTILES: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
CURVE: Final = (0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0)
"""Percentiles that plots show."""


class Latencies:
    """Latency histogram of one kind of operation, or of all kinds together."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(1, int(_SECONDS_MAX / _UNIT_S), _DIGITS)

    def __len__(self) -> int:
        return int(self._histogram.get_total_count())

    def add(self, seconds: float) -> None:
        """Add a latency; one above an hour counts as an hour."""
        self._histogram.record_value(max(1, min(round(seconds / _UNIT_S), int(_SECONDS_MAX / _UNIT_S))))

    def merge(self, other: "Latencies") -> None:
        self._histogram.add(other._histogram)

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile in milliseconds; 0 without samples."""
        return float(self._histogram.get_value_at_percentile(percent)) * _UNIT_S * 1000 if len(self) else 0.0

    def as_json(self) -> dict[str, float]:
        """Return percentiles, maximum and mean in milliseconds; empty without samples."""
        if not len(self):
            return {}
        found = {name: self.percentile_ms(percent) for name, percent in PERCENTILES.items()}
        mean = float(self._histogram.get_mean_value()) * _UNIT_S * 1000
        return {
            key: round(value, 3) for key, value in {**found, "max": self.percentile_ms(100.0), "mean": mean}.items()
        }


class Tally:
    """Counts and latencies of one kind of operation."""

    def __init__(self) -> None:
        self.offered = self.succeeded = self.failed = self.unknown = 0
        self.latencies = Latencies()

    def as_json(self) -> dict[str, Any]:
        """Return counts, and latencies in milliseconds."""
        return {
            "offered": self.offered,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "unknown": self.unknown,
            "latency_ms": self.latencies.as_json(),
        }


class SuccessGap:
    """Tracker of the longest time without a success, from the beginning to the end of the run."""

    def __init__(self, begin: float) -> None:
        self._last = begin
        self.longest_s = 0.0

    def close_gap(self, at: float) -> None:
        """End the current gap at `at`, the time of a success or the end of the run."""
        self.longest_s = max(self.longest_s, at - self._last)
        self._last = at


class Reasons:
    """Counts of unsuccessful operations by reason; beyond a number of reasons further ones count as `others`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        """Count an unsuccessful operation."""
        known = reason in self.counts or len(self.counts) < _REASONS_MAX
        self.counts[reason if known else "others"] += 1
