"""Success of operations in quiet time, and the rate of all operations, by kind.

Time is quiet when no fault lasts, and the victims of the last one have served for `SETTLED_S`. An operation counts if
it began in quiet time, and ended in the same quiet time or stayed open for `OPERATION_S` of it. It succeeded if it was
answered within `OPERATION_S`. An error that correctly reports the present state (`ANSWERS`), such as the refusal of a
replaced group member, is a success. Sends count only with `acks=all`; others have no guarantee. Requests to a broker
that was ordered to leave do not count: the workload continues to send them, unlike a real client. The verdict does not
depend on these figures."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jepsen.checkers import Op
from jepsen.checkers.history import ASSIGN, FAIL, OK, SEND, SUBSCRIBE
from jepsen.nemeses.fault import InjectedFault
from jepsen.workloads.client.access import ANY_NODE

SETTLED_S: Final = 2.0
"""Time, in seconds, that the cluster gets to settle after a fault has ended and its victims serve."""
OPERATION_S: Final = 5.0
"""Seconds after which an operation failed; longer than any client waits for an answer."""
FAILURES_SHOWN: Final = 10
ANSWERS: Final = frozenset(
    (
        "StaleGeneration",
        "UnknownMember",
        "FencedInstance",
        "RebalanceInProgress",
        "UnknownGroup",
        "TopicExists",
        "Aborted",  # a transaction, by its client
        "OffsetOutOfRange",  # the records were deleted; otherwise it is a finding
    )
)
"""Errors that are regular answers to a request."""
_LOCAL: Final = frozenset((ASSIGN, SUBSCRIBE))
"""Kinds of operations that send no request."""
_NEVER: Final = 1 << 62


class KindFigures(NamedTuple):
    """Numbers and latencies of the operations of one kind while no fault was under way."""

    operations: int
    succeeded: int

    @property
    def share(self) -> float | None:
        """Share of successful operations; None without operations."""
        return self.succeeded / self.operations if self.operations else None

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "share": self.share}


class Failure(NamedTuple):
    """Operation that did not succeed; `took_s` is None if it did not end."""

    at_s: float
    kind: str
    process: int
    outcome: str
    error: str
    took_s: float | None


class QuietFigures(NamedTuple):
    """Figures of the operations while no fault was under way; `failures` holds only the first ones."""

    seconds: float
    kinds: dict[str, KindFigures]
    failures: tuple[Failure, ...]

    @property
    def sends(self) -> KindFigures:
        """Figures of sends."""
        return self.kinds.get(SEND, KindFigures(0, 0))

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON: of sends, of each kind of operation, and the first failures."""
        sends = {"sends": self.sends.operations, "succeeded": self.sends.succeeded, "share": self.sends.share}
        kinds = {kind: figures.as_json() for kind, figures in self.kinds.items()}
        return {
            "seconds": self.seconds,
            **sends,
            "kinds": kinds,
            "failures": [each._asdict() for each in self.failures],
        }


class OfferedFigures(NamedTuple):
    """Operations begun per second: in the whole load, and while faults were under way."""

    per_s: float
    faults_s: float
    in_faults_per_s: float | None


class _EndedOperations:
    """Operations of one kind in the order of their ends; nanoseconds."""

    def __init__(self) -> None:
        self.began, self.ended, self.is_good, self.nodes = array("q"), array("q"), array("b"), array("b")

    def add(self, began_ns: int, ended_ns: int, node: int, *, is_good: bool) -> None:
        """Add an operation that `node` received; `is_good` is whether it succeeded."""
        self.began.append(began_ns)
        self.ended.append(ended_ns)
        self.is_good.append(is_good)
        self.nodes.append(node)


