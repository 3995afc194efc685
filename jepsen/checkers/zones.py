"""Check of linearizability for registers whose values identify their writes, in O(n log n).

After Gibbons and Korach (Testing shared memories, 1997). A write and the reads of its value are a *cluster*. Let `end`
be the first completion in it, and `start` the last invocation:

    end < start     a forward zone: the register held the value from `end` to `start`
    start < end     a backward zone: the register held the value at some moment between `start` and `end`

There is an order if and only if no read ends before its write begins, no two forward zones overlap, and no backward
zone lies inside a forward zone. The initial write, of `None`, precedes all others.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from jepsen.checkers.history import READ, Op
from jepsen.checkers.registers import NEVER, Contradiction, Operation, RegisterOperations, State


class Cluster:
    """Write of one value and all reads of it, with the entries that bound their zone; see the module.

    The initial value may have no entries."""

    __slots__ = ("end", "end_op", "start", "start_op", "value", "write")

    def __init__(self, value: State, write: Operation | None) -> None:
        self.value, self.write = value, write
        self.start, self.end = (-2, -1) if write is None else (write.invoked, write.completed)
        self.start_op: Op | None = None if write is None else write.invocation
        self.end_op: Op | None = None if write is None else write.completion

    def add(self, read: Operation) -> None:
        """Narrow the zone of the value by a read that returned it."""
        if read.completed < self.end:
            self.end, self.end_op = read.completed, read.completion
        if read.invoked > self.start:
            self.start, self.start_op = read.invoked, read.invocation


def find_contradiction(gathered: RegisterOperations) -> Contradiction | None:
    """Return the first contradiction found, or None when the register is linearizable.

    `gathered.is_plain` must hold."""
    clusters: dict[State, Cluster] = {None: Cluster(None, None)}
    reads = []
    for operation in gathered.operations.values():
        if operation.kind == READ:
            reads.append(operation)
        else:
            clusters[operation.value] = Cluster(operation.value, operation)
    for read in reads:
        cluster = clusters.get(read.value)
        if cluster is None:
            return gathered.explain_unwritten_read(read)
        if cluster.write is not None and read.completed < cluster.write.invoked:
            return Contradiction(f"{read} ended before the write of it began", (*read.proof, cluster.write.invocation))
        cluster.add(read)
    forward = sorted((each for each in clusters.values() if each.end < each.start), key=lambda each: each.end)
    return _find_overlap(forward) or _find_enclosed(
        forward, [each for each in clusters.values() if each.start < each.end]
    )


def _find_overlap(forward: Sequence[Cluster]) -> Contradiction | None:
    """Return the first overlap of two forward zones, sorted by their ends.

    Comparing neighbours is enough: without an overlap of neighbours there is none at all."""
    for one, other in pairwise(forward):
        if other.end < one.start:
            return Contradiction(f"{_describe_zone(one)}, and {_describe_zone(other)}", _bounding_entries(one, other))
    return None


def _find_enclosed(forward: Sequence[Cluster], backward: Sequence[Cluster]) -> Contradiction | None:
    """Return the contradiction of a backward zone that lies within a forward zone, or None.

    `forward` is sorted, and its zones do not overlap."""
    ends = [each.end for each in forward]
    for each in backward:
        place = bisect_left(ends, each.start) - 1
        if each.end < NEVER and place >= 0 and each.end < forward[place].start:
            around = forward[place]
            text = f"{_describe_zone(around)}, and {each.value!r} at some moment from #{each.start} to #{each.end}"
            return Contradiction(text, _bounding_entries(around, each))
    return None


def _describe_zone(forward: Cluster) -> str:
    """Return the sentence about a forward zone: the register held this value from its first to its last proof."""
    since = "the beginning" if forward.write is None else f"#{forward.end}"
    return f"it held {forward.value!r} from {since} to #{forward.start}"


def _bounding_entries(*clusters: Cluster) -> tuple[Op, ...]:
    """Return the entries that bound the zones; zones without an entry are omitted."""
    return tuple(op for each in clusters for op in (each.end_op, each.start_op) if op is not None)
