"""One partition on one node: a lone log made usable for many asyncio callers at once.

Produce calls queue up in the order in which they came. One *drain* builds everything that is queued into batches,
appends them and starts one flush; while that flush is under way the next calls queue up behind it, so a sync is
shared by all who waited for it. When the log says that an append is acknowledged, its callers are answered together.

    queued → appended → acknowledged          the order never changes
    pending bytes = queued + appended ≤ the partition's budget

A call that fails before its append definitely did not happen. A call that is appended and not acknowledged by its
deadline is unknown. Called by `broker`; calls `LoneLog`, whose completions arrive on the event loop.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence

from raftlog.config import LogConfig
from raftlog.errors import (
    CorruptBatch,
    DeadlineExceeded,
    LogClosed,
    LogDamaged,
    OutcomeUnknown,
    Overloaded,
    RaftlogError,
    RecordTooLarge,
    SyncFailed,
)
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import NEVER, Deadline
from raftlog.partitions.pending import Pending, build_batches, record_size
from raftlog.partitions.results import ALL, Acks, Fetched
from raftlog.partitions.waiters import FetchWaiters
from raftlog.records import HEADER_SIZE, NewRecord, validate_client_batches
from raftlog.storage.disk import Disk
from raftlog.storage.lone_log import LoneLog
from raftlog.types import Buffer, Index, Offset

LEADER_EPOCH = 0
"""A lone log has no terms."""
_DRAIN_BYTES_MAX = 4 * 1024 * 1024
"""One drain takes no more than this, so that building batches never holds up the loop for long."""
_OVERLAP_BYTES_MIN = 256 * 1024
"""So many queued bytes are appended while a flush is still under way: the log then writes them at its end."""


def clock_ms() -> int:
    """The wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


