"""The journal's files: their contents, the spare ones, and the position of the next blocks.

A file is filled with zeros before it is used, and used again once a checkpoint made its blocks worthless: overwriting
costs a sync less than growing does, and a full disk cannot stop it. Each use of a file has a number; its name never
changes, so a switch of files touches no directory.

    live files: uses u, u + 1, …; the sequences of one end where those of the next begin
    room = blocks of the current file that are left + blocks of the spares

There are two files from the beginning: a checkpoint can only give back files that lie wholly before it, so that with
one alone a full disk would stop the journal for good.

Writes come from `Journal`, which asks for room before it takes an operation: a full disk refuses the operation, and
never interrupts a write.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from raftlog.errors import StorageFull
from raftlog.runtime.journal.blocks import BLOCK_SIZE, FIRST_SEQUENCE, BlockRange
from raftlog.runtime.journal.valid_range import BlockSpan, ValidRange
from raftlog.runtime.loop_holds import LOOP_HOLDS
from raftlog.storage.disk import Disk, File
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, descriptors_exhausted, lacks_descriptors

SUFFIX: Final = ".journal"
FILL_BLOCKS_MIN: Final = 16
FILL_BLOCKS_MAX: Final = 256
"""Minimum and maximum number of blocks that are filled at once; they hold the loop for 0.2 ms and 3 ms."""
_FILL: Final = LOOP_HOLDS.step("journal fill")


def file_name(number: int) -> str:
    """Return the name of the journal file with this number."""
    return f"{number:08d}{SUFFIX}"


def list_journal_files(disk: Disk, path: str) -> list[str]:
    """Return paths of the journal's files, by number."""
    if not disk.exists(path):
        return []
    return [f"{path}/{name}" for name in disk.list_directory(path) if _parse_number(name) is not None]


