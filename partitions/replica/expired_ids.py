"""Producer ids whose state a partition has expired, as at most `RANGES_MAX` ranges of ids.

    every expired id lies in a range           ranges ascend, and at least one id lies between two of them

The network may repeat the first batch of an expired producer after its expiry, and its sequence 0 looks like a
new producer's. So an id in a range appends nothing any more. Above the limit the ranges with the smallest gaps between
them become one: an id in such a gap is refused although it never wrote, and its producer takes a newer one, which lies
above all ranges. Changed by committed entries only, and by each entry as a whole, so it is the same on every replica.
Pure."""

import struct
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from raftlog.records import COMPUTED_PRODUCER_IDS

RANGES_MAX: Final = 256
RANGE: Final = struct.Struct(">qq")
"""Format of a range: first and last id."""


class ExpiredIds:
    """Ranges of expired ids; `ranges` are pairs of first and last id, ascending."""

    __slots__ = ("_firsts", "ranges")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.ranges = tuple(ranges)
        self._firsts = [first for first, _ in self.ranges]

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, producer_id: int) -> bool:
        at = bisect_right(self._firsts, producer_id) - 1
        return at >= 0 and producer_id <= self.ranges[at][1]

    def with_ids(self, producer_ids: Iterable[int]) -> "ExpiredIds":
        """Return the ranges with the ids of one entry added, except ids that the Spark sink computes."""
        new = [(each, each) for each in producer_ids if each < COMPUTED_PRODUCER_IDS and each not in self]
        if not new:
            return self
        joined: list[tuple[int, int]] = []
        for first, last in sorted([*self.ranges, *new]):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], last
            else:
                joined.append((first, last))
        return ExpiredIds(_merge_ranges(joined))


def _merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge neighbouring ranges until at most `RANGES_MAX` are left.

    The smallest gaps are closed first; of equal ones, the lower."""
    excess = len(ranges) - RANGES_MAX
    if excess <= 0:
        return ranges
    gaps = sorted((ranges[at][0] - ranges[at - 1][1], at) for at in range(1, len(ranges)))
    closed = {at for _, at in gaps[:excess]}
    kept: list[tuple[int, int]] = []
    for at, (first, last) in enumerate(ranges):
        if at in closed:
            kept[-1] = kept[-1][0], last
        else:
            kept.append((first, last))
    return kept


NO_IDS: Final = ExpiredIds()
