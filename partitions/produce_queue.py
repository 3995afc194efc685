"""The produce calls of one partition, from their arrival to their answer.

Calls queue up in the order in which they came. One *drain* builds everything that is queued into batches, appends them
and starts one flush; while that flush is under way the next calls queue up behind it, so a sync is shared by all who
waited for it. When the log says that an append is acknowledged, its callers are answered together.

    queued → appended → answered          the order never changes
    queued + appended bytes ≤ the partition's budget, and the broker's

A call that fails before its append definitely did not happen. A call that is appended and not acknowledged by its
deadline is unknown. Owned by `Partition`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from raftlog.errors import (
    DeadlineExceeded,
    LogClosed,
    OutcomeUnknown,
    Overloaded,
    RaftlogError,
    SyncFailed,
)
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import NEVER, DeadlineSweep
from raftlog.partitions.pending import Pending, build_batches
from raftlog.records import HEADER_SIZE
from raftlog.storage.lone_log import LoneLog
from raftlog.types import Buffer, Index, Offset

_DRAIN_BYTES_MAX = 4 * 1024 * 1024
"""One drain takes no more than this, so that building batches never holds up the loop for long."""
_OVERLAP_BYTES_MIN = 256 * 1024
"""So many queued bytes are appended while a flush is still under way: the log then writes them at its end."""


class _Group(NamedTuple):
    """Calls that were appended together; `last_index` is that of their last entry."""

    last_index: Index
    pendings: list[Pending]
    size: int


class ProduceQueue:
    """`log` is set once the log is open. `refusal` says why nothing can be appended; `appended` is told of bytes."""

    def __init__(
        self,
        name: str,
        budgets: tuple[Budget, Budget],
        counters: Counters,
        accumulate_bytes_max: int,
        refusal: Callable[[], RaftlogError],
        appended: Callable[[Offset, int], None],
    ) -> None:
        self.log: LoneLog
        self._name = name
        self._budgets = budgets
        self._counters = counters
        self._accumulate_bytes_max = accumulate_bytes_max
        self._refusal = refusal
        self._tell_appended = appended
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Pending] = deque()
        self._queued_bytes = 0
        self._appended: deque[_Group] = deque()
        self._is_drain_scheduled = False
        self._sweep = DeadlineSweep(self._expire)

    # arriving

    def maybe_add(self, pending: Pending) -> bool:
        """Queue the call if there is room for it."""
        size = pending.size
        own, shared = self._budgets
        if not own.maybe_take(size):
            return False
        if not shared.maybe_take(size):
            own.give(size)
            return False
        self._add(pending)
        return True

    async def add_when_room(self, pending: Pending, check: Callable[[], None]) -> None:
        """Wait for room until the call's deadline, then `check` again and queue it. Raises `Overloaded`."""
        self._counters.throttled += 1
        own, shared = self._budgets
        size = pending.size
        await own.take(size, pending.deadline)
        try:
            await shared.take(size, pending.deadline)
        except BaseException:
            own.give(size)
            raise
        try:
            check()
        except BaseException:
            self._release(size)
            raise
        self._add(pending)

    def _add(self, pending: Pending) -> None:
        self._counters.produces += 1
        self._queue.append(pending)
        self._queued_bytes += pending.size
        self._sweep.note(pending.deadline)
        self._maybe_schedule_drain()

    def _release(self, size: int) -> None:
        for budget in self._budgets:
            budget.give(size)

    # appending

    def _maybe_schedule_drain(self) -> bool:
        if self._is_drain_scheduled or not self._queue:
            return False
        if self._appended and self._queued_bytes < _OVERLAP_BYTES_MIN:
            return False
        self._is_drain_scheduled = True
        self._loop.call_soon(self._drain)
        return True

    def _drain(self) -> None:
        self._is_drain_scheduled = False
        pendings = self._take()
        if pendings:
            self._append(pendings)
        self._maybe_schedule_drain()

    def _take(self) -> list[Pending]:
        """What goes into the next append; calls that nobody waits for any more are left out."""
        now = self._loop.time()
        taken: list[Pending] = []
        size = dropped = 0
        while self._queue and size < _DRAIN_BYTES_MAX:
            pending = self._queue.popleft()
            if pending.deadline <= now:
                self._fail_expired(pending)
            if pending.is_abandoned:
                dropped += pending.size
            else:
                taken.append(pending)
                size += pending.size
        self._queued_bytes -= size + dropped
        self._release(dropped)
        return taken

    def _append(self, pendings: list[Pending]) -> None:
        log = self.log
        bound = min(self._accumulate_bytes_max, log.config.max_message_bytes) - HEADER_SIZE
        batches, kept = build_batches(pendings, bound)
        size = sum(pending.size for pending in kept)
        self._release(sum(pending.size for pending in pendings) - size)
        if not kept:
            return
        try:
            appended = log.append(batches)
        except RaftlogError as error:
            self._fail_before_append(kept, error)
            self._release(size)
            return
        offset = int(appended.base_offset)
        for pending in kept:
            pending.base_offset = offset
            offset += pending.count
        assert offset == appended.next_offset, f"{self._name}: {offset} ≠ next offset {appended.next_offset}"
        self._appended.append(_Group(appended.index, kept, size))
        self._count(batches, offset - appended.base_offset, appended.next_offset)
        self._flush(kept)

    def _flush(self, pendings: list[Pending]) -> None:
        was_flushing = self.log.is_flushing
        self.log.maybe_flush()
        if was_flushing:  # these wait in memory until that flush has ended
            return
        for pending in pendings:
            if pending.acks == 1:
                pending.resolve()

    def _count(self, batches: list[Buffer], records: int, next_offset: Offset) -> None:
        size = sum(map(len, batches))
        counters = self._counters
        counters.appends += 1
        counters.batches_in += len(batches)
        counters.records_in += records
        counters.bytes_in += size
        self._tell_appended(next_offset, size)

    # answering

    def on_progress(self) -> None:
        """The log acknowledged more: answer whoever waited for it, and append what came meanwhile."""
        acknowledged = self.log.acknowledged_index
        freed = 0
        while self._appended and self._appended[0].last_index <= acknowledged:
            group = self._appended.popleft()
            freed += group.size
            for pending in group.pendings:
                pending.resolve()
        self._release(freed)
        self._maybe_schedule_drain()

    def on_refused(self, index: Index, error: RaftlogError) -> None:
        """Entries from `index` on could not be written and were taken back: they did not happen."""
        end = self.log.log_end_offset
        left: list[_Group] = []
        while self._appended and self._appended[-1].last_index >= index:
            group = self._appended.pop()
            kept = [pending for pending in group.pendings if pending.base_offset + pending.count <= end]
            refused = group.pendings[len(kept) :]
            if refused and refused[0].base_offset < end:
                self._fail_unknown(refused[0], f"only a part of the records could be written: {error}")
            self._fail_before_append(refused, error)
            size = sum(pending.size for pending in kept)
            self._release(group.size - size)
            if kept:
                left.append(_Group(Index(index - 1), kept, size))
        self._appended.extend(reversed(left))

    def stop(self, why: str) -> None:
        """Nothing is acknowledged any more: what was appended is unknown, what is queued did not happen."""
        for group in self._appended:
            for pending in group.pendings:
                self._fail_unknown(pending, why)
            self._release(group.size)
        self._appended.clear()
        self.refuse_queued()
        self._sweep.cancel()

    def refuse_queued(self) -> None:
        """What is not appended yet will not be."""
        pendings = list(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._fail_before_append(pendings, self._refusal())
        self._release(sum(pending.size for pending in pendings))

    def _fail_before_append(self, pendings: list[Pending], error: RaftlogError) -> None:
        """Nothing of these was appended, whatever the error is called: the outcome is `failed`."""
        for pending in pendings:
            # One exception for each caller: a shared one would collect everybody's tracebacks.
            own = LogClosed(str(error)) if error.outcome == "unknown" else type(error)(*error.args)
            self._counters.produce_failures += pending.fail(own)

    def _fail_unknown(self, pending: Pending, why: str) -> None:
        error: RaftlogError = SyncFailed(f"{self._name}: {why}; the record may or may not be there")
        if self.log.failure is None:
            error = OutcomeUnknown(*error.args)
        self._counters.produce_unknown += pending.fail(error)

    # deadlines

    def _expire(self, now: float) -> float:
        earliest: float = NEVER
        for pending in self._queue:
            if pending.deadline <= now:
                self._fail_expired(pending)
            elif not pending.is_abandoned:
                earliest = min(earliest, pending.deadline)
        for group in self._appended:
            for pending in group.pendings:
                if pending.deadline <= now:
                    self._fail_late(pending)
                elif not pending.is_abandoned:
                    earliest = min(earliest, pending.deadline)
        return earliest

    def _fail_expired(self, pending: Pending) -> None:
        self._counters.produce_failures += pending.fail(
            Overloaded(
                f"{self._name}: the deadline passed before the record was appended, and it was not; "
                "send more slowly, or allow more time"
            )
        )

    def _fail_late(self, pending: Pending) -> None:
        self._counters.produce_unknown += pending.fail(
            DeadlineExceeded(
                f"{self._name}: appended at offset {pending.base_offset}, but the sync did not return before "
                "the deadline; read from that offset to learn what became of it"
            )
        )
