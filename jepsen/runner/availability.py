"""Time without successful writes during each fault.

It is computed from completed sends only. The time without writes around a fault is the longest time between two
acknowledgements that overlaps it, so it includes the recovery. It is given for the log as a whole, and for the worst
partition. The verdict does not depend on these figures."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from jepsen.nemeses.fault import InjectedFault
from raftlog.types import TopicPartition


class FaultFigures(NamedTuple):
    """Effect of a fault on writers: seconds without a write, and numbers of sends by outcome."""

    fault: InjectedFault
    without_write_s: float
    worst_partition: str
    worst_partition_s: float
    acknowledged: int
    refused: int
    unknown: int

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "fault": self.fault._asdict()}


class Availability:
    """Times of sends with `acks=all`, from which the effect of faults on writers is computed.

    They are added with `record`. Nanoseconds count from the beginning of the test."""

    def __init__(self) -> None:
        self._done: dict[str, list[int]] = {"ok": [], "fail": [], "info": []}
        self._by_partition: dict[TopicPartition, list[int]] = {}

    def record(self, completed_ns: int, outcome: str, place: TopicPartition) -> None:
        """Add a completion; completions arrive in the order of time."""
        self._done[outcome].append(completed_ns)
        if outcome == "ok":
            self._by_partition.setdefault(place, []).append(completed_ns)

    def figures_of(self, fault: InjectedFault, partitions: Sequence[TopicPartition], begin_ns: int) -> FaultFigures:
        """Return the figures of one fault, whose times count from `begin_ns`, the beginning of the load."""
        begin, end = (begin_ns + round(at_s * 1e9) for at_s in (fault.begin_s, fault.end_s))
        gaps = {place: longest_gap(self._by_partition.get(place, []), begin, end) for place in partitions}
        worst = max(gaps, key=lambda place: gaps[place])
        return FaultFigures(
            fault=fault,
            without_write_s=longest_gap(self._done["ok"], begin, end) / 1e9,
            worst_partition=str(worst),
            worst_partition_s=gaps[worst] / 1e9,
            acknowledged=_count_within(self._done["ok"], begin, end),
            refused=_count_within(self._done["fail"], begin, end),
            unknown=_count_within(self._done["info"], begin, end),
        )


def longest_gap(times: Sequence[int], begin: int, end: int) -> int:
    """Return the longest time between two neighbours of `times` (ascending) that overlaps the span.

    If there is no time before or after the span, the begin or end of the span is used instead."""
    first, last = bisect_left(times, begin), bisect_left(times, end)
    before = times[first - 1] if first > 0 else begin
    after = times[last] if last < len(times) else end
    points = [before, *times[first:last], after]
    return max(later - earlier for earlier, later in pairwise(points))


def _count_within(times: Sequence[int], begin: int, end: int) -> int:
    """Return how many of the sorted `times` lie in [begin, end)."""
    return bisect_left(times, end) - bisect_left(times, begin)
