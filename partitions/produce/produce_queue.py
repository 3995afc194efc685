"""Queue of the produce calls of one partition to its leader, on any node: in order, and in few appends.

    queued → in flight → answered              in flight ≤ `_FLIGHTS_MAX` appends

Calls that arrive while appends are in flight are appended together. Calls that a leader definitely refused, because it
no longer leads, cannot be reached or has no room, return to their place in the queue and are retried until their
deadlines; calls that may have been appended are not. A call whose deadline passes while it is queued did not
happen; the outcome of one in flight is unknown. Calls of idempotent producers are sent alone, in their order. They are
retried also when they may have been appended, and when an earlier call has to come first; a call that may have been
appended stays unknown until a leader answers with its offset. Owned by `Partition`."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Protocol

from raftlog.errors import (
    DeadlineExceeded,
    DescriptorsExhausted,
    DuplicateSequence,
    LogDamaged,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    OutOfOrderSequence,
    Overloaded,
    RaftlogError,
    StorageFull,
    Unavailable,
)
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import NEVER, Deadline, DeadlineSweep
from raftlog.partitions.produce.pending import Pending, build_batches, copied_error
from raftlog.partitions.produce.traced_calls import begin_wait, end_waits
from raftlog.partitions.replica import ReplicaAppended
from raftlog.partitions.results import ALL, Acks
from raftlog.records import HEADER_SIZE
from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.tracing.spans import Span

_deadline_of = attrgetter("deadline")
_FLIGHTS_MAX = 4
"""Maximum number of appends in flight; with more of them, each would only be smaller."""
_SEQUENCED_FLIGHTS_MAX = 32
"""Maximum number of appends of idempotent producers in flight."""
_ALL_FLIGHTS_MAX = 64
"""Maximum number of appends in flight including those to earlier leaders, which may hang until their deadlines."""
_LOOK_S = 0.25
"""Interval at which a full queue checks for another leader."""
_DRAIN_BYTES_MAX = 4 * 1024 * 1024
_DRAIN_RECORDS_MAX = 4_000
"""Bounds of one append, unless one call has more: building it must not block the loop for long."""


class Destination(Protocol):
    """Interface of the partition that its queue uses."""

    name: str

    @property
    def batch_bytes_max(self) -> int:
        """Largest batch that is built from single records."""
        ...

    @property
    def leader(self) -> object:
        """Leader as known here; appends to a former leader do not delay those to the next one."""
        ...

    def no_leader_error(self) -> RaftlogError | None:
        """Return the error with which an append fails at once without a leader; None if there is one."""
        ...

    def append(
        self, batches: Sequence[bytearray], acks: Acks, deadline: Deadline, span: Span | None = None
    ) -> "asyncio.Future[ReplicaAppended]":
        """Send batches to the leader as known here; the future fails with a `RaftlogError`."""
        ...

    def wait_for_leader_change(self, deadline: Deadline) -> Awaitable[None]:
        """Wait until the leader may have changed, for a bounded time."""
        ...


_SILENCE_S = 0.5
"""Age of an unanswered append after which the leader, not the load, is the reason why other calls wait."""


class _Flight:
    """Calls that are appended together; `began` is by the loop's clock."""

    __slots__ = ("arrived", "began", "count", "is_sequenced", "leader", "pendings", "size")

    def __init__(self, pendings: list[Pending], began: float, leader: object) -> None:
        self.pendings, self.began, self.leader = pendings, began, leader
        self.count = self.size = 0
        for pending in pendings:
            self.count += pending.count
            self.size += pending.size
        self.arrived = pendings[0].arrived if pendings else 0.0
        self.is_sequenced = bool(pendings and pendings[0].producers)
        """Whether the batches have sequence numbers of producers; then the flight is a single call."""


