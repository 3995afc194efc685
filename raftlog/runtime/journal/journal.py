"""The journal: one ordered list of operations for all groups of a process, made durable by one sync for all that wait.

`append` takes operations in memory, `flush` writes the waiting ones as one frame and submits one sync; operations that
are appended meanwhile are part of the next frame. One frame is in flight at a time, and its sync is never retried: a
journal whose sync failed accepts no further operation. No threads, no clock: completions come through the disk.

    durable sequence < next sequence to write ≤ number of any frame that waits
    start ≤ durable sequence once the first frame is durable

The caller is the driver. It writes segments at the same moment, syncs them only at a checkpoint, and keeps the rules
that the journal cannot see: ids of a large append follow their segment's sync, a cut is durable before a byte that it
frees is touched, nothing depends on an operation before `durable_sequence` has reached it.

A checkpoint has two halves, because syncing segments takes long and operations go on meanwhile: `begin_checkpoint`
journals the state of every group as it is now, `complete_checkpoint` records that the segments hold all of it. Recovery
then begins there, and older files are used again."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Self

from raftlog.errors import JournalDamaged, LogClosed, Overloaded, RaftlogError, SyncFailed
from raftlog.runtime.histogram import Histogram, stopwatch
from raftlog.runtime.journal.blocks import (
    BLOCK_SIZE,
    FIRST_SEQUENCE,
    PAYLOAD_SIZE,
    JournalSequence,
    build_frame,
    checksum_seed,
    count_blocks,
)
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.files import FILL_BLOCKS_MAX, FramePositions, JournalFile, JournalFiles
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.frame import FrameQueue, PendingFrame
from raftlog.runtime.journal.operations import (
    ENCODERS,
    GROUP_STATE,
    OPERATION_HEAD_SIZE,
    Append,
    AppendIds,
    CommitHint,
    Cut,
    Encoded,
    GroupKey,
    GroupState,
    Operation,
    OperationKind,
    encode,
    encode_bare,
    encode_checkpoint,
)
from raftlog.runtime.journal.recovery import ReadJournal, read_files
from raftlog.storage.directory import make_directory
from raftlog.storage.disk import Disk
from raftlog.types import Index, Position

MARGIN_BLOCKS: Final = 16
"""Room kept for frames without operations: the opening's, a completed checkpoint's, the closing's."""
_STATE_SIZE: Final = OPERATION_HEAD_SIZE + GROUP_STATE.size
_ENTRIES: Final = (Append, AppendIds)


class _Checkpoint(NamedTuple):
    """Numbers of the first and the last frame of a checkpoint that has begun."""

    number: JournalSequence
    """Number of the frame that the checkpoint begins with."""
    last: JournalSequence
    """Number of the frame that the checkpoint ends in."""


def _ignore(_: object) -> None:
    """Do nothing; default of callbacks."""


