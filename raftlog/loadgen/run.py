"""Run of a plan: operations begin when the plan schedules them, and end when the wire reports their end.

    open loop      operation n is due at begin + n ÷ rate, independent of earlier ones
                   latency = its end − that time, also for operations that could not be sent then
    closed loop    each client keeps `in_flight` operations in flight; latency = end − send

So a broker that stalls for a second causes, in the open loop, a second's worth of late answers instead of one (no
coordinated omission). Nothing is retried: every offered operation counts once. Operations that have not begun one
timeout after the end of the plan count as failed and never begin, so that an overloaded cluster cannot keep a run from
ending."""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from raftlog.loadgen.plan import LoadMode, LoadPlan
from raftlog.loadgen.result import Result, Second
from raftlog.loadgen.tally import Reasons, SuccessGap, Tally
from raftlog.loadgen.wire import Arrival, HttpWire
from raftlog.loadgen.work import Operation, Work

LEAD_S: Final = 0.02
"""Time from the start of a run to its first operation."""
_PAUSE_S: Final = 0.05
"""Pause of a closed loop's client after a failed operation, so that it does not spin while brokers are down."""
_PROGRESS_S: Final = 0.2


class LoadProgress(NamedTuple):
    """Progress of a run: elapsed seconds of its planned time, and numbers of operations so far."""

    seconds: float
    succeeded: int
    ended: int


class _UnderWay(NamedTuple):
    """Operation in flight."""

    operation: Operation
    since: float
    """Time from which its latency counts."""


class LoadRun:
    """One run of a plan, which `run` executes once."""

    def __init__(
        self,
        plan: LoadPlan,
        wire: HttpWire,
        work: Work,
        *,
        on_progress: Callable[[LoadProgress], None] = lambda _: None,
        on_success: Callable[[float, float], None] = lambda _since, _at: None,
    ) -> None:
        """Prepare a run. `on_success(start, end)` gets the bounds of each success's latency, by the wire's clock."""
        self._plan, self._wire, self._work = plan, wire, work
        self._on_progress, self._on_success = on_progress, on_success
        self._begin = wire.now() + LEAD_S
        self._until = self._begin + plan.seconds
        self._issued = 0
        self._ended = 0
        self._under_way: dict[int, _UnderWay] = {}
        self._free = deque(client for _ in range(plan.in_flight) for client in range(plan.clients))
        """Clients that can begin another operation; a client is contained once for each such operation."""
        self._paused: deque[tuple[float, int]] = deque()
        """End of the pause and client, for each client of a closed loop that pauses."""
        self._tallies = {kind: Tally() for kind in plan.mix.weights}
        self._reasons = Reasons()
        self._gap = SuccessGap(self._begin)
        self._seconds: list[Second] = []
        self._progress_at = self._begin
        self._total = plan.offered

    def end(self) -> None:
        """End the run early: start no more operations, and wait for those in flight. Called by `on_progress`."""
        self._until = min(self._until, self._wire.now())
        self._total = None if self._total is None else self._issued

    def run(self) -> Result:
        """Run until every operation has ended, with or without an answer; return the result."""
        wire = self._wire
        while True:
            due = self._issue()
            if due is None and not self._under_way:
                break
            # If no operation is due, the wire's own deadlines end the wait.
            until = self._progress_at if due is None else min(due, self._progress_at)
            for arrival in wire.wait(until):
                self._finish(arrival)
            self._report_progress()
        end = max(self._until, wire.now())
        self._gap.close_gap(self._until)
        unsent = max(0, (self._total or 0) - self._issued)
        if unsent:
            self._reasons.counts["too late to begin"] = unsent
        return Result(
            self._plan,
            end - self._begin,
            self._tallies,
            self._reasons.counts,
            self._gap.longest_s,
            self._seconds,
            unsent,
        )

    # begin of operations

    def _issue(self) -> float | None:
        """Start the operations that are due.

        Returns the time of the next operation; None if no more follow, or if it waits for the end of another one."""
        return self._issue_open() if self._plan.mode is LoadMode.OPEN else self._issue_closed()

    def _issue_open(self) -> float | None:
        """Start all operations whose scheduled time has come; return the same as `_issue`."""
        total, rate = self._total, self._plan.rate
        assert total is not None, "an open loop has a rate"
        if self._wire.now() >= self._until + self._plan.timeout_ms / 1000:
            return None
        while self._issued < total:
            due = self._begin + self._issued / rate
            if due > self._wire.now():
                return due
            if not self._free:
                return None
            self._start(due)
        return None

    def _issue_closed(self) -> float | None:
        """Start as many operations as clients can begin; return the same as `_issue`."""
        now = self._wire.now()
        if now >= self._until:
            return None
        if now < self._begin:
            return self._begin
        while self._paused and self._paused[0][0] <= now:
            self._free.append(self._paused.popleft()[1])
        while self._free:
            self._start(self._wire.now())
        return self._paused[0][0] if self._paused else self._until

    def _start(self, since: float) -> None:
        """Send the next operation of a free client; its latency counts from `since`."""
        operation = self._work.draw(self._free.popleft())
        token = self._issued
        self._issued += 1
        self._tallies[operation.kind].offered += 1
        self._under_way[token] = _UnderWay(operation, since)
        self._wire.send(token, operation.client, operation.address, operation.request)

    # end of operations

    def _finish(self, arrival: Arrival) -> None:
        """Count the outcome of an operation, and free its client; a closed loop pauses after an error."""
        operation, since = self._under_way.pop(arrival.token)
        outcome = self._work.finish(operation, arrival)
        tally = self._tallies[operation.kind]
        self._ended += 1
        if not outcome.reason:
            tally.succeeded += 1
            tally.latencies.add(arrival.at - since)
            self._gap.close_gap(arrival.at)
            self._on_success(since, arrival.at)
            self._count_in_second(arrival.at, arrival.at - since)
        else:
            tally.unknown += outcome.is_unknown
            tally.failed += not outcome.is_unknown
            self._reasons.add(outcome.reason)
        if outcome.reason and self._plan.mode is LoadMode.CLOSED:
            self._paused.append((arrival.at + _PAUSE_S, operation.client))
        else:
            self._free.append(operation.client)

    def _count_in_second(self, at: float, latency_s: float) -> None:
        """Add a success to the second of the run in which it was answered."""
        number = max(0, int(at - self._begin))
        while len(self._seconds) <= number:
            self._seconds.append(Second(0, 0.0))
        before = self._seconds[number]
        self._seconds[number] = Second(before.succeeded + 1, max(before.slowest_ms, latency_s * 1000))

    def _report_progress(self) -> None:
        """Call `on_progress` if the interval since the last call has passed."""
        now = self._wire.now()
        if now >= self._progress_at:
            self._progress_at = now + _PROGRESS_S
            succeeded = sum(tally.succeeded for tally in self._tallies.values())
            self._on_progress(
                LoadProgress(min(max(0.0, now - self._begin), self._plan.seconds), succeeded, self._ended)
            )
