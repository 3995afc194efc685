"""History of one broker: its figures of the last hour, in memory.

    samples  ≤ SAMPLES_MAX (one hour at `INTERVAL_S`), the oldest is overwritten
    groups   ≤ GROUPS_MAX, those with the largest lag
    memory   = (columns + groups) · SAMPLES_MAX · 8 bytes, less than 1 MiB

A value that was not sampled is NaN here, and null in answers. Written by `history_sampler`, read by the handler."""

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Final

INTERVAL_S: Final = 10.0
SAMPLES_MAX: Final = 360
GROUPS_MAX: Final = 200
"""Consumer groups with a history of their lag."""
SERIES: Final = (
    "records_in_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "produces_per_s",
    "fetches_per_s",
    "failures_per_s",
    "http_requests_per_s",
    "kafka_requests_per_s",
    "produce_p50_ms",
    "produce_p99_ms",
    "commit_p50_ms",
    "commit_p99_ms",
    "sync_p50_ms",
    "sync_p99_ms",
    "loop_lag_p99_ms",
    "cpu_percent",
    "resident_bytes",
    "disk_free_bytes",
    "disk_total_bytes",
    "log_bytes",
    "partitions",
    "partitions_led",
    "under_replicated",
    "leaderless",
    "group_lag_max",
    "group_lag_total",
)
_NONE: Final = math.nan
_NUMBER_BYTES: Final = 8
_DIGITS: Final = 3


class History:
    """Ring buffer of samples: one column of numbers for each series; a sample has the same position in all columns."""

    def __init__(self) -> None:
        self._times = array("q", bytes(_NUMBER_BYTES * SAMPLES_MAX))
        self._columns = {name: _new_column() for name in SERIES}
        self._groups: dict[str, array[float]] = {}
        self._place = 0
        """Position of the next sample in all columns."""
        self._count = 0

    @property
    def size_bytes(self) -> int:
        """Size of all numbers."""
        numbers = len(self._times) + sum(map(len, (*self._columns.values(), *self._groups.values())))
        return numbers * _NUMBER_BYTES

    def append(self, time_ms: int, values: Mapping[str, float], lags: Mapping[str, int]) -> None:
        """Add a sample: values by the name of their series, and lags by consumer group."""
        place = self._place
        self._times[place] = time_ms
        for name, column in self._columns.items():
            column[place] = values.get(name, _NONE)
        self._choose_groups(lags)
        for group, column in self._groups.items():
            column[place] = lags.get(group, _NONE)
        self._place = (place + 1) % SAMPLES_MAX
        self._count = min(self._count + 1, SAMPLES_MAX)

    def _choose_groups(self, lags: Mapping[str, int]) -> None:
        """Choose the groups whose lag is recorded: those with the largest lags, at most `GROUPS_MAX`.

        A group with a larger lag replaces the one with the smallest, whose history is deleted."""
        new = sorted((group for group in lags if group not in self._groups), key=lambda group: -lags[group])
        old = sorted(self._groups, key=lambda group: lags.get(group, -1), reverse=True)
        for group in new[:GROUPS_MAX]:
            if len(self._groups) >= GROUPS_MAX:
                least = old.pop() if old else None
                if least is None or lags.get(least, -1) >= lags[group]:
                    break
                del self._groups[least]
            self._groups[group] = _new_column()

    def places(self, since_ms: int) -> list[int]:
        """Return the positions of the samples from a time on, the oldest first."""
        first = self._place - self._count
        return [
            place % SAMPLES_MAX for place in range(first, self._place) if self._times[place % SAMPLES_MAX] >= since_ms
        ]

    def times(self, places: Iterable[int]) -> list[int]:
        """Return the times of the samples at these positions, in milliseconds since 1970."""
        return [self._times[place] for place in places]

    def series(self, name: str, places: Iterable[int]) -> list[float | None]:
        """Return the values of one series at these positions; None: not sampled."""
        return _values(self._columns[name], places)

    def lags(self, group: str, places: Iterable[int]) -> list[float | None] | None:
        """Return the lags of a consumer group at these positions; None without a history of the group."""
        column = self._groups.get(group)
        return None if column is None else _values(column, places)

    def groups(self) -> list[str]:
        """Return the groups with a history, sorted by the lag in the newest sample, the largest first."""
        last = (self._place - 1) % SAMPLES_MAX
        present = {group: column[last] for group, column in self._groups.items()}
        return sorted(present, key=lambda group: -1 if math.isnan(present[group]) else present[group], reverse=True)


def _new_column() -> "array[float]":
    """Return a column without values."""
    return array("d", [_NONE]) * SAMPLES_MAX


def _values(column: "array[float]", places: Iterable[int]) -> list[float | None]:
    """Return the samples at these places of a column, rounded; None for a missing sample."""
    found = (column[place] for place in places)
    return [None if math.isnan(value) else round(value, _DIGITS) for value in found]
