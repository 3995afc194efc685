"""Compaction in a running process: one group at a time, in slices, throttled.

    a mark is committed → a checkpoint that began later is complete → followers have the entries below, or had time
    → entries below cannot be read by index any more → files are rewritten, the oldest first (`storage.compaction`)

Without that checkpoint recovery would begin with an entry in a file that was rewritten. Any other change of the log
ends a run, which begins again; damage, the replacement of the log and the end of the replica end it for good. A
crash loses nothing: the mark is in the next roll, and the rest is compacted when the replica starts again, or with the
next mark. Owned by the driver, which ticks it."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from raftlog.errors import CorruptBatch, RaftlogError, SyncFailed
from raftlog.events import event
from raftlog.raft import Role
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.control_entries import CompactionMark
from raftlog.runtime.process.persister import Persister
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.compaction import Compaction, CompactionBounds, CompactionStep, find_clean_end
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS
from raftlog.types import Offset

_logger = logging.getLogger(__name__)
_BURST_S: Final = 0.1
"""Time whose unused rate may be used later in one burst."""
_PAUSE_FACTOR: Final = 3.0
"""Pause after a slice, as a multiple of the slice's time.

Where records are small, work counts and not bytes, and all replicas of a partition compact at about the same time."""


class CompactionPort(Protocol):
    """Interface of compaction to the process, provided by the driver."""

    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    persister: Persister
    failure: RaftlogError | None

    def is_rebuilding(self, group: PartitionReplica) -> bool:
        """Return whether the group's log is being rewritten on an operator's request."""
        ...

    def is_copied(self, group: PartitionReplica) -> bool:
        """Return whether a replica in another process is copying the compacted files of this replica."""
        ...


class CompactionDone(NamedTuple):
    """Last run over a group's log on this process: end offset, sizes of the rewritten files in bytes, duration."""

    compacted_to: Offset
    bytes_before: int
    bytes_after: int
    seconds: float


class _Waiting(NamedTuple):
    """Group whose compaction was requested."""

    group: PartitionReplica
    mark: CompactionMark
    """Newest mark when the checkpoint was requested: a later mark may lie above entries that the checkpoint does not
    cover."""
    checkpoint: int
    """Number of the checkpoint that must be complete."""
    since: float


