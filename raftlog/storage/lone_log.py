"""Log without Raft: term 0, and every durable entry is committed.

It adds to a segmented log the parts that a replica gets from its Raft group: rolling by settings, a flush policy with
group commit, a checkpoint, retention, and recovery. No threads and no waiting: a flush is started, and `on_progress` is
called when it has ended. Every call comes from one thread (or under one lock); only `read` may come from any.

    durable index ≤ acknowledged index ≤ last index

At most one flush is under way; appends meanwhile wait in memory for the next. So the bytes that a power loss can tear
are exactly those of one flush, at the end of the log."""

import logging
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

from raftlog.errors import (
    CorruptBatch,
    LogClosed,
    LogDamaged,
    OffsetOutOfRange,
    RaftlogError,
    RecordTooLarge,
    SyncFailed,
)
from raftlog.records import read_header
from raftlog.storage.checkpoint import Checkpoint
from raftlog.storage.checkpointer import Checkpointer
from raftlog.storage.creation import OpenedLog, open_or_create
from raftlog.storage.directory import SYNC_FAILED, internal_path
from raftlog.storage.disk import Disk
from raftlog.storage.flusher import Flusher
from raftlog.storage.retention import find_retained_start
from raftlog.storage.roll import Roll
from raftlog.storage.scrub import Scrub, ScrubProgress
from raftlog.topic_config import LogConfig
from raftlog.types import Buffer, Index, Offset, Term

_logger = logging.getLogger(__name__)
NO_TERM = Term(0)


class AppendResult(NamedTuple):
    """Result of an append: offsets `base_offset` … `next_offset − 1`, the last entry at `index`."""

    base_offset: Offset
    next_offset: Offset
    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here