class ProduceQueue:
    """Queue of produce calls to one partition. `budgets` are the partition's own and that of all partitions."""

    def __init__(
        self, destination: Destination, budgets: tuple[Budget, Budget], counters: Counters, wall_ms: Callable[[], int]
    ) -> None:
        self._destination = destination
        self._budgets = budgets
        self._counters = counters
        self._wall_ms = wall_ms
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Pending] = deque()
        """Ascending by number."""
        self._number = 0
        self._flights: dict[_Flight, None] = {}
        self._refusal: RaftlogError | None = None
        """Last error that refused the head of the queue."""
        self._pause: asyncio.Task[None] | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._is_drain_scheduled = False
        self._closed_because: RaftlogError | None = None
        self._sweep = DeadlineSweep(self._expire)

    # arrival

    def try_add(self, pending: Pending) -> bool:
        """Queue the call if there is room; return whether it was queued. Raises when the queue is closed."""
        if self._closed_because is not None:
            raise copied_error(self._closed_because)
        own, shared = self._budgets
        if not own.try_take(pending.size):
            return False
        if not shared.try_take(pending.size):
            own.release(pending.size)
            return False
        self._add(pending)
        return True

    async def add_when_room(self, pending: Pending) -> None:
        """Wait for room until the call's deadline, then queue it. Raises `Overloaded`."""
        self._counters.throttled += 1
        own, shared = self._budgets
        await own.take(pending.size, pending.deadline)
        try:
            await shared.take(pending.size, pending.deadline)
        except BaseException:
            own.release(pending.size)
            raise
        if self._closed_because is not None:
            self._release(pending.size)
            raise copied_error(self._closed_because)
        self._add(pending)

    def _add(self, pending: Pending) -> None:
        """Add a call to the queue and schedule its sending."""
        self._counters.produces += 1
        pending.number, pending.arrived = self._number, stopwatch()
        self._number += 1
        if self._counters.tracer is not None:
            begin_wait(pending, self._counters.tracer, self._destination.name)
        self._queue.append(pending)
        if pending.deadline < self._sweep.earliest:
            self._sweep.add(pending.deadline)
        if not self._is_drain_scheduled:
            self._schedule()

    def _release(self, size: int) -> None:
        for budget in self._budgets:
            budget.release(size)

    # appends

    def _schedule(self) -> None:
        """Schedule a drain of the queue in the loop's next turn, if anything may be sent."""
        if not self._is_drain_scheduled and self._may_send():
            self._is_drain_scheduled = True
            self._loop.call_soon(self._drain)

    def _may_send(self) -> bool:
        """Return whether the next append may be sent; after a refusal only one append at a time is tried."""
        if not self._queue or self._pause is not None:
            return False
        is_sequenced = bool(self._queue[0].producers)
        flights_max = _SEQUENCED_FLIGHTS_MAX if is_sequenced else _FLIGHTS_MAX
        if self._refusal is not None:
            flights_max = 1
        if len(self._flights) < flights_max:
            return True
        leader = self._destination.leader
        alike = 0
        for flight in self._flights:
            if flight.is_sequenced == is_sequenced and flight.leader == leader:
                alike += 1
        if alike < flights_max:
            return len(self._flights) < _ALL_FLIGHTS_MAX
        if self._look_timer is None:
            self._look_timer = self._loop.call_later(_LOOK_S, self._retry_send)
        return False

    def _retry_send(self) -> None:
        """Try to send again, because the appends in flight may hang at a former leader."""
        self._look_timer = None
        self._schedule()

    def _drain(self) -> None:
        """Send as many queued calls as the pipeline allows; pause while no leader is known."""
        self._is_drain_scheduled = False
        if self._may_send():
            refusal = self._destination.no_leader_error()
            if refusal is not None:
                self._pause_queue(refusal)
                return
            pendings = self._take_calls()
            if pendings:
                self._send(pendings)
            self._schedule()

    def _pause_queue(self, refusal: RaftlogError) -> None:
        """Send nothing until the leader may have changed; `refusal` is the reason."""
        self._refusal = refusal
        if self._pause is None:
            self._pause = self._loop.create_task(self._wait_for_leader())

    def _take_calls(self) -> list[Pending]:
        """Remove the calls of the next append from the queue and return them.

        These are awaited calls with the same acknowledgement, or a single call of idempotent producers."""
        now = self._loop.time()
        taken: list[Pending] = []
        size = count = dropped = 0
        queue = self._queue
        while queue and size < _DRAIN_BYTES_MAX and count < _DRAIN_RECORDS_MAX:
            if taken and ((queue[0].acks == ALL) != (taken[0].acks == ALL) or queue[0].producers or taken[0].producers):
                break
            pending = queue.popleft()
            future = pending.future
            if pending.deadline <= now:
                self._fail_expired(pending)
                dropped += pending.size
            elif future is not None and future.done():  # abandoned
                dropped += pending.size
            else:
                taken.append(pending)
                size += pending.size
                count += pending.count
        if dropped:
            self._release(dropped)
        return taken

    def _send(self, pendings: list[Pending]) -> None:
        """Append the calls' batches to the destination, as one request."""
        bound = self._destination.batch_bytes_max - HEADER_SIZE
        batches, kept = build_batches(pendings, bound, self._wall_ms())
        flight = _Flight(kept, self._loop.time(), self._destination.leader)
        if kept is not pendings:
            self._release(sum(pending.size for pending in pendings) - flight.size)
        if not kept:
            return
        deadline = max(map(_deadline_of, kept))
        span = None if self._counters.tracer is None else end_waits(kept, batches)
        if span is None:
            future = self._destination.append(batches, kept[0].acks, deadline)
        else:
            future = self._destination.append(batches, kept[0].acks, deadline, span)
        self._flights[flight] = None
        self._counters.appends += 1
        future.add_done_callback(lambda done: self._on_outcome(flight, done, batches))

    # answers

    def _on_outcome(
        self, flight: _Flight, done: "asyncio.Future[ReplicaAppended]", batches: Sequence[bytearray]
    ) -> None:
        """Complete, requeue or fail the calls of an append, by its outcome."""
        del self._flights[flight]
        error = OutcomeUnknown("the process stops") if done.cancelled() else done.exception()
        if error is None and not flight.is_sequenced and _record_count(done.result()) != flight.count:
            error = OutcomeUnknown(
                f"{self._destination.name}: the answer is for another number of records: {done.result()}"
            )
        if error is None:
            self._resolve(flight, done.result(), batches)
        elif isinstance(error, RaftlogError) and self._may_try_again(flight, error):
            self._requeue(flight, error)
        else:
            self._fail(flight, error)
        self._schedule()
        if error is not None and not isinstance(error, RaftlogError):
            raise error

    def _resolve(self, flight: _Flight, appended: ReplicaAppended, batches: Sequence[bytearray]) -> None:
        """Complete the calls of an acknowledged append, each with its first offset."""
        self._refusal = None
        self._counters.append_times.observe_since(flight.arrived)
        offset: int = appended.base_offset
        for pending in flight.pendings:
            pending.appended = appended
            future = pending.future
            if future is not None and not future.done():  # its caller waits
                future.set_result(offset)
            offset += pending.count
        counters = self._counters
        if appended.is_duplicate:
            counters.duplicates += 1
            self._release(flight.size)
            return
        counters.batches_in += len(batches)
        counters.records_in += flight.count
        counters.bytes_in += sum(map(len, batches))
        self._release(flight.size)

    def _may_try_again(self, flight: _Flight, error: RaftlogError) -> bool:
        """Return whether the flight is retried: it definitely failed and may succeed later, or is idempotent."""
        if self._closed_because is not None:
            return False
        if flight.is_sequenced:
            [pending] = flight.pendings
            if isinstance(error, OutOfOrderSequence):
                return self._follows_pending_call(pending)
            if error.outcome == "unknown":
                return not isinstance(error, DuplicateSequence)
        return isinstance(error, Unavailable) and not isinstance(error, StorageFull | DescriptorsExhausted | LogDamaged)

    def _follows_pending_call(self, later: Pending) -> bool:
        """Return whether an earlier call of the same producer has no outcome yet."""
        in_flight = (pending for flight in self._flights for pending in flight.pendings)
        return any(
            pending.number < later.number and not pending.producers.isdisjoint(later.producers)
            for pending in (*in_flight, *self._queue)
        )

    def _requeue(self, flight: _Flight, error: RaftlogError) -> None:
        """Put the calls of a failed append back into the queue, in order; pause until the leader may have changed."""
        back = [pending for pending in flight.pendings if not pending.is_abandoned]
        if error.outcome == "unknown":
            for pending in back:
                pending.maybe_appended = error
        for pending in back:
            pending.renew_batches()
            self._sweep.add(pending.deadline)
        size = sum(pending.size for pending in back)
        self._release(flight.size - size)
        if back and self._queue and self._queue[0].number < back[-1].number:
            self._queue = deque(sorted([*back, *self._queue], key=lambda pending: pending.number))
        else:
            self._queue.extendleft(reversed(back))
        if not isinstance(error, Unavailable):  # the error of one producer's call does not concern others
            error = NotLeader(f"{self._destination.name}: earlier calls have no outcome yet: {error}")
        self._pause_queue(error)

    async def _wait_for_leader(self) -> None:
        """Wait until the leader may have changed, then continue to send."""
        try:
            await self._destination.wait_for_leader_change(NEVER)
        finally:
            self._pause = None
            self._schedule()

    def _fail(self, flight: _Flight, error: BaseException) -> None:
        for pending in flight.pendings:
            self._fail_one(pending, copied_error(error))
        self._release(flight.size)

    def _fail_one(self, pending: Pending, error: RaftlogError) -> None:
        """Fail a call; its outcome is unknown if an earlier attempt may have appended it."""
        if pending.maybe_appended is not None and error.outcome != "unknown":
            error = OutcomeUnknown(f"{pending.maybe_appended}; the retry failed: {error}")
        if pending.fail(error):
            if error.outcome == "unknown":
                self._counters.produce_unknown += 1
            else:
                self._counters.produce_failures += 1

    def close(self, why: RaftlogError) -> None:
        """Refuse further calls and fail the queued ones, which did not happen; calls in flight get their answers."""
        self._closed_because = why
        if self._pause is not None:
            self._pause.cancel()
        if self._look_timer is not None:
            self._look_timer.cancel()
        queue, self._queue = self._queue, deque()
        for pending in queue:
            self._fail_one(pending, copied_error(why))
        self._release(sum(pending.size for pending in queue))

    # deadlines

    def _expire(self, now: float) -> float:
        """Fail calls past their deadline and free their bytes; return the earliest deadline that is left."""
        earliest: float = NEVER
        left: deque[Pending] = deque()
        freed = 0
        for pending in self._queue:
            if pending.deadline <= now:
                self._fail_expired(pending)
            if pending.deadline <= now or pending.is_abandoned:
                freed += pending.size
            else:
                left.append(pending)
                earliest = min(earliest, pending.deadline)
        self._queue = left
        self._release(freed)
        for flight in self._flights:
            for pending in flight.pendings:
                if pending.deadline <= now:
                    self._fail_late(pending)
                elif not pending.is_abandoned:
                    earliest = min(earliest, pending.deadline)
        return earliest

    def _fail_expired(self, pending: Pending) -> None:
        """Fail a waiting call whose deadline has passed, with the reason for its wait; it was not appended."""
        name, refusal = self._destination.name, self._refusal
        error: RaftlogError
        oldest = next(iter(self._flights), None)
        if oldest is not None and self._loop.time() - oldest.began > _SILENCE_S:
            error = NoLeader(
                f"{name}: the leader does not answer earlier appends (a majority may be missing), and the deadline "
                "passed; nothing was appended"
            )
        elif isinstance(refusal, Overloaded) or refusal is None:
            error = Overloaded(
                f"{name}: the deadline passed before the append; nothing was appended"
                f"{f' ({refusal})' if refusal else ''}; send more slowly, or allow more time"
            )
        elif isinstance(refusal, NotLeader | ConnectionError):
            error = NoLeader(f"{name}: no leader was found before the deadline, and nothing was appended ({refusal})")
        else:
            error = copied_error(refusal)
        self._fail_one(pending, error)

    def _fail_late(self, pending: Pending) -> None:
        """Fail a call that was handed to the leader before its deadline; its outcome is unknown."""
        self._fail_one(
            pending,
            DeadlineExceeded(
                f"{self._destination.name}: handed to the leader, but no majority had it on disk before the deadline; "
                "read the end of the partition to learn what became of it"
            ),
        )


def _record_count(appended: ReplicaAppended) -> int:
    return appended.next_offset - appended.base_offset
