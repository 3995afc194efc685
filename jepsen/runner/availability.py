"""How long nobody could write, fault by fault, and how well it went while nothing was wrong.

From completed sends alone. The time without writes around a fault is the longest time between two acknowledgements
that overlaps it; so it includes what the recovery took. It is given for the log as a whole, and for the partition that
suffered most. Figures, no judgement.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from jepsen.nemeses.fault import Happened
from raftlog.types import TopicPartition

SETTLED_S: Final = 2.0
"""After a fault has ended, and its victims serve, the cluster may still be busy with it; then quiet time begins."""


class FaultFigures(NamedTuple):
    """What one fault did to writers; seconds, and the completed sends that were acknowledged, refused and unknown."""

    fault: Happened
    without_write_s: float
    worst_partition: str
    worst_partition_s: float
    acknowledged: int
    refused: int
    unknown: int

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "fault": self.fault._asdict()}


class QuietFigures(NamedTuple):
    """Sends that began and ended while nothing was wrong, nor had been for a while, and how many were acknowledged."""

    seconds: float
    sends: int
    succeeded: int

    @property
    def share(self) -> float | None:
        return self.succeeded / self.sends if self.sends else None

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "share": self.share}


class Availability:
    """`note` every completed send, then ask. Times are in nanoseconds from the beginning of the test."""

    def __init__(self) -> None:
        self._done: dict[str, list[int]] = {"ok": [], "fail": [], "info": []}
        self._by_partition: dict[TopicPartition, list[int]] = {}
        self._sends: list[tuple[int, int, bool]] = []

    def note(self, invoked_ns: int, completed_ns: int, outcome: str, place: TopicPartition, *, asked_all: bool) -> None:
        """Completions come in the order of time. `asked_all`: with `acks=all`, so that it could be acknowledged."""
        if not asked_all:
            return
        self._done[outcome].append(completed_ns)
        self._sends.append((invoked_ns, completed_ns, outcome == "ok"))
        if outcome == "ok":
            self._by_partition.setdefault(place, []).append(completed_ns)

    def of(self, fault: Happened, partitions: Sequence[TopicPartition], begin_ns: int) -> FaultFigures:
        """`begin_ns` is the beginning of the load, from which the fault's own times count."""
        begin, end = (begin_ns + round(at_s * 1e9) for at_s in (fault.begin_s, fault.end_s))
        gaps = {place: longest_gap(self._by_partition.get(place, []), begin, end) for place in partitions}
        worst = max(gaps, key=lambda place: gaps[place])
        return FaultFigures(
            fault=fault,
            without_write_s=longest_gap(self._done["ok"], begin, end) / 1e9,
            worst_partition=str(worst),
            worst_partition_s=gaps[worst] / 1e9,
            acknowledged=_within(self._done["ok"], begin, end),
            refused=_within(self._done["fail"], begin, end),
            unknown=_within(self._done["info"], begin, end),
        )

    def quiet(self, faults: Sequence[Happened], begin_ns: int, length_s: float) -> QuietFigures:
        """While no fault was under way, nor had been lately, within the load."""
        spans = quiet_spans([(fault.begin_s, fault.served_s + SETTLED_S) for fault in faults], length_s)
        sends = succeeded = 0
        for since, until in spans:
            begin, end = begin_ns + round(since * 1e9), begin_ns + round(until * 1e9)
            inside = [is_ok for invoked, done, is_ok in self._sends if begin <= invoked and done < end]
            sends, succeeded = sends + len(inside), succeeded + sum(inside)
        return QuietFigures(sum(until - since for since, until in spans), sends, succeeded)


def quiet_spans(busy: Sequence[tuple[float, float]], length_s: float) -> list[tuple[float, float]]:
    """What is left of 0 … length when the busy spans are taken out."""
    spans, at = [], 0.0
    for since, until in sorted(busy):
        if since > at:
            spans.append((at, min(since, length_s)))
        at = max(at, until)
    if at < length_s:
        spans.append((at, length_s))
    return spans


def longest_gap(times: Sequence[int], begin: int, end: int) -> int:
    """The longest time between two neighbours of `times` (ascending) that overlaps the span.

    Where there is no neighbour before the span or behind it, the span's own bound takes its place.
    """
    first, last = bisect_left(times, begin), bisect_left(times, end)
    before = times[first - 1] if first > 0 else begin
    after = times[last] if last < len(times) else end
    points = [before, *times[first:last], after]
    return max(later - earlier for earlier, later in pairwise(points))


def _within(times: Sequence[int], begin: int, end: int) -> int:
    return bisect_left(times, end) - bisect_left(times, begin)