class Compactor:
    """Compaction of all groups of one process, one group at a time."""

    def __init__(self, port: CompactionPort) -> None:
        """Begin without requested compactions."""
        self._port = port
        self._waiting: dict[GroupKey, _Waiting] = {}
        self._task: asyncio.Task[None] | None = None
        self._run: Iterator[CompactionStep] | None = None
        self._next_at = 0.0
        """Loop time at which the rate allows the next step."""
        self.current: PartitionReplica | None = None
        """Group whose log is being compacted."""
        self.bytes_done = 0
        """Bytes read and written by all runs since the start of the process."""
        self.done: dict[GroupKey, CompactionDone] = {}

    def request(self, group: PartitionReplica) -> None:
        """Schedule compaction of the log below the group's mark, once all conditions are met; later marks follow."""
        if group.key not in self._waiting:
            checkpoint = self._port.persister.checkpoints.request()
            self._waiting[group.key] = _Waiting(group, group.log.mark, checkpoint, self._port.loop.time())

    def tick(self) -> None:
        """Start the compaction of the next group that is ready."""
        if self._task is None and self._waiting:
            ready = next((each for each in list(self._waiting.values()) if self._is_ready(each)), None)
            if ready is not None:
                del self._waiting[ready.group.key]
                self.current = ready.group
                self._task = self._port.loop.create_task(self._compact(ready.group, ready.mark), name="compaction")

    def stop(self) -> None:
        """Stop all compaction for good."""
        self._waiting.clear()
        if self.current is not None:
            self.stop_group(self.current)

    def stop_group(self, group: PartitionReplica) -> None:
        """Stop compaction of a group whose log is replaced or whose replica ends."""
        self._waiting.pop(group.key, None)
        if self.current is group and self._task is not None:
            self._close_run()
            self._task.cancel()

    def _is_ready(self, waiting: _Waiting) -> bool:
        """Return whether compaction of a group may start now; remove groups that need none any more."""
        group, port = waiting.group, self._port
        if group.is_closed:
            del self._waiting[group.key]
            self.done.pop(group.key, None)
            return False
        if port.persister.checkpoints.completed < waiting.checkpoint:
            return False
        log, segment = group.log, group.log.segment_at(waiting.mark.compacted_to)
        if segment is None or find_clean_end(log.segments) >= segment.base_offset:
            del self._waiting[group.key]  # nothing to do
            if log.mark.compacted_to > waiting.mark.compacted_to:
                self.request(group)
            return False
        return (
            segment.base_index <= group.applied_index
            and self._may_change(group)
            and (self._has_waited(waiting) or not self._is_needed(group, segment.base_index))
        )

    def _may_change(self, group: PartitionReplica) -> bool:
        """Return whether the group's files may be changed: undamaged, and no other change is under way."""
        is_busy = group.is_closed or group.is_frozen or group.is_leaving or self._port.is_rebuilding(group)
        return group.damage is None and not is_busy and self._port.failure is None

    def _is_needed(self, group: PartitionReplica, index: int) -> bool:
        """Return whether a transfer or an active follower still needs entries below `index`.

        Without these entries the follower would have to copy the whole log."""
        if self._port.is_copied(group):
            return True
        if group.core.role is not Role.LEADER:
            return False
        return any(each.is_active and each.match_index < index for each in group.core.status().followers)

    def _has_waited(self, waiting: _Waiting) -> bool:
        """Return whether followers had enough time to fetch the entries below the mark."""
        return self._port.loop.time() - waiting.since >= self._port.config.compaction_wait_ms / 1000

    # one run

    async def _compact(self, group: PartitionReplica, mark: CompactionMark) -> None:
        """Compact the closed segments below the mark; repeat the request if the mark rose or segments are left."""
        port, began = self._port, self._port.loop.time()
        try:
            is_done = await self._compact_below(group, mark, began)
            is_last = group.log.mark.compacted_to <= mark.compacted_to
            if not (is_done and is_last) and self._may_change(group):
                self.request(group)
        except CorruptBatch as error:
            group.note_damage(error)
        except SyncFailed as error:
            port.persister.stop_with(error)
        except (RaftlogError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in TEMPORARY_ERRORS:
                port.persister.stop_with(error)
                return
            _logger.warning("compaction of %s failed and will be retried: %s", group.path, error)
            self.request(group)
        finally:
            self._close_run()
            self._task = self.current = None

    async def _compact_below(self, group: PartitionReplica, mark: CompactionMark, began: float) -> bool:
        """Compact the log below the mark; return False if a change of the log ended the run."""
        log = group.log
        segment = log.segment_at(mark.compacted_to)
        if segment is None:
            return True  # it was trimmed meanwhile
        log.begin_compaction(segment)
        limits, target = group.rolls.limits, Offset(segment.base_offset)
        bounds = CompactionBounds(limits.segment_bytes, limits.segment_rows_max)
        compaction = Compaction(log.segments, target, mark.tombstones_to, bounds)
        self._run = compaction.run()
        resumed = self._port.loop.time()
        for step in self._run:
            self._port.persister.checkpoints.note_changed(group)
            await self._sync_and_pause(step, self._port.loop.time() - resumed)
            resumed = self._port.loop.time()
            if not self._may_change(group) or log.segments.generation != compaction.generation:
                return False
        seconds = self._port.loop.time() - began
        self.done[group.key] = CompactionDone(target, compaction.bytes_before, compaction.bytes_after, seconds)
        event(
            _logger,
            "log_compacted",
            group=group.name,
            compacted_to=target,
            bytes_before=compaction.bytes_before,
            bytes_after=compaction.bytes_after,
        )
        return True

    async def _sync_and_pause(self, step: CompactionStep, slice_s: float) -> None:
        """Sync the files of a step, then pause for as long as the rate and the share of time require."""
        if step.files or step.directories:
            await self._port.persister.sync(step.files, step.directories)
        now = self._port.loop.time()
        self.bytes_done += step.size_bytes
        used = step.size_bytes / self._port.config.compaction_bytes_per_s
        self._next_at = max(self._next_at, now - _BURST_S) + used
        await asyncio.sleep(max(0.0, self._next_at - now, slice_s * _PAUSE_FACTOR))

    def _close_run(self) -> None:
        """End the current run; files that it leaves are deleted at the next start."""
        if self._run is not None:
            run, self._run = self._run, None
            with suppress(OSError):  # files that it leaves are deleted at the next start
                run.close()  # type: ignore[attr-defined]  # it is a generator
