"""Flushes of a lone log: at most one at a time, and the rollback of a failed write.

    durable index ≤ written index ≤ last index,   flushing bytes + unwritten bytes ≤ pending bytes

Appends during a flush wait in memory for the next one. So the bytes that a power loss can tear are exactly those of one
flush, at the end of the log. A failed write is rolled back, so that its refusal is definite; a failed sync ends the
log. Called by the lone log alone, in its thread."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from raftlog.errors import RaftlogError, SyncFailed
from raftlog.storage.checkpointer import Checkpointer
from raftlog.storage.disk import Disk
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, make_refusal
from raftlog.topic_config import LogConfig
from raftlog.types import Index


class FlushOwner(Protocol):
    """Interface of the log whose appends are flushed."""

    config: LogConfig
    failure: RaftlogError | None
    on_progress: Callable[[], None]
    on_refused: Callable[[Index, RaftlogError], None]

    def fail(self, failure: RaftlogError) -> None:
        """End the log with the error."""
        ...

    def stop_after_failed_sync(self, error: OSError) -> SyncFailed:
        """End the log after a failed sync; return the error for its callers."""
        ...


class Flusher:
    """Writes and syncs of the appends to one log without Raft."""

    def __init__(self, disk: Disk, path: str, log: SegmentedLog, checkpoints: Checkpointer, owner: FlushOwner) -> None:
        """Prepare to make the entries of a log durable; `owner` is notified of progress and failures."""
        self.written_index = log.last_index
        """Last index in the files; changed by writes and cuts."""
        self.pending_bytes = 0
        """Bytes appended and not yet durable."""
        self._disk = disk
        self._path = path
        self._log = log
        self._checkpoints = checkpoints
        self._owner = owner
        self._appended_records = 0
        """Number of records since the last flush began, for the flush policy."""
        self._syncing: Index | None = None
        """Last index that the present flush covers; None without a flush."""
        self._run = 0
        """Number of the newest flush; completions of older ones are ignored."""
        self._flush_again = False
        self._unwritten_bytes = 0
        self._flushing_bytes = 0

    @property
    def is_flushing(self) -> bool:
        return self._syncing is not None

    def count_appended(self, records: int, size_bytes: int) -> None:
        """Add a batch that was appended to the log to the appended records and the pending bytes."""
        self._appended_records += records
        self.pending_bytes += size_bytes
        self._unwritten_bytes += size_bytes

    def reset_after_cut(self) -> None:
        """Set the written index to the last index after a cut; no append may be pending."""
        self.written_index = self._log.last_index

    def stop(self) -> None:
        """Ignore the flush under way, because it failed or the log stopped."""
        self._syncing = None

    def flush_if_due(self) -> bool:
        """Flush or write as the flush policy requires; return true if a flush is under way or was started for it."""
        if self._appended_records >= self._owner.config.flush_messages:
            self.flush()
            return True
        if self._syncing is None and self._log.last_index > self.written_index and self._write():
            self._owner.on_progress()
        return False

    def flush(self) -> None:
        """Start to write and sync all appended batches, or to do so after the flush that is under way."""
        owner = self._owner
        if self._syncing is not None:
            self._flush_again = True
            return
        if owner.failure or (not self._write() and owner.failure) or self._log.last_index == self._log.durable_index:
            return
        self._syncing = self._log.last_index
        self._flushing_bytes, self._appended_records = self.pending_bytes, 0
        files, directories = self._log.sync_targets()
        self._run += 1
        self._disk.submit_sync(files, directories, partial(self._complete_flush, self._run))
        if owner.config.flush_messages > 1:
            owner.on_progress()

    def _write(self) -> bool:
        """Write all appended batches to the files, and return true; after an error roll them back, and return false."""
        try:
            self._log.write()
        except OSError as error:
            self._roll_back(error)
            return False
        self.written_index, self._unwritten_bytes = self._log.last_index, 0
        return True

    def _roll_back(self, error: OSError) -> None:
        """Roll back the unwritten appends, so that their refusal is definite; if that fails too, stop the log."""
        path, owner = self._path, self._owner
        try:
            self._log.roll_back(self.written_index)
        except OSError as second:
            owner.fail(SyncFailed(f"{path}: a write failed ({error}) and could not be taken back ({second})"))
            return
        self.pending_bytes -= self._unwritten_bytes
        self._unwritten_bytes = self._appended_records = 0
        if error.errno in TEMPORARY_ERRORS:
            advice = "free some space (lower retention.ms or retention.bytes)"
            refusal: RaftlogError = make_refusal(path, error, advice)
        else:
            refusal = owner.failure = SyncFailed(
                f"{path}: writing failed: {error}; the log accepts no appends until it is opened again"
            )
        owner.on_refused(Index(self.written_index + 1), refusal)
        owner.on_progress()

    def _complete_flush(self, run: int, error: OSError | None) -> None:
        """Mark the flushed entries durable, and start the next flush if one was requested.

        Stop the log after an error."""
        owner = self._owner
        if error is not None:
            owner.stop_after_failed_sync(error)
            return
        target = self._syncing
        if run != self._run or target is None:
            return  # `flush_and_wait` has synced meanwhile
        self._syncing = None
        try:
            self._log.mark_durable(target)
        except OSError as failed:
            owner.fail(SyncFailed(f"{self._path}: the index cannot be written: {failed}"))
            return
        self.pending_bytes -= self._flushing_bytes
        self._checkpoints.note_durable(self._flushing_bytes)
        self._flushing_bytes = 0
        again, self._flush_again = self._flush_again, False
        if again:
            self.flush()
        elif self._log.last_index > self.written_index:
            self.flush_if_due()  # under a relaxed policy a write suffices for appends made meanwhile
        owner.on_progress()
        if owner.failure is None:
            self._checkpoints.start_if_due()

    def flush_and_wait(self) -> None:
        """Write and sync all appended batches, and wait; roll back appends that a full disk refuses.

        Raises `SyncFailed`."""
        self._write()
        if self._owner.failure:
            raise self._owner.failure
        try:
            self._disk.sync(*self._log.sync_targets())
            self._log.mark_durable(self._log.last_index)
        except OSError as error:
            raise self._owner.stop_after_failed_sync(error) from error
        self._syncing, self._flush_again = None, False
        self.pending_bytes = self._flushing_bytes = self._appended_records = 0
        self._owner.on_progress()