class Requests:
    """Collector of operations for the figures of quiet time, in which no fault is under way.

    Add the invocation and the end of each, then read the figures."""

    def __init__(self) -> None:
        self._began = array("q")
        self._kinds: dict[str, _EndedOperations] = {}
        self._failed: list[tuple[int, int, int, Op]] = []
        self._nodes: dict[int, int] = {}

    def add_invocation(self, invocation: Op, node: int = ANY_NODE) -> None:
        """Add an invocation; invocations arrive in the order of time, and `node` receives it."""
        if invocation.kind not in _LOCAL:
            self._began.append(invocation.time_ns)
            self._nodes[invocation.process] = node

    def add_completion(self, invocation: Op, op: Op) -> None:
        """Add a completed operation. It is good if it succeeded, or failed with a regular answer."""
        if invocation.kind not in _LOCAL:
            is_good = op.type == OK or (op.type == FAIL and op.error.partition(":")[0] in ANSWERS)
            self._add(invocation, op.time_ns, op, is_good=is_good)

    def add_unfinished(self, invocation: Op) -> None:
        """Add an operation that has no completion; it is not good."""
        if invocation.kind not in _LOCAL:
            self._add(invocation, _NEVER, invocation, is_good=False)

    def _add(self, invocation: Op, ended_ns: int, last: Op, *, is_good: bool) -> None:
        """Add the end of an operation to those of its kind.

        `last` is its completion, or the invocation if it has none."""
        ended = self._kinds.get(invocation.kind)
        if ended is None:
            ended = self._kinds[invocation.kind] = _EndedOperations()
        node = self._nodes[invocation.process]
        ended.add(invocation.time_ns, ended_ns, node, is_good=is_good)
        if not is_good:
            self._failed.append((invocation.time_ns, ended_ns, node, last._replace(payload=None)))

    def quiet(self, faults: Sequence[InjectedFault], begin_ns: int, length_s: float) -> QuietFigures:
        """Return the figures of quiet time within the load, which began at `begin_ns`."""
        spans = quiet_spans([(fault.begin_s, fault.served_s + SETTLED_S) for fault in faults], length_s)
        left = {node: begin_ns + round(fault.begin_s * 1e9) for fault in faults for node in fault.leaves}
        windows = _QuietWindows(spans, begin_ns, left)
        kinds = {kind: windows.count(ended) for kind, ended in sorted(self._kinds.items())}
        failures = sorted(each for each in self._failed if windows.includes(*each[:3]))
        return QuietFigures(
            sum(until - since for since, until in spans),
            {kind: figures for kind, figures in kinds.items() if figures.operations},
            tuple(
                Failure(
                    at_s=round((began - begin_ns) / 1e9, 3),
                    kind=op.kind,
                    process=op.process,
                    outcome="open" if ended == _NEVER else op.type,
                    error=op.error,
                    took_s=None if ended == _NEVER else round((ended - began) / 1e9, 3),
                )
                for began, ended, _, op in failures[:FAILURES_SHOWN]
            ),
        )

    def offered_figures(self, faults: Sequence[InjectedFault], begin_ns: int, length_s: float) -> OfferedFigures:
        """Return the rates of begun operations: in the whole load, and while faults were under way."""
        calm = quiet_spans([(fault.begin_s, fault.end_s) for fault in faults], length_s)
        faults_s = length_s - sum(until - since for since, until in calm)
        total = self._count_between(begin_ns, (0.0, length_s))
        in_faults = total - sum(self._count_between(begin_ns, span) for span in calm)
        return OfferedFigures(
            per_s=round(total / length_s, 1) if length_s > 0 else 0.0,
            faults_s=round(faults_s, 3),
            in_faults_per_s=round(in_faults / faults_s, 1) if faults_s > 0 else None,
        )

    def _count_between(self, begin_ns: int, span: tuple[float, float]) -> int:
        """Return how many operations began in `span`, in seconds since `begin_ns`."""
        since, until = (bisect_left(self._began, begin_ns + round(at_s * 1e9)) for at_s in span)
        return until - since


class _QuietWindows:
    """Spans without a fault, ascending, in nanoseconds of the history, and the times at which nodes left."""

    def __init__(self, spans: Sequence[tuple[float, float]], begin_ns: int, left: Mapping[int, int]) -> None:
        self._begins = [begin_ns + round(since * 1e9) for since, _ in spans]
        self._ends = [begin_ns + round(until * 1e9) for _, until in spans]
        self._left = left

    def includes(self, began_ns: int, ended_ns: int, node: int) -> bool:
        """Return whether an operation lies in a span, at a node that was in the cluster."""
        if node in self._left and ended_ns >= self._left[node]:
            return False
        place = bisect_right(self._begins, began_ns) - 1
        return place >= 0 and min(ended_ns, began_ns + round(OPERATION_S * 1e9)) < self._ends[place]

    def count(self, ended: _EndedOperations) -> KindFigures:
        """Count the operations in quiet windows, and those of them that succeeded within `OPERATION_S` seconds."""
        operations = succeeded = 0
        for began_ns, ended_ns, is_good, node in zip(ended.began, ended.ended, ended.is_good, ended.nodes, strict=True):
            if self.includes(began_ns, ended_ns, node):
                operations += 1
                succeeded += is_good and ended_ns - began_ns <= OPERATION_S * 1e9
        return KindFigures(operations, succeeded)


def quiet_spans(busy: Sequence[tuple[float, float]], length_s: float) -> list[tuple[float, float]]:
    """Return the parts of 0 … `length_s` outside of the busy spans."""
    spans, at = [], 0.0
    for since, until in sorted(busy):
        if min(since, length_s) > at:
            spans.append((at, min(since, length_s)))
        at = max(at, until)
    if at < length_s:
        spans.append((at, length_s))
    return spans