def _parse_number(name: str) -> int | None:
    """Return the number in the name of a journal file; None for other names."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if stem != name and stem.isdecimal() else None


class JournalFile:
    """Journal file during one use: from its first block after creation or recycling until it is recycled."""

    __slots__ = ("blocks", "file", "first_sequence", "is_synced", "use")

    def __init__(self, file: File, blocks: int, *, use: int = 0, first_sequence: int = 0, is_synced: bool) -> None:
        """Describe an open file of `blocks` blocks; `first_sequence` is the sequence of its first block."""
        self.file = file
        self.blocks = blocks
        """Number of blocks in the file, filled with zeros or written since."""
        self.use = use
        """Number of this use; 0 while the file is spare."""
        self.first_sequence = first_sequence
        self.is_synced = is_synced
        """Whether the file's name and zeros are durable; if not, a frame's sync must cover the directory too."""

    @property
    def end_sequence(self) -> int:
        return self.first_sequence + self.blocks


class FramePositions(NamedTuple):
    """Positions in the files of a frame whose first block has `sequence`, and the files that its sync must cover."""

    sequence: int
    pieces: list[tuple[JournalFile, BlockRange]]
    ranges: list[BlockRange]
    files: list[File]
    unsynced: list[JournalFile]
    """Files whose directory a sync of the frame must cover too."""


class JournalFiles:
    """The files of one journal. Not thread-safe; comments and docstrings name the blocking calls."""

    def __init__(self, disk: Disk, path: str, file_blocks: int, spare_files_max: int) -> None:
        """Manage files of `file_blocks` blocks in the directory `path`; keep up to `spare_files_max` spare ones."""
        self.path = path
        self._disk = disk
        self._file_blocks = file_blocks
        self._spare_files_max = spare_files_max
        self._next_number = 0
        self._live: list[JournalFile] = []
        """Files with blocks that recovery needs; the last one is written."""
        self._spares: list[JournalFile] = []
        """Whole files without such blocks, in the order in which they will be used."""
        self._growing: JournalFile | None = None
        """A new file that is being filled."""
        self.lacks_descriptors = False
        """Whether the last attempt to make a file failed for lack of a file descriptor."""
        self.room_end = 0
        """The sequence up to which blocks can be written without another byte from the file system."""

    # opening; all of it blocking

    def begin(self, leftover: Sequence[File]) -> None:
        """Create the first files of an empty journal; `leftover` are files of an interrupted creation."""
        self._continue_numbers(leftover)
        for file in leftover:
            self._unlink(file)
        first = self._grow_fully()
        first.use, first.first_sequence = 1, FIRST_SEQUENCE
        self._live = [first]
        self._spares = [self._grow_fully()]
        self._note_room()
        self.sync_all()

    def adopt(self, valid_range: ValidRange, last_frame: int, others: Sequence[File]) -> None:
        """Continue with the files of a journal that was read: erase remains after its end, and prepare a spare file."""
        for live in valid_range.live:
            blocks = live.file.size() // BLOCK_SIZE
            self._live.append(
                JournalFile(live.file, blocks, use=live.use, first_sequence=live.first_sequence, is_synced=False)
            )
        self._continue_numbers([*(live.file for live in valid_range.live), *others])
        for file in others:
            if file.size() == self._file_blocks * BLOCK_SIZE and len(self._spares) < self._spare_files_max:
                self._spares.append(JournalFile(file, self._file_blocks, is_synced=False))
        self._erase(valid_range.stray)
        for file in others:
            if all(spare.file is not file for spare in self._spares):
                self._unlink(file)
        self._rewrite_last_frame(last_frame, valid_range.end)
        self._complete_files()
        self._note_room()
        self.sync_all()

    def _continue_numbers(self, files: Sequence[File]) -> None:
        """Set the number of the next new file above those of `files`."""
        numbers = [_parse_number(file.path.rpartition("/")[2]) or 0 for file in files]
        self._next_number = max(numbers, default=-1) + 1

    def _erase(self, stray: Sequence[BlockSpan]) -> None:
        """Overwrite the remains of an unfinished write with zeros, so that no old block follows a later write."""
        for file, block, count in stray:
            file.write(block * BLOCK_SIZE, [bytes(count * BLOCK_SIZE)])

    def _rewrite_last_frame(self, last_frame: int, end: int) -> None:
        """Write the last frame once more: if its sync failed, no sync would make it durable without this."""
        for live in self._live:
            first = max(last_frame, live.first_sequence)
            last = min(end, live.end_sequence)
            if first < last:
                position = (first - live.first_sequence) * BLOCK_SIZE
                live.file.write(position, [live.file.read(position, (last - first) * BLOCK_SIZE)])

    def _complete_files(self) -> None:
        """Fill up the current file if its preallocation was lost, and create a spare, if the disk has room."""
        current = self._live[-1]
        try:
            while current.blocks < self._file_blocks:
                self._fill(current)
            if not self._spares:
                self._spares.append(self._grow_fully())
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise

    def sync_all(self) -> None:
        """Make names and contents of all files durable, and wait for it."""
        known = [*self._live, *self._spares]
        self._disk.sync([each.file for each in known], [self.path])
        for each in known:
            each.is_synced = True

    # room

    def _note_room(self) -> None:
        """Compute `room_end` again, after a change of the current file or the spare files.

        A spare that becomes current changes nothing."""
        self.room_end = self._live[-1].end_sequence + sum(spare.blocks for spare in self._spares)

    def room_blocks(self, sequence: int) -> int:
        """Return the number of blocks from `sequence` on that need no further space of the file system."""
        return self.room_end - sequence

    def make_room(self, sequence: int, blocks: int) -> None:
        """Ensure room for `blocks` blocks; blocking only when writes outrun `prepare`.

        Raises `StorageFull` and `DescriptorsExhausted`.
        """
        while self.room_blocks(sequence) < blocks:
            try:
                self._spares.append(self._grow_fully())
                self.lacks_descriptors = False
                self._note_room()
            except OSError as error:
                if error.errno not in TEMPORARY_ERRORS:
                    raise
                self.lacks_descriptors = lacks_descriptors(error)
                if self.lacks_descriptors:
                    raise descriptors_exhausted(self.path, error) from None
                raise StorageFull(
                    f"{self.path}: the disk is full: the journal has room for {self.room_blocks(sequence)} blocks of "
                    f"{BLOCK_SIZE} bytes and needs {blocks}; free some space, or take a checkpoint"
                ) from None

    def prepare(self, sequence: int, blocks: int, at_once: int) -> JournalFile | None:
        """Fill another slice of a new file while there is less room than `blocks`; return the file once it is full.

        The caller then syncs the file and the directory. A full disk or missing descriptors are no error here.
        """
        if self._growing is None and self.room_blocks(sequence) >= blocks:
            return None
        try:
            growing = self._growing or self._create()
            self._fill(growing, max(FILL_BLOCKS_MIN, min(at_once, FILL_BLOCKS_MAX)))
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise
            self.lacks_descriptors = lacks_descriptors(error)
            return None
        self.lacks_descriptors = False
        if growing.blocks < self._file_blocks:
            return None
        self._growing = None
        self._spares.append(growing)
        self._note_room()
        return growing

    def _grow_fully(self) -> JournalFile:
        """Create a file, or continue the one under construction, and fill it completely; blocking."""
        growing = self._growing or self._create()
        while growing.blocks < self._file_blocks:
            self._fill(growing)
        self._growing = None
        return growing

    def _create(self) -> JournalFile:
        """Create an empty file, which `_fill` extends."""
        file = self._disk.open(f"{self.path}/{file_name(self._next_number)}", create=True)
        self._next_number += 1
        self._growing = JournalFile(file, 0, is_synced=False)
        return self._growing

    def _fill(self, growing: JournalFile, blocks: int = FILL_BLOCKS_MAX) -> None:
        """Extend the new file by up to `blocks` blocks of zeros."""
        count = min(blocks, self._file_blocks - growing.blocks)
        with _FILL:
            growing.file.write(growing.blocks * BLOCK_SIZE, [bytes(count * BLOCK_SIZE)])
        growing.blocks += count

    # writing

    def allocate(self, sequence: int, blocks: int) -> FramePositions:
        """Return the positions of the next `blocks` blocks from `sequence` on.

        Begins another use of a file when the current one is full."""
        assert blocks <= self.room_blocks(sequence), f"{blocks} blocks, room for {self.room_blocks(sequence)}"
        placed = FramePositions(sequence, [], [], [], [])
        while blocks:
            current = self._live[-1]
            if sequence == current.end_sequence:
                current = self._begin_use(sequence)
            count = min(blocks, current.end_sequence - sequence)
            place = BlockRange(current.use, sequence - current.first_sequence, count)
            placed.pieces.append((current, place))
            placed.ranges.append(place)
            placed.files.append(current.file)
            if not current.is_synced:
                placed.unsynced.append(current)
            sequence += count
            blocks -= count
        return placed

    def _begin_use(self, sequence: int) -> JournalFile:
        """Make the next spare file the current one, from block `sequence` on."""
        spare = self._spares.pop(0)
        spare.use, spare.first_sequence = self._live[-1].use + 1, sequence
        self._live.append(spare)
        return spare

    def recycle(self, start: int) -> None:
        """Recycle or unlink files with only blocks before `start`, where recovery durably begins now."""
        while len(self._live) > 1 and self._live[1].first_sequence <= start:
            old = self._live.pop(0)
            if old.blocks == self._file_blocks and len(self._spares) < self._spare_files_max:
                old.use = 0
                self._spares.append(old)
                self._note_room()
            else:
                self._unlink(old.file)

    def _unlink(self, file: File) -> None:
        """Close and unlink a file without a sync.

        If its name returns after a crash, its old blocks are ignored."""
        file.close()
        self._disk.unlink(file.path)

    def close(self) -> None:
        """Close all files."""
        growing = [self._growing] if self._growing else []
        for each in (*self._live, *self._spares, *growing):
            each.file.close()
