"""One partition on one node: a lone log made usable for many asyncio callers at once.

Producing goes through `ProduceQueue`, which shares syncs; a fetch that finds too little waits until more is visible.
Readers see what is durable, whatever was answered earlier. Called by the broker and the catalogue; the completions of
its log arrive on the event loop that owns it.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence

from raftlog.config import LogConfig
from raftlog.errors import LogClosed, LogDamaged, RaftlogError, RecordTooLarge
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import NEVER, Deadline
from raftlog.partitions.pending import Pending, record_size
from raftlog.partitions.produce_queue import ProduceQueue
from raftlog.partitions.results import Acks, Fetched
from raftlog.partitions.waiters import FetchWaiters
from raftlog.records import HEADER_SIZE, NewRecord, validate_client_batches
from raftlog.storage.disk import Disk
from raftlog.storage.lone_log import LoneLog
from raftlog.types import Buffer, Index, Offset

LEADER_EPOCH = 0
"""A lone log has no terms."""


def clock_ms() -> int:
    """The wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


class Partition:
    """Use `open`; one event loop owns it."""

    def __init__(
        self,
        name: str,
        budgets: tuple[Budget, Budget],
        counters: Counters,
        accumulate_bytes_max: int,
    ) -> None:
        self.name = name
        self.log: LoneLog
        self.waiters = FetchWaiters()
        self._loop = asyncio.get_running_loop()
        self._counters = counters
        self._queue = ProduceQueue(name, budgets, counters, accumulate_bytes_max, self._refusal, self._on_appended)
        self._unseen: deque[tuple[Offset, int]] = deque()
        """Offset after each append that readers do not see yet, and its bytes."""
        self._flush_timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        config: LogConfig,
        *,
        name: str,
        budgets: tuple[Budget, Budget],
        counters: Counters,
        accumulate_bytes_max: int,
        create: bool,
        clock: Callable[[], int] = clock_ms,
    ) -> "Partition":
        """Open or create the log at `path`; blocking. Raises what `LoneLog.open` raises.

        `budgets` are the partition's own and the one that it shares with the others.
        """
        partition = cls(name, budgets, counters, accumulate_bytes_max)
        partition.load(disk, path, config, create=create, clock=clock)
        return partition

    def load(
        self, disk: Disk, path: str, config: LogConfig, *, create: bool, clock: Callable[[], int] = clock_ms
    ) -> None:
        """The blocking half of `open`; it may run in another thread, before anything else is called."""
        self.log = self._queue.log = LoneLog.open(
            disk,
            path,
            config,
            clock=clock,
            create=create,
            on_progress=self._on_progress,
            on_refused=self._on_refused,
        )

    # producing

    async def produce_records(self, records: Sequence[NewRecord], acks: Acks, deadline: Deadline) -> int:
        """Append the records one after another; the offset of the first. -1 with `acks=0`."""
        future = await self.enqueue_records(records, acks, deadline)
        return -1 if future is None else await future

    async def produce_batches(self, body: Buffer, acks: Acks, deadline: Deadline) -> tuple[int, int]:
        """Append a client's batches as they are; the first offset and the one after the last."""
        self._check_writable()
        checked = validate_client_batches(body, self.log.config.max_message_bytes)
        batches = [batch for _, batch in checked]
        count = sum(header.record_count for header, _ in checked)
        future = await self._enqueue((), batches, count, len(body), acks, deadline)
        if future is None:
            return -1, -1
        base = await future
        return base, base + count

    async def enqueue_records(
        self, records: Sequence[NewRecord], acks: Acks, deadline: Deadline
    ) -> "asyncio.Future[int] | None":
        """Queue the records; the future gets their first offset. Raises what definitely fails."""
        self._check_writable()
        total = 0
        for record in records:
            size = record_size(record)
            self.check_size(size)
            total += size
        return await self._enqueue(records, (), len(records), total, acks, deadline)

    def check_size(self, size: int) -> None:
        """Raises `RecordTooLarge` for a record of this size (`record_size`)."""
        limit = self.log.config.max_message_bytes
        if size + HEADER_SIZE > limit:
            raise RecordTooLarge(
                f"{self.name}: a record of about {size} bytes does not fit max.message.bytes={limit}; "
                "send a smaller one, or raise the setting of the topic"
            )

    async def _enqueue(
        self,
        records: Sequence[NewRecord],
        batches: Sequence[Buffer],
        count: int,
        size: int,
        acks: Acks,
        deadline: Deadline,
    ) -> "asyncio.Future[int] | None":
        future = self._loop.create_future() if acks else None
        pending = Pending(records, batches, count, size, acks, deadline if acks else NEVER, future)
        if not self._queue.maybe_add(pending):
            pending.deadline = deadline
            await self._queue.add_when_room(pending, self._check_writable)
        return future

    def _check_writable(self) -> None:
        if self._is_closed or self.log.failure is not None or self.log.damage is not None:
            raise self._refusal()

    def _refusal(self) -> RaftlogError:
        log = self.log
        if log.damage is not None:
            return LogDamaged(
                f"{self.name} takes no records because it is damaged ({log.damage}); sound offsets can be read. "
                f"Stop the broker and run `raftlog log recover {log.path}`"
            )
        if log.failure is not None and not self._is_closed:
            return LogClosed(f"{self.name} stopped: {log.failure}; restart the broker when the disk is sound")
        return LogClosed(f"{self.name} is closed: the broker stops, or the topic was deleted")

    # what the log tells

    def _on_appended(self, next_offset: Offset, size: int) -> None:
        self._unseen.append((next_offset, size))

    def _on_progress(self) -> None:
        if self.log.failure is not None and not self._is_closed:
            self._queue.stop(str(self.log.failure))
            return
        self._queue.on_progress()
        high_watermark = self.log.high_watermark
        size = 0
        while self._unseen and self._unseen[0][0] <= high_watermark:
            size += self._unseen.popleft()[1]
        if size:
            self.waiters.advance(size)
        self._arm_flush()

    def _on_refused(self, index: Index, error: RaftlogError) -> None:
        self._queue.on_refused(index, error)
        end = self.log.log_end_offset
        while self._unseen and self._unseen[-1][0] > end:
            self._unseen.pop()

    def _arm_flush(self) -> None:
        """Under a relaxed flush policy a timer syncs what the policy lets wait."""
        flush_ms = self.log.config.flush_ms
        if flush_ms is not None and self._flush_timer is None and self.log.pending_bytes:
            self._flush_timer = self._loop.call_later(flush_ms / 1000, self._flush_due)

    def _flush_due(self) -> None:
        self._flush_timer = None
        if not self._is_closed and self.log.failure is None:
            self.log.flush()

    # reading and the rest

    async def fetch(self, offset: int, max_bytes: int, min_bytes: int, deadline: Deadline) -> Fetched:
        """Stored batches from the one that contains `offset`; waits for `min_bytes` until the deadline."""
        batches = self.log.read(offset, max_bytes)
        size = sum(map(len, batches))
        while size < min_bytes:
            is_enough = await self.waiters.wait(min_bytes - size, deadline)
            if self._is_closed:
                break
            batches = self.log.read(offset, max_bytes)
            size = sum(map(len, batches))
            if not is_enough:
                break
        self._counters.fetches += 1
        self._counters.bytes_out += size
        return Fetched(batches, self.log.high_watermark, self.log.log_start_offset, LEADER_EPOCH)

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.log.reconfigure(config)
        self._arm_flush()

    def close(self) -> None:
        """Refuse what is queued, sync what is appended, close the log; blocking."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._queue.refuse_queued()
        with contextlib.suppress(RaftlogError, OSError):  # told to those who wait, by `stop`
            self.log.close()
        self._queue.on_progress()
        self._queue.stop("the log was closed before the sync returned")
        self.waiters.close()