class Partition:
    """Use `open`; one event loop owns it."""

    def __init__(self, name: str, budget: Budget, shared_budget: Budget, counters: Counters,
                 accumulate_bytes_max: int) -> None:
        self.name = name
        self.log: LoneLog
        self._loop = asyncio.get_running_loop()
        self._budget = budget
        self._shared_budget = shared_budget
        self._counters = counters
        self._accumulate_bytes_max = accumulate_bytes_max
        self._queue: deque[Pending] = deque()
        self._queued_bytes = 0
        self._appended: deque[tuple[Index, list[Pending], int]] = deque()
        self._drain_scheduled = False
        self._sweep_at: float = NEVER
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._flush_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.waiters = FetchWaiters()
        self._unseen: deque[tuple[Offset, int]] = deque()

    @classmethod
    def open(cls, disk: Disk, path: str, config: LogConfig, *, name: str, budget: Budget, shared_budget: Budget,
             counters: Counters, accumulate_bytes_max: int, create: bool, clock: Callable[[], int] = clock_ms,
             ) -> "Partition":
        """Open or create the log at `path`; blocking. Raises what `LoneLog.open` raises."""
        partition = cls(name, budget, shared_budget, counters, accumulate_bytes_max)
        partition.log = LoneLog.open(
            disk, path, config, clock=clock, create=create, on_progress=partition._on_progress,
            on_refused=partition._on_refused,
        )
        return partition

    # ---- producing

    async def produce_records(self, records: Sequence[NewRecord], acks: Acks, deadline: Deadline) -> int:
        """Append the records one after another; the offset of the first. -1 with `acks=0`."""
        future = await self.enqueue_records(records, acks, deadline)
        return -1 if future is None else await future

    async def produce_batches(self, body: Buffer, acks: Acks, deadline: Deadline) -> tuple[int, int]:
        """Append a client's batches as they are; the first offset and the one after the last."""
        checked = validate_client_batches(body, self.log.config.max_message_bytes)
        batches = [batch for _, batch in checked]
        count = sum(header.record_count for header, _ in checked)
        pending = self._pending((), batches, count, len(body), acks, deadline)
        if not self._maybe_enqueue(pending):
            await self._wait_for_room(pending)
        base = -1 if pending.future is None else await pending.future
        return base, base + count if base >= 0 else -1

    async def enqueue_records(self, records: Sequence[NewRecord], acks: Acks, deadline: Deadline,
                              ) -> "asyncio.Future[int] | None":
        """Queue the records; the future gets their first offset. Raises what definitely fails."""
        size = self._measured(records)
        pending = self._pending(records, (), len(records), size, acks, deadline)
        if not self._maybe_enqueue(pending):
            await self._wait_for_room(pending)
        return pending.future

    def check_size(self, size: int) -> None:
        """Raises `RecordTooLarge` for a record of this size (`record_size`)."""
        limit = self.log.config.max_message_bytes
        if size + HEADER_SIZE > limit:
            raise RecordTooLarge(
                f"{self.name}: a record of about {size} bytes does not fit max.message.bytes={limit}; "
                "send a smaller one, or raise the setting of the topic"
            )

    def _measured(self, records: Sequence[NewRecord]) -> int:
        total = 0
        for record in records:
            size = record_size(record)
            self.check_size(size)
            total += size
        return total

    def _pending(self, records: Sequence[NewRecord], batches: Sequence[Buffer], count: int, size: int, acks: Acks,
                 deadline: Deadline) -> Pending:
        if not acks:
            return Pending(records, batches, count, size, acks, NEVER, None)
        return Pending(records, batches, count, size, acks, deadline, self._loop.create_future())

    def _maybe_enqueue(self, pending: Pending) -> bool:
        if self._closed or self.log.failure is not None or self.log.damage is not None:
            raise self._refusal()
        size = pending.size
        if not self._budget.maybe_take(size):
            return False
        if not self._shared_budget.maybe_take(size):
            self._budget.give(size)
            return False
        self._enqueue(pending)
        return True

    async def _wait_for_room(self, pending: Pending) -> None:
        self._counters.throttled += 1
        await self._budget.take(pending.size, pending.deadline)
        try:
            await self._shared_budget.take(pending.size, pending.deadline)
        except BaseException:
            self._budget.give(pending.size)
            raise
        if self._closed or self.log.failure is not None:
            self._release(pending.size)
            raise self._refusal()
        self._enqueue(pending)

    def _enqueue(self, pending: Pending) -> None:
        self._counters.produces += 1
        self._queue.append(pending)
        self._queued_bytes += pending.size
        if pending.deadline < self._sweep_at:
            self._arm_sweep(pending.deadline)
        if not self._drain_scheduled and (not self._appended or self._queued_bytes >= _OVERLAP_BYTES_MIN):
            self._schedule_drain()

    def _release(self, size: int) -> None:
        self._budget.give(size)
        self._shared_budget.give(size)

    # ---- draining

    def _schedule_drain(self) -> None:
        self._drain_scheduled = True
        self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._drain_scheduled = False
        taken = self._take()
        if not taken:
            return
        try:
            self._append(taken)
        finally:
            if self._queue and not self._drain_scheduled and (
                not self._appended or self._queued_bytes >= _OVERLAP_BYTES_MIN
            ):
                self._schedule_drain()

    def _take(self) -> list[Pending]:
        """What goes into the next append; calls that nobody waits for any more are left out."""
        now = self._loop.time()
        taken: list[Pending] = []
        size = dropped = 0
        queue = self._queue
        while queue and size < _DRAIN_BYTES_MAX:
            pending = queue.popleft()
            if pending.deadline <= now:
                pending.fail(self._expired_before_append())
            if pending.is_abandoned:
                dropped += pending.size
                continue
            taken.append(pending)
            size += pending.size
        self._queued_bytes -= size + dropped
        if dropped:
            self._counters.produce_failures += 1
            self._release(dropped)
        return taken

    def _append(self, taken: list[Pending]) -> None:
        taken_size = sum(pending.size for pending in taken)
        kept: list[Pending] = []
        try:
            bound = min(self._accumulate_bytes_max, self.log.config.max_message_bytes) - HEADER_SIZE
            batches, kept = build_batches(taken, bound)
            size = sum(pending.size for pending in kept)
            if not kept:
                self._release(taken_size)
                return
            self._release_unless_zero(taken_size - size)
            taken_size = size
            appended = self.log.append(batches)
        except RaftlogError as error:
            self._fail_before_append(kept or taken, error)
            self._release(taken_size)
            return
        offset = int(appended.base_offset)
        for pending in kept:
            pending.base_offset = offset
            offset += pending.count
        assert offset == appended.next_offset, f"{self.name}: {offset} ≠ next offset {appended.next_offset}"
        self._count(kept, batches)
        self._appended.append((appended.index, kept, taken_size))
        self._unseen.append((appended.next_offset, sum(map(len, batches))))
        was_flushing = self.log.is_flushing
        self.log.maybe_flush()
        if not was_flushing:
            self._answer_written(kept)
        self._arm_flush()

    def _release_unless_zero(self, size: int) -> None:
        if size:
            self._release(size)

    def _count(self, kept: list[Pending], batches: list[Buffer]) -> None:
        counters = self._counters
        counters.appends += 1
        counters.batches_in += len(batches)
        counters.records_in += sum(pending.count for pending in kept)
        counters.bytes_in += sum(map(len, batches))

    def _answer_written(self, kept: list[Pending]) -> None:
        """The log has written these (a flush that was under way would have written only what came before)."""
        for pending in kept:
            if pending.acks == 1:
                pending.resolve()

    def _arm_flush(self) -> None:
        """Under a relaxed flush policy a timer syncs what the policy lets wait."""
        flush_ms = self.log.config.flush_ms
        if flush_ms is not None and self._flush_timer is None and self.log.pending_bytes:
            self._flush_timer = self._loop.call_later(flush_ms / 1000, self._flush_due)

    def _flush_due(self) -> None:
        self._flush_timer = None
        if not self._closed and self.log.failure is None and self.log.pending_bytes:
            self.log.flush()

    # ---- answering

    def _on_progress(self) -> None:
        log = self.log
        if log.failure is not None and not self._closed:
            self._stop(log.failure)
            return
        acknowledged = log.acknowledged_index
        appended = self._appended
        freed = 0
        while appended and appended[0][0] <= acknowledged:
            _, pendings, size = appended.popleft()
            freed += size
            for pending in pendings:
                pending.resolve()
        if freed:
            self._release(freed)
        self._show(log.high_watermark)
        if self._queue and not self._drain_scheduled and not appended:
            self._schedule_drain()

    def _on_refused(self, index: Index, error: RaftlogError) -> None:
        """Appends from `index` on could not be written and were taken back: they did not happen."""
        end = self.log.log_end_offset
        kept: list[tuple[Index, list[Pending], int]] = []
        while self._appended and self._appended[-1][0] >= index:
            _, pendings, size = self._appended.pop()
            left = [pending for pending in pendings if pending.base_offset + pending.count <= end]
            refused = pendings[len(left):]
            if refused and refused[0].base_offset < end:
                refused[0].fail(OutcomeUnknown(f"{self.name}: only a part of the records could be written: {error}"))
            self._fail_before_append(refused, error)
            size_left = sum(pending.size for pending in left)
            self._release(size - size_left)
            if left:
                kept.append((Index(index - 1), left, size_left))
        self._appended.extend(reversed(kept))
        while self._unseen and self._unseen[-1][0] > end:
            self._unseen.pop()

    def _show(self, high_watermark: Offset) -> None:
        unseen = self._unseen
        size = 0
        while unseen and unseen[0][0] <= high_watermark:
            size += unseen.popleft()[1]
        if size:
            self.waiters.advance(size)

    def _stop(self, failure: RaftlogError) -> None:
        """The log stopped by itself: what was appended is unknown, what was queued did not happen."""
        while self._appended:
            _, pendings, size = self._appended.popleft()
            for pending in pendings:
                if pending.fail(SyncFailed(f"{self.name}: {failure}; the record may or may not be there")):
                    self._counters.produce_unknown += 1
            self._release(size)
        self._fail_queue()

    def _fail_queue(self) -> None:
        pendings = list(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._fail_before_append(pendings, self._refusal())
        for pending in pendings:
            self._release(pending.size)

    def _fail_before_append(self, pendings: list[Pending], error: RaftlogError) -> None:
        """Nothing of these was appended, whatever the error is called: the outcome is `failed`."""
        for pending in pendings:
            again = LogClosed(str(error)) if error.outcome == "unknown" else _copied(error)
            if pending.fail(again):
                self._counters.produce_failures += 1

    def _refusal(self) -> RaftlogError:
        log = self.log
        if log.damage is not None:
            return LogDamaged(
                f"{self.name} refuses records because it is damaged ({log.damage}); sound offsets can be read. Stop "
                f"the broker and run `raftlog log recover {log.path}`"
            )
        if log.failure is not None and not self._closed:
            return LogClosed(f"{self.name} stopped: {log.failure}; restart the broker when the disk is sound")
        return LogClosed(f"{self.name} is closed: the broker stops, or the topic was deleted")

    # ---- deadlines

    def _arm_sweep(self, deadline: float) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._sweep_at = deadline
        self._sweep_timer = self._loop.call_at(deadline, self._sweep)

    def _sweep(self) -> None:
        """One timer for all: answer whoever's deadline has passed, and come back for the next."""
        now = self._loop.time()
        self._sweep_at, self._sweep_timer = NEVER, None
        earliest: float = NEVER
        for pending in self._queue:
            if pending.is_abandoned:
                continue
            if pending.deadline <= now:
                pending.fail(self._expired_before_append())
            else:
                earliest = min(earliest, pending.deadline)
        for _, pendings, _ in self._appended:
            for pending in pendings:
                if pending.is_abandoned:
                    continue
                if pending.deadline <= now:
                    self._counters.produce_unknown += pending.fail(DeadlineExceeded(
                        f"{self.name}: appended at offset {pending.base_offset}, but the sync did not return before "
                        "the deadline; read from that offset to learn what became of it"
                    ))
                else:
                    earliest = min(earliest, pending.deadline)
        if earliest < NEVER:
            self._arm_sweep(earliest)

    def _expired_before_append(self) -> Overloaded:
        return Overloaded(
            f"{self.name}: the deadline passed before the record was appended, and it was not; send more slowly, or "
            "allow more time"
        )

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.log.reconfigure(config)
        self._arm_flush()

    # ---- reading

    async def fetch(self, offset: int, max_bytes: int, min_bytes: int, deadline: Deadline) -> Fetched:
        """Stored batches from the one that contains `offset`; waits for `min_bytes` until the deadline."""
        batches = self.log.read(Offset(offset), max_bytes)
        size = sum(map(len, batches))
        while size < min_bytes:
            enough = await self.waiters.wait(min_bytes - size, deadline)
            batches = self.log.read(Offset(offset), max_bytes)
            size = sum(map(len, batches))
            if not enough:
                break
        self._counters.fetches += 1
        self._counters.bytes_out += size
        return Fetched(batches, self.log.high_watermark, self.log.log_start_offset, LEADER_EPOCH)

    # ---- closing

    def close(self) -> None:
        """Refuse what is queued, sync what is appended, close the log; blocking."""
        if self._closed:
            return
        self._closed = True
        self._fail_queue()
        for timer in (self._sweep_timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        with contextlib.suppress(RaftlogError, OSError):
            self.log.close()
        self._on_progress()
        for _, pendings, size in self._appended:
            for pending in pendings:
                pending.fail(OutcomeUnknown(f"{self.name} was closed before the sync of the record returned"))
            self._release(size)
        self._appended.clear()
        self.waiters.close()


def _copied(error: RaftlogError) -> RaftlogError:
    """An exception per caller: one that is raised twice collects the tracebacks of both."""
    if isinstance(error, CorruptBatch):
        return CorruptBatch(error.file, error.position, error.offset, error.why)
    return type(error)(*error.args)


__all__ = ["ALL", "LEADER_EPOCH", "Partition", "clock_ms"]
