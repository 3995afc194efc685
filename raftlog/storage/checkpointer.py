"""Checkpoints of a lone log: their schedule, and their writes in parallel to its flushes.

First the index files of both kinds are synced, then the slot is written, then synced. Every batch that a checkpoint
covers was durable, and its rows in the files, when it began."""

from collections.abc import Callable
from functools import partial

from raftlog.storage.checkpoint import Checkpoint, CheckpointFile
from raftlog.storage.disk import Disk, File
from raftlog.storage.segment import Segment
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS

CHECKPOINT_BYTES = 64 << 20
"""Durable bytes after which a checkpoint is due: about the largest number of bytes that recovery reads."""


class Checkpointer:
    """Writer of one log's checkpoints. `failed` is called with reason and error of a failed one."""

    def __init__(
        self, disk: Disk, log: SegmentedLog, slots: CheckpointFile, failed: Callable[[str, OSError], None]
    ) -> None:
        """Prepare checkpoints of a log; `failed` is called with a text and the error when one fails."""
        self._disk = disk
        self._log = log
        self._slots = slots
        self._failed = failed
        self._bytes = 0
        """Bytes made durable since the last checkpoint began."""
        self._is_requested = False
        self._is_synced = False
        """Whether the newest checkpoint is known to be synced: one that was read may be only in the page cache."""
        self._run = 0
        """Number of the checkpoint under way; completions of older ones are ignored."""
        self._is_running = False

    @property
    def newest(self) -> Checkpoint | None:
        """Newest checkpoint that was written."""
        return self._slots.newest

    def note_durable(self, count: int) -> None:
        """Add `count` to the durable bytes since the last checkpoint; `start_if_due` compares the sum."""
        self._bytes += count

    def request(self) -> None:
        """Request a checkpoint at the next call of `start_if_due`."""
        self._is_requested = True

    def start_if_due(self) -> bool:
        """Start a checkpoint if one is due and none is under way; return whether it was started."""
        if self._is_running or not (self._is_requested or self._bytes >= CHECKPOINT_BYTES):
            return False
        self._begin()
        self._is_running = True
        checkpoint = self._build_checkpoint()
        self._disk.submit_sync(self._list_index_files(), [], partial(self._continue_after_rows, self._run, checkpoint))
        return True

    def take(self) -> Checkpoint:
        """Wait until a checkpoint covers all batches that are durable now; raises `OSError`."""
        self._begin()
        self._is_running = False
        checkpoint = self._build_checkpoint()
        if self.newest and self._is_synced and checkpoint == self.newest._replace(sequence=checkpoint.sequence):
            return self.newest
        self._disk.sync(self._list_index_files())
        self.store(checkpoint)
        return checkpoint

    def store(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint and wait until it is synced; raises `OSError`."""
        self._is_synced = False
        self._slots.write(checkpoint)
        self._disk.sync([self._slots.file])
        self._is_synced = True

    def build_at(self, segment: Segment, rows: int, next_offset: int) -> Checkpoint:
        """Build a checkpoint at the end of the first `rows` batches of `segment`."""
        last = segment.row(rows - 1)
        sequence = self.newest.sequence + 1 if self.newest else 1
        return Checkpoint(
            sequence,
            self._log.log_start_offset,
            segment.base_offset,
            last.end,
            next_offset,
            last.index,
            segment.times.max_timestamp,
        )

    def cancel(self) -> Checkpoint | None:
        """Cancel the checkpoint that is under way; return the newest one that was written, or None."""
        self._run += 1
        self._is_running = False
        return self.newest

    def close(self) -> None:
        """Close the file, after cancelling a checkpoint under way."""
        self.cancel()
        self._slots.file.close()

    def _begin(self) -> None:
        """Begin a checkpoint with a new number; reset the request and the count of bytes."""
        self._run += 1
        self._bytes, self._is_requested = 0, False

    def _build_checkpoint(self) -> Checkpoint:
        """Build a checkpoint at the last batch whose row is in a file."""
        index = self._log.published_index
        segment = self._log.segment_of_index(index)
        return self.build_at(segment, index + 1 - segment.base_index, self._log.offset_after(index))

    def _list_index_files(self) -> list[File]:
        """Return the index files that may have changed since the last checkpoint synced them."""
        since = self.newest.segment if self.newest else 0
        fresh = [segment.files for segment in self._log.segments if segment.base_offset >= since]
        return [file for files in fresh for file in (files.index, files.times)]

    def _continue_after_rows(self, run: int, checkpoint: Checkpoint, error: OSError | None) -> None:
        """Write the slot after the sync of the index files, and start its sync."""
        if run != self._run:
            return
        if error is not None:
            self._fail_checkpoint("the index cannot be synced", error)
            return
        self._is_synced = False
        try:
            self._slots.write(checkpoint)
        except OSError as failed:
            self._fail_checkpoint("the checkpoint cannot be written", failed)
            return
        self._disk.submit_sync([self._slots.file], [], partial(self._complete, run))

    def _complete(self, run: int, error: OSError | None) -> None:
        """End the checkpoint after the sync of its slot."""
        if run != self._run:
            return
        self._is_running = False
        self._is_synced = error is None
        if error is not None:
            self._fail_checkpoint("the checkpoint cannot be synced", error)

    def _fail_checkpoint(self, problem: str, error: OSError) -> None:
        """Delay the checkpoint on a full disk; stop the log on any other error."""
        self._is_running = False
        self.request()
        if error.errno not in TEMPORARY_ERRORS:
            self._failed(problem, error)