class LoneLog:
    """Open log without Raft; created by `open`."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        clock: Callable[[], int],
        opened: OpenedLog,
        on_progress: Callable[[], None],
        on_refused: Callable[[Index, RaftlogError], None],
    ) -> None:
        """Wrap an opened log.

        `clock` returns milliseconds; `on_progress` is called when more entries are durable, `on_refused` when a full
        disk refuses entries from an index on."""
        self.disk = disk
        self.path = path
        self.config = config
        self.group_id: uuid.UUID = opened.group_id
        self.report = opened.report
        self.damage: CorruptBatch | None = opened.report.damage[0] if opened.report.damage else None
        """First damage found, on opening, by a read or by the scrub; while it is set appends are refused."""
        self.failure: RaftlogError | None = None
        """Reason why the log accepts no appends any more: it was closed, or a sync failed. Set once."""
        self.on_progress = on_progress
        self.on_refused = on_refused
        self._clock = clock
        self._log = opened.log
        self._lock = opened.lock
        self._checkpoints = Checkpointer(disk, opened.log, opened.checkpoint, self._stop_after_failed_checkpoint)
        self._flusher = Flusher(disk, path, opened.log, self._checkpoints, self)
        self._scrub = Scrub(opened.log)

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        config: LogConfig,
        *,
        clock: Callable[[], int],
        create: bool = True,
        on_progress: Callable[[], None] = lambda: None,
        on_refused: Callable[[Index, RaftlogError], None] = lambda index, error: None,
    ) -> "LoneLog":
        """Open and recover the log in directory `path`; blocking.

        `clock` returns milliseconds since 1970. `on_refused(index, error)` is called when appends from `index` on were
        rolled back because they could not be written: they definitely failed. Raises `FormatError`, `DirectoryLocked`,
        `OSError`."""
        opened = open_or_create(disk, path, config, clock, create=create)
        log = cls(disk, path, config, clock, opened, on_progress, on_refused)
        if log.damage is None and (opened.report.bytes_scanned or opened.report.torn):
            log.checkpoint()
        return log

    # state

    @property
    def log_start_offset(self) -> Offset:
        """Lowest offset that can be read."""
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """Offset of the next record."""
        return self._log.next_offset

    @property
    def high_watermark(self) -> Offset:
        """Offset after the last durable record: readers see offsets below it."""
        return self._log.durable_offset

    @property
    def durable_index(self) -> Index:
        return self._log.durable_index

    @property
    def acknowledged_index(self) -> Index:
        """Last index that may be acknowledged: durable, or only written under a relaxed flush policy."""
        return self.durable_index if self.config.flush_messages == 1 else self._flusher.written_index

    @property
    def last_index(self) -> Index:
        return self._log.last_index

    @property
    def pending_bytes(self) -> int:
        """Bytes appended and not yet durable."""
        return self._flusher.pending_bytes

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._log.segments)

    @property
    def is_flushing(self) -> bool:
        return self._flusher.is_flushing

    # appending

    def append(self, batches: Sequence[Buffer]) -> AppendResult:
        """Append checked batches in order; they are stamped, and held in memory until the next flush.

        Writable buffers are stamped in place and must not change afterwards. Raises `LogDamaged`, `LogClosed`,
        `SyncFailed` or `RecordTooLarge`; then nothing was appended."""
        self.check_writable()
        limit = self.config.max_message_bytes
        for batch in batches:
            if len(batch) > limit:
                raise RecordTooLarge(f"a batch of {len(batch)} bytes is above max.message.bytes={limit}")
        log = self._log
        base_offset = log.next_offset
        for batch in batches:
            header = read_header(batch)
            assert header.size == len(batch), f"{len(batch)} bytes are not one batch of {header.size}"
            self._roll_if_due(len(batch))
            log.append(batch, header, NO_TERM)
            self._flusher.count_appended(header.record_count, len(batch))
        return AppendResult(base_offset, log.next_offset, log.last_index)

    def check_writable(self) -> None:
        """Raise the error with which the log refuses appends, if it refuses them."""
        if self.failure:
            raise self.failure
        if self.damage:
            raise LogDamaged(
                f"the log in {self.path} is damaged and accepts no appends: {self.damage}; "
                f"undamaged offsets stay readable; see `raftlog log recover {self.path}`"
            )

    def _roll_if_due(self, batch_bytes: int) -> bool:
        """Begin a new segment if size, index or age of the active one require it; return whether it was begun."""
        active = self._log.active
        config = self.config
        if active.next_offset == active.base_offset or not (
            active.end_position + batch_bytes > config.segment_bytes
            or active.index_bytes >= config.segment_index_bytes
            or self._clock() - active.created_ms >= config.segment_ms
        ):
            return False
        try:
            self.roll()
        except OSError as error:
            _logger.warning("%s: cannot create a new segment (%s); appends continue in the old one", self.path, error)
            return False
        return True

    def roll(self) -> None:
        """Begin a new segment; the active one holds at least one offset. Raises `OSError`, and then nothing changed."""
        self.check_writable()
        self._log.append_roll(
            Roll(self.group_id, self._log.last_index + 1, NO_TERM, self.log_start_offset, -1, self._clock()), NO_TERM
        )
        self._checkpoints.request()

    # flushing

    def flush_if_due(self) -> bool:
        """Flush or write as the flush policy requires; return true if a flush is under way or was started for it."""
        return self._flusher.flush_if_due()

    def flush(self) -> None:
        """Start to write and sync all appended batches, or to do so after the flush that is under way."""
        self._flusher.flush()

    def stop_after_failed_sync(self, error: OSError) -> SyncFailed:
        """Stop the log after a failed sync, because the content of the disk is unknown; return the error."""
        failure = SyncFailed(
            f"{self.path}: a sync failed: {error}; what the disk holds is unknown, so the log stops. "
            "Check the disk, then open the log again"
        )
        if not isinstance(self.failure, LogClosed):
            self._mark_sync_failed()
            self._flusher.stop()
            self.fail(failure)
        return failure

    def _mark_sync_failed(self) -> None:
        """Create a marker file for the next opening: clean pages in the page cache may not be on the disk."""
        marker = internal_path(self.path, SYNC_FAILED)
        try:
            if not self.disk.exists(marker):
                self.disk.open(marker, create=True).close()
        except OSError as error:
            _logger.error("%s: cannot create the marker of a failed sync (%s)", self.path, error)

    def _stop_after_failed_checkpoint(self, problem: str, error: OSError) -> None:
        """Stop the log after a failed sync of a checkpoint, and mark the directory for the next opening."""
        self._mark_sync_failed()
        self.fail(SyncFailed(f"{self.path}: {problem}: {error}; the log accepts no appends until it is opened again"))

    def stop_after_interruption(self, error: BaseException) -> None:
        """Stop the log after an interrupted change; the files stay as after a kill."""
        if self.failure is None:
            self._flusher.stop()
            self.fail(
                SyncFailed(
                    f"{self.path}: a change of the log was interrupted ({type(error).__name__}), so the log stops; "
                    "open it again"
                )
            )
        else:
            self.on_progress()  # the call that stopped the log may have been interrupted before it

    def fail(self, failure: RaftlogError) -> None:
        """Stop the log: all later appends and other changes raise this error."""
        self.failure = failure
        self.on_progress()

    def checkpoint(self) -> Checkpoint:
        """Take a checkpoint and wait for it: the next opening does not read batches that are durable now."""
        try:
            return self._checkpoints.take()
        except OSError as error:
            raise self.stop_after_failed_sync(error) from error

    # reading

    def read(self, offset: int, max_bytes: int, *, end_offset: Offset | None = None) -> list[memoryview]:
        """Return stored client batches from the one that holds `offset` on, checked, up to the high watermark.

        One memoryview for each batch; at least one batch even if it is larger than `max_bytes`; none at the end. The
        first batch may begin below `offset`. Raises `OffsetOutOfRange` and `CorruptBatch`."""
        if isinstance(self.failure, LogClosed):
            raise self.failure
        try:
            return self._log.read(offset, max_bytes, end_offset)
        except CorruptBatch as damage:
            self.note_damage(damage)
            raise

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first record with a timestamp of at least `timestamp_ms`, or None."""
        return self._log.offset_for_timestamp(timestamp_ms)

    def note_damage(self, damage: CorruptBatch) -> None:
        """Record damage that was found; later appends are refused."""
        self.damage = self.damage or damage

    def scrub_slice(self, max_bytes: int) -> ScrubProgress:
        """Check about `max_bytes` more of the stored batches; record damage, which refuses later appends."""
        progress = self._scrub.run_slice(max_bytes)
        if progress.damage:
            self.note_damage(progress.damage)
        return progress

    # cutting, trimming, cleaning; these wait for the disk

    def cut(self, offset: int) -> None:
        """Remove every record from `offset` on. Raises `NotAtBatchBorder` and `OffsetOutOfRange`."""
        self.check_writable()
        self._log.check_cut(offset)
        if offset == self.log_end_offset:
            return
        self._flusher.flush_and_wait()
        self._log.check_cut(offset)  # appends that a full disk refused were rolled back
        if offset == self.log_end_offset:
            return
        segment, rows = self._log.cut_target(offset)
        newest = self._checkpoints.cancel()
        try:
            if newest and newest.last_index >= segment.base_index + rows:
                self._checkpoints.store(self._checkpoints.build_at(segment, rows, offset))
            self._log.cut(segment, rows)
        except OSError as error:
            raise self.stop_after_failed_sync(error) from error
        self._flusher.reset_after_cut()

    def trim(self, offset: int) -> Offset:
        """Raise the log start to `offset` and delete the segments that lie wholly below; return the log start.

        Raises `OffsetOutOfRange` above the high watermark; does nothing below the log start."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.high_watermark)
        self.check_writable()
        if offset > self.log_start_offset:
            self._log.log_start_offset = Offset(offset)
            checkpoint = self.checkpoint()
            self._log.drop_below(min(offset, checkpoint.segment))
        return self.log_start_offset

    def clean(self) -> int:
        """Delete the closed segments that retention no longer keeps; return the bytes freed."""
        from_offset = find_retained_start(self._log.segments, self.config, self._clock())
        if self.failure or self.damage or from_offset <= self.log_start_offset:
            return 0
        before = self.size_bytes
        self.trim(min(from_offset, self.high_watermark))
        return before - self.size_bytes

    def close(self) -> None:
        """Flush, checkpoint and release the directory, once. The log is closed even if this raises `SyncFailed`."""
        if isinstance(self.failure, LogClosed):
            return
        try:
            if self.failure is None:
                self._flusher.flush_and_wait()
            if self.failure is None and self.damage is None:
                self.checkpoint()
        finally:
            self.failure = LogClosed(f"the log in {self.path} is closed")
            self._log.close()
            self._checkpoints.close()
            self._lock.release()