class Journal:
    """Journal of one process; see the module. Not thread-safe; `open` and `close` block, other calls return at once."""

    def __init__(self, disk: Disk, path: str, seed: int, config: JournalConfig, read: ReadJournal) -> None:
        self.path = path
        self.config = config
        self.on_durable: Callable[[JournalSequence], None] = _ignore
        """Called with `durable_sequence` whenever it moved, in the context of the disk's completions."""
        self.on_failure: Callable[[RaftlogError], None] = _ignore
        """Called once, when a write or a sync failed."""
        self.failure: RaftlogError | None = None
        """Set when a write or a sync failed, or when the journal was closed: every call raises it."""
        self.durable_sequence = JournalSequence(FIRST_SEQUENCE - 1)
        """The last block that is synced together with every block before it; peers remember it for this disk uuid."""
        self.durable_start = JournalSequence(FIRST_SEQUENCE)
        """Durable lower bound of the frame at which recovery begins after a crash."""
        self.sync_times = Histogram()
        """Durations of syncs, from submission to completion."""
        self._disk = disk
        self._seed = seed
        self._files = JournalFiles(disk, path, config.file_blocks, config.spare_files_max)
        self._next: int = FIRST_SEQUENCE
        """Sequence of the next block to be written."""
        self._chain = 0
        self._start: int = FIRST_SEQUENCE
        """Number of the frame at which recovery begins, as written into blocks."""
        self._waiting = FrameQueue(config.frame_payload_max)
        """Frames that are not written."""
        self._hints: dict[GroupKey, Index] = {}
        """Commit hints that wait for a frame that is written anyway."""
        self._wanted = 0
        """Number of the last frame that `flush` asked for."""
        self._is_writing = False
        self._begun: _Checkpoint | None = None
        self._completed: _Checkpoint | None = None
        self._frame_payload_max = config.frame_payload_max
        self._reserve_blocks = config.reserve_blocks
        self._open(read)

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        disk_uuid: uuid.UUID,
        config: JournalConfig | None = None,
        *,
        create: bool = False,
        synced_at_least: int = 0,
    ) -> tuple[Self, Fold]:
        """Open the journal in the directory `path`; return it with the state replayed from it, all of it durable.

        The directory belongs to one disk uuid: after damage the new uuid gets a new directory. `create` makes a new
        journal; without it an empty directory is damage. `synced_at_least` is the highest `durable_sequence` that a
        peer remembers of this disk uuid. Blocking. Raises `JournalDamaged`, `FormatError`, `OSError`."""
        if create:
            make_directory(disk, path)
        read = read_files(disk, path, disk_uuid, synced_at_least=synced_at_least)
        if read.valid_range is None and not create:
            raise JournalDamaged(path, Position(0), "no intact block is left")
        return cls(disk, path, checksum_seed(disk_uuid), config or JournalConfig(), read), read.fold

    def _open(self, read: ReadJournal) -> None:
        """Continue the journal that was read, or begin a new one; write a frame and wait until it is durable."""
        if read.valid_range is None:
            self._files.begin(read.files)
            self.begin_checkpoint(())
        else:
            self._files.adopt(read.valid_range, read.fold.last_frame, read.others)
            self._next, self._chain, self._start = read.valid_range.end, read.valid_range.chain, read.valid_range.start
            self._waiting.start_at(self._next)
            self.durable_sequence = JournalSequence(self._next - 1)
            self._keep_reserve(len(read.fold.groups) * _STATE_SIZE)
            self._cut_dropped(read.fold)
        self._write_and_sync()  # a separate frame proves that all frames before it were durable
        self._begun = None

    def _cut_dropped(self, fold: Fold) -> None:
        """Journal cuts of the entries dropped in recovery; else new appends before them would make them valid again."""
        cuts = [encode(Cut(key, Index(group.tail + 1))) for key, group in fold.groups.items() if group.dropped]
        if cuts:
            self._make_room(0)
            self._waiting.take(cuts, len(cuts) * OPERATION_HEAD_SIZE)

    # taking operations

    def append_error(self, size_bytes: int) -> RaftlogError | None:
        """Return the error that an append of entries with `size_bytes` of batches would raise now, else None.

        Appends nothing, but prepares files with room for them. A caller that admits entries by this check, and appends
        them later, includes in `size_bytes` the entries that it has admitted and not appended yet. The later append may
        use the reserve, so it succeeds unless other operations filled the reserve in between."""
        try:
            self._check_usable()
            self._check_admission(OPERATION_HEAD_SIZE + size_bytes, may_use_reserve=False)
        except RaftlogError as refusal:
            return refusal
        return None

    def append(self, operations: Iterable[Operation], *, may_use_reserve: bool = False) -> JournalSequence:
        """Take operations in order, all or none; they are durable once `durable_sequence` reaches the returned number.

        Nothing is written before `flush`. Buffers must not change until then. Operations without entries may use the
        reserve; entries only with `may_use_reserve`, for those that were admitted before or that the Raft core made.
        Raises `Overloaded` and `StorageFull` (nothing was taken), and the failure that ended the journal."""
        if self.failure:
            raise self.failure
        encoded: list[Encoded] = []
        size = 0
        has_entries = False
        for operation in operations:
            kind = type(operation)
            each = ENCODERS[kind](operation)
            encoded.append(each)
            size += OPERATION_HEAD_SIZE + each[2]
            has_entries = has_entries or kind in _ENTRIES
        self._check_admission(size, may_use_reserve=may_use_reserve or not has_entries)
        return self._waiting.take(encoded, size)

    def hint_commit(self, hint: CommitHint) -> None:
        """Record the commit index of a group; it is added to a frame that is written for another reason."""
        if self.failure:
            raise self.failure
        self._hints[hint.group] = hint.index

    @property
    def pending_bytes(self) -> int:
        """Bytes of operations that wait for their frame to be written; bounded by the configuration."""
        return self._waiting.pending_bytes

    def _check_admission(self, size: int, *, may_use_reserve: bool) -> None:
        """Make room for operations of `size` bytes; raise `Overloaded` or `StorageFull` if that is impossible."""
        config, reserve_bytes, reserve_blocks = self.config, 0, self._reserve_blocks
        if may_use_reserve:
            reserve_bytes, reserve_blocks = config.reserve_bytes, 0
        if self._waiting.pending_bytes + size > config.pending_bytes_max + reserve_bytes:
            raise Overloaded(f"{self.path}: {self.pending_bytes} bytes wait for the disk already; try again later")
        if not may_use_reserve and self.live_bytes > config.journal_bytes_max:
            raise Overloaded(f"{self.path}: {self.live_bytes} bytes of journal wait for a checkpoint; try again later")
        self._make_room(self._bound_blocks(size) + reserve_blocks)

    def _bound_blocks(self, size: int) -> int:
        """Return an upper bound on the blocks that `size` bytes of operations need.

        Each frame may waste part of a block, and two adjacent frames are together larger than the largest frame."""
        return size // PAYLOAD_SIZE + 4 + 4 * (size // self._frame_payload_max)

    def _make_room(self, blocks: int) -> None:
        """Ensure that `blocks` blocks can be written after the waiting ones; raises `StorageFull`."""
        end = self._waiting.end + blocks + MARGIN_BLOCKS
        if end <= self._files.room_end:
            return
        try:
            self._files.make_room(self._next, end - self._next)
        except OSError as error:
            self._fail(SyncFailed(f"{self.path}: a new file cannot be written: {error}"))
            self._check_usable()

    # writing

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being written and no operation waits."""
        return not self._is_writing and not self._waiting.frames

    def flush(self) -> None:
        """Make the waiting operations durable: write and sync now, or as soon as the sync under way returns."""
        if self.failure:
            raise self.failure
        if self._waiting.frames:
            self._wanted = self._waiting.last
        self._write_next()

    def _write_next(self) -> None:
        """Write the next frame and submit its sync, unless a frame is in flight or nothing is to be written."""
        if self._is_writing or self.failure:
            return
        if not (self._waiting.frames and self._waiting.first <= self._wanted) and not self._can_move_start():
            return
        self._is_writing = True
        try:
            placed = self._write(self._waiting.pop())
        except OSError as error:
            self._fail(SyncFailed(f"{self.path}: a write failed: {error}; restart the process"))
            return
        directories = [self.path] if placed.unsynced else []
        synced = partial(self._handle_sync, JournalSequence(self._next - 1), self._start, placed, stopwatch())
        self._disk.submit_sync(placed.files, directories, synced)

    def _write(self, frame: PendingFrame) -> FramePositions:
        """Write one frame, without a sync."""
        assert frame.number == self._next, f"frame {frame.number} is to be written at {self._next}"
        if not self._waiting.frames:
            self._add_hints(frame)
        if self._can_move_start():
            assert self._completed is not None
            self._start, self._completed = self._completed.number, None
        payload = frame.payload()
        placed = self._files.allocate(self._next, count_blocks(len(payload)))
        data, self._chain = build_frame(payload, self._next, self._start, self._chain, placed.ranges, self._seed)
        view, at = memoryview(data), 0
        for journal_file, place in placed.pieces:
            size = place.blocks * BLOCK_SIZE
            journal_file.file.write(place.block * BLOCK_SIZE, [view[at : at + size]])
            at += size
        self._next += len(data) // BLOCK_SIZE
        return placed

    def _add_hints(self, frame: PendingFrame) -> None:
        """Add the hints that fit into blocks which are written anyway; the others wait, at most one for each group."""
        room = count_blocks(frame.size) * PAYLOAD_SIZE - frame.size
        for group in list(self._hints)[: room // OPERATION_HEAD_SIZE]:
            frame.add((encode_bare(OperationKind.COMMIT_HINT, self._hints.pop(group), group),), OPERATION_HEAD_SIZE)

    def _handle_sync(
        self, last: JournalSequence, start: int, placed: FramePositions, began: float, error: OSError | None
    ) -> None:
        """Record the result of a frame's sync, and write the next frame; `last` is the frame's last block."""
        if self.failure:
            return
        self.sync_times.observe_since(began)
        self._is_writing = False
        if error:
            self._fail_sync(error)
            return
        self._note_durable(last, start, placed)
        self._prepare_files(4 * (last + 1 - placed.sequence))
        self.on_durable(last)
        self._write_next()

    def _note_durable(self, last: JournalSequence, start: int, placed: FramePositions) -> None:
        """Record that the frames up to `last` are durable; recycle the files before block `start`."""
        assert self.durable_sequence < last < self._next, (self.durable_sequence, last, self._next)
        self.durable_sequence, self.durable_start = last, JournalSequence(start)
        for journal_file in placed.unsynced:
            journal_file.is_synced = True
        try:
            self._files.recycle(start)
        except OSError as error:
            self._fail(SyncFailed(f"{self.path}: an old file cannot be removed: {error}"))

    def _prepare_files(self, at_once: int) -> None:
        """Prepare files ahead of `append`, a slice at a time: up to four times the bytes that were just written."""
        ahead = max(self.config.file_blocks // 2, 2 * self.config.write_bytes_max // BLOCK_SIZE)
        wanted = self._reserve_blocks + MARGIN_BLOCKS + ahead
        try:
            grown = self._files.prepare(self._next, wanted, at_once)
        except OSError as error:
            self._fail(SyncFailed(f"{self.path}: a new file cannot be written: {error}"))
            return
        if grown:
            self._disk.submit_sync([grown.file], [self.path], partial(self._handle_file_sync, grown))

    def _handle_file_sync(self, grown: JournalFile, error: OSError | None) -> None:
        if error:
            self._fail_sync(error)
        else:
            grown.is_synced = True

    def _fail_sync(self, error: OSError) -> None:
        self._fail(SyncFailed(f"{self.path}: a sync failed: {error}; restart the process"))

    def _fail(self, failure: RaftlogError) -> None:
        """End the journal. Waiting operations were never promised; those being written may be durable or not."""
        if self.failure is None:
            self.failure = failure
            self.on_failure(failure)

    def _check_usable(self) -> None:
        if self.failure:
            raise self.failure

    # checkpoints

    @property
    def live_bytes(self) -> int:
        """Bytes of the journal that recovery would have to replay."""
        return (self._next - self._start) * BLOCK_SIZE

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether the journal has grown by `checkpoint_bytes` since the last checkpoint, or its room runs out."""
        room = self._files.room_end - self._waiting.end - MARGIN_BLOCKS
        return self.live_bytes >= self.config.checkpoint_bytes or room <= self._reserve_blocks

    @property
    def is_reserve_low(self) -> bool:
        """Whether less of the reserve is left than a checkpoint may need: further appends would end the journal."""
        room = self._files.room_end - self._waiting.end - MARGIN_BLOCKS
        return room <= self._reserve_blocks // 2

    @property
    def lacks_descriptors(self) -> bool:
        """Whether the room is missing because of a lack of file descriptors, and not of space."""
        return self._files.lacks_descriptors

    def make_reserve(self) -> None:
        """Prepare room for the reserve, if the disk has space by now."""
        if self.failure is None and not self._is_writing:
            self._prepare_files(FILL_BLOCKS_MAX)

    def begin_checkpoint(self, states: Iterable[GroupState]) -> JournalSequence:
        """Journal every group's state as it is after all operations taken so far, in memory until the next `flush`.

        The journal drops groups that are not in `states`. Returns the number for `complete_checkpoint`. A second begin
        replaces one that was not completed. Raises `StorageFull` and the failure that ended the journal."""
        return self.begin_encoded_checkpoint([encode(state) for state in states])

    def begin_encoded_checkpoint(self, states: Sequence[Encoded]) -> JournalSequence:
        """Begin a checkpoint as `begin_checkpoint` does, from states that are encoded already."""
        self._check_usable()
        encoded, size = encode_checkpoint(states)
        self._make_room(self._bound_blocks(size))
        self._keep_reserve(size)
        number = self._waiting.begin_frame().number
        self._begun = _Checkpoint(number, self._waiting.take(encoded, size))
        return number

    def complete_checkpoint(self, number: JournalSequence) -> None:
        """Complete checkpoint `number`, after the caller synced the segments that hold all of its state; flushes.

        When the completion is durable, recovery begins at this checkpoint, and older files are used again."""
        self._check_usable()
        assert self._begun is not None, "no checkpoint was begun"
        assert self._begun.number == number, f"checkpoint {number} is completed, but {self._begun.number} was begun"
        self._completed, self._begun = self._begun, None
        self.flush()

    def checkpoint(self, states: Iterable[GroupState]) -> JournalSequence:
        """Begin and complete a checkpoint, for a caller whose segments are synced already."""
        number = self.begin_checkpoint(states)
        self.complete_checkpoint(number)
        return number

    def _can_move_start(self) -> bool:
        """Return whether a completed checkpoint is durable, so that recovery can begin at it and files be removed."""
        return self._completed is not None and self._completed.last <= self.durable_sequence

    def _keep_reserve(self, checkpoint_bytes: int) -> None:
        """Set the reserve, in blocks: the configured one, but at least twice the size of a checkpoint."""
        self._reserve_blocks = max(self.config.reserve_blocks, 2 * count_blocks(checkpoint_bytes))

    # the end

    def close(self) -> None:
        """Make waiting operations durable, unless a sync is in flight or failed; blocking, idempotent.

        To lose none, flush and wait first: operations after a sync in flight are dropped. Raises `SyncFailed`."""
        if self.failure is None:
            try:
                if not self._is_writing:
                    self._write_and_sync()
            finally:
                self.failure = self.failure or LogClosed(f"{self.path}: the journal is closed")
                self._files.close()

    def _write_and_sync(self) -> None:
        """Write the waiting operations, then a frame without any, each synced before the next; blocking."""
        while self._waiting.frames:
            self._write_now(self._waiting.pop())
        if self._files.room_blocks(self._next) >= MARGIN_BLOCKS:
            self._write_now(self._waiting.pop())

    def _write_now(self, frame: PendingFrame) -> None:
        """Write and sync a frame in this call. Raises `SyncFailed`."""
        try:
            placed = self._write(frame)
            self._disk.sync(placed.files, [self.path] if placed.unsynced else [])
        except OSError as error:
            self._fail_sync(error)
            raise SyncFailed(str(self.failure)) from error
        self._note_durable(JournalSequence(self._next - 1), self._start, placed)
