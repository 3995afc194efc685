"""Extent of a log, and the files with its batches: first consecutive segments, then the journal.

    log start ≤ end;   with a journal, up to its commit index, otherwise up to the last undamaged entry

The result is the log that recovery would produce at the next start, but nothing in the directory is changed. Files that
do not continue the offsets and indexes of the files before are ignored. The journal defines the entries after the last
checkpoint; their bytes are read from the segment only if they are the same there. Damage is collected, and reading
continues after it if possible. Called by `plan` and by the verification, on the driver; memory: 200 bytes per file."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Final, NamedTuple

from raftlog.errors import CorruptBatch, FormatError
from raftlog.pipeline.segments.pieces import (
    BatchBoundary,
    IndexRows,
    SegmentPiece,
    Window,
    find_indexed_piece,
    walk_headers,
)
from raftlog.pipeline.segments.replicas import FoundReplica
from raftlog.records import HEADER_SIZE, BatchHeader, read_header
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.log.replay import JournalEntry, find_first_roll, journal_entries
from raftlog.storage.checkpoint import read_checkpoint
from raftlog.storage.disk import Disk
from raftlog.storage.recovery import looks_torn, read_roll, segment_bases
from raftlog.storage.rows import restore_header, row_matches, unpack_row, unpack_rows
from raftlog.storage.segment import Segment, open_for_reading
from raftlog.storage.segment_files import LOG_SUFFIX, segment_stem
from raftlog.types import Offset, Position

CARRIED_BYTES_MAX: Final = 1 << 20
"""Bytes of journaled batches from which on a new piece begins."""
CARRIED_ALTOGETHER_MAX: Final = 32 << 20
"""Maximum of journaled bytes in all pieces of a plan; for further pieces the task reads the journal."""


class LogExtent(NamedTuple):
    """Offsets `start ≤ offset < end` that a replica's directory contains, and the pieces of files with their batches.

    `problems` are missing or damaged bytes that can be found without reading all batches."""

    replica: FoundReplica
    start: int
    end: int
    last_index: int
    pieces: tuple[SegmentPiece, ...]
    problems: tuple[CorruptBatch, ...]

    @property
    def topic(self) -> str:
        return self.replica.topic

    @property
    def partition(self) -> int:
        return self.replica.partition

    @property
    def size(self) -> int:
        """Size of all pieces in bytes."""
        return sum(piece.size for piece in self.pieces)


class CarriedBudget:
    """Budget for journaled bytes that the pieces of one plan contain, `CARRIED_ALTOGETHER_MAX` in total."""

    def __init__(self, left: int = CARRIED_ALTOGETHER_MAX) -> None:
        self._left = left

    def try_take(self, size: int) -> bool:
        """Take `size` bytes; return False if fewer are left."""
        if size > self._left:
            return False
        self._left -= size
        return True


def find_extent(disk: Disk, replica: FoundReplica, room: CarriedBudget | None = None) -> LogExtent:
    """Return the offsets that a replica's directory contains, and the pieces with their batches.

    Raises `OSError`, and `JournalDamaged` and `FormatError` from its journal."""
    chain = _Chain(disk, replica.path, is_lone=replica.fold is None)
    if replica.folded is None or replica.fold is None:
        return _lone_extent(disk, replica, chain)
    return _journaled_extent(replica, chain, replica.folded, replica.fold, room or CarriedBudget())


def file_name(path: str, base: int) -> str:
    """Return the path of the log file with this base offset."""
    return f"{path}/{segment_stem(base)}{LOG_SUFFIX}"


class _Chain:
    """Search for consecutive segment files of a log, and for the pieces of batches in them."""

    def __init__(self, disk: Disk, path: str, *, is_lone: bool) -> None:
        """Create an empty chain of the segment files in the directory `path`.

        `is_lone` is whether the log belongs to the embedded library."""
        self.bases = segment_bases(disk, path)
        self.pieces: list[SegmentPiece] = []
        self.problems: list[CorruptBatch] = []
        self.base = -1
        """Base offset of the last file of the chain; −1 before the first file."""
        self.place = BatchBoundary(0, 1, 0)
        """Boundary after the last batch of the chain."""
        self.roll_start = 0
        """Highest log start offset in the rolls of the files."""
        self.disk = disk
        self._path, self._is_lone = path, is_lone

    def follow(self, base: int | None, stop_index: int | None) -> None:
        """Add the files from `base` on, up to entry `stop_index` or to the end of the last file."""
        while base is not None:
            try:
                segment = self._open(base)
            except FileNotFoundError:
                self.add_problem(base, BatchBoundary(0, 0, base), "the file was removed meanwhile, as a trim does")
                return
            with closing(segment):
                if stop_index is not None and segment.base_index > stop_index:
                    return
                why = self._take_file(segment, stop_index)
            if stop_index is not None and self.place.index > stop_index:
                return
            base = self._next_base(why)

    def restart(self) -> None:
        """Discard all pieces and problems, because entries that begin with a roll follow."""
        self.pieces.clear()
        self.problems.clear()
        self.base = -1

    def add_problem(self, base: int, place: BatchBoundary, why: str) -> None:
        """Add a problem at a boundary of the file with base offset `base`."""
        file = file_name(self._path, base)
        self.problems.append(CorruptBatch(file, Position(place.position), Offset(place.offset), why))

    def base_index(self, base: int) -> int:
        """Return the index of the first entry of a file; 0 if it is unknown."""
        with closing(self._open(base)) as segment:
            return segment.base_index

    def _open(self, base: int) -> Segment:
        """Open a segment file with its base index and compaction mark, as far as they are known."""
        segment = open_for_reading(self.disk, self._path, base)
        try:
            roll, rows = read_roll(segment), IndexRows(segment.files.index)
        except BaseException:
            segment.close()
            raise
        if roll is not None:
            segment.base_index, segment.compacted_to = roll.base_index, roll.compacted_to
            self.roll_start = max(self.roll_start, roll.log_start_offset)
        elif base == 0:
            segment.base_index = 1  # no segment without an offset is rolled
        elif self.base >= 0:
            segment.base_index = self.place.index
        elif rows.count:
            segment.base_index = rows.row(0).index
        return segment

    def _take_file(self, segment: Segment, stop_index: int | None) -> str | None:
        """Add the pieces of a file; return the reason if the log ends before the end of the file, else None."""
        base = segment.base_offset
        follows = self.base >= 0 and base == self.place.offset
        if follows and segment.base_index != self.place.index and segment.files.log.size():
            why = f"it begins at index {segment.base_index} where {self.place.index} follows"
            self.add_problem(base, BatchBoundary(0, 0, base), why)
        self.base, self.place = base, BatchBoundary(0, segment.base_index, base)
        piece = find_indexed_piece(segment, stop_index)
        if piece is not None:
            self._add(piece)
        if stop_index is not None and self.place.index > stop_index:
            return None
        index_size = segment.files.index.size()  # before the walk: a writer may append rows meanwhile
        walked = walk_headers(segment, self.place, stop_index, checks_crc=self._is_lone)
        self._add(SegmentPiece(base, self.place, walked.place, compacted_to=segment.compacted_to))
        return self._end_reason(
            segment, walked.why, has_rows_behind=piece is None and self._has_rows_after(segment, index_size)
        )

    def _add(self, piece: SegmentPiece) -> None:
        """Add a piece, unless it is empty, and continue after it."""
        if piece.size:
            self.pieces.append(piece)
        self.place = piece.last

    def _has_rows_after(self, segment: Segment, index_size: int) -> bool:
        """Return whether a row below `index_size` describes a batch at or after the end of the chain."""
        position, index, offset = self.place
        packed = segment.files.index.read(0, index_size)
        return any(
            row.index >= index and row.position >= position and row.offset >= offset for row in unpack_rows(packed)
        )

    def _end_reason(self, segment: Segment, why: str | None, *, has_rows_behind: bool) -> str | None:
        """Return the reason if the file ends too early, else None; an unfinished write in the last file is allowed."""
        is_last = segment.base_offset == self.bases[-1]
        if why is None:
            return "the file ends before a batch that was synced" if has_rows_behind and self._is_lone else None
        segment.next_offset = self.place.offset
        is_tail = self._is_lone and is_last and not has_rows_behind
        if is_tail and looks_torn(segment, self.place.position, why):
            return None
        return why

    def _next_base(self, why: str | None) -> int | None:
        """Return the base offset of the file to continue with, or None; report missing offsets."""
        if why is None and self.place.offset in self.bases and self.place.offset != self.base:
            return self.place.offset
        following = next((base for base in self.bases if base > max(self.base, self.place.offset)), None)
        if why is not None:
            self.add_problem(self.base, self.place, why)
        elif following is not None and self._is_lone:
            why = f"offsets {self.place.offset} to {following} are missing"
            self.add_problem(following, BatchBoundary(0, 0, following), why)
        elif following is not None:
            self.add_problem(self.place.offset, BatchBoundary(0, 0, self.place.offset), "the file is missing")
        return following


# without a journal


def _lone_extent(disk: Disk, replica: FoundReplica, chain: _Chain) -> LogExtent:
    """Return the extent of a log without a journal: up to its last undamaged batch."""
    checkpoint = read_checkpoint(disk, replica.path)
    first = chain.bases[0] if chain.bases else None
    if checkpoint is not None:
        first = next((base for base in reversed(chain.bases) if base <= checkpoint.log_start_offset), first)
    chain.follow(first, None)
    start = max(checkpoint.log_start_offset if checkpoint else chain.roll_start, 0)
    if first is not None and first > start:
        if checkpoint is not None:
            chain.add_problem(first, BatchBoundary(0, 0, first), f"offsets {start} to {first} are missing")
        start = first
    end = max(chain.place.offset, start)
    if checkpoint is not None and checkpoint.next_offset > end and not chain.problems:
        why = f"the log ends here, and its checkpoint at offset {checkpoint.next_offset}"
        chain.add_problem(checkpoint.segment, chain.place, why)
    return LogExtent(replica, start, end, chain.place.index - 1, tuple(chain.pieces), tuple(chain.problems))


# with a journal


def _journaled_extent(
    replica: FoundReplica, chain: _Chain, folded: FoldedGroup, fold: Fold, room: CarriedBudget
) -> LogExtent:
    """Return the extent of a replica up to its commit index, from segments and then from the journal."""
    start, commit = int(folded.log_start_offset), int(min(folded.commit_hint, folded.last_index))
    in_files = min(commit, int(folded.keep_to))
    if in_files:
        first = _first_base(chain, start, int(folded.keep_to))
        if first is None:
            why = "the file with the log start is missing, or its first entry cannot be read"
            chain.add_problem(start, BatchBoundary(0, 0, start), why)
        chain.follow(first, in_files)
        _report_missing_entries(chain, in_files)
    if commit > folded.keep_to:
        entries = journal_entries(folded, fold, folded.keep_to + 1)
        is_held = bool(chain.pieces) and not chain.problems
        if start and not (is_held and start < chain.place.offset):
            roll = find_first_roll(journal_entries(folded, fold), start, commit, chain.bases, is_begun=is_held)
            if roll is not None:
                chain.restart()
                entries = journal_entries(folded, fold, roll.index)
        with ExitStack() as files:
            _JournalTail(replica, chain, room, files).take(entries, commit)
    end = max(chain.place.offset, start)
    return LogExtent(replica, start, end, commit, tuple(chain.pieces), tuple(chain.problems))


def _first_base(chain: _Chain, start: int, keep_to: int) -> int | None:
    """Return the last file that begins at or below the log start and no later than entry `keep_to`, or None."""
    for base in reversed(chain.bases):
        if base <= start and 0 < chain.base_index(base) <= keep_to:
            return base
    return None


def _report_missing_entries(chain: _Chain, index: int) -> None:
    """Add a problem if the chain ends before entry `index`, without another problem."""
    if chain.base >= 0 and chain.place.index <= index and not chain.problems:
        chain.add_problem(chain.base, chain.place, f"entry {chain.place.index} is missing, and {index} is committed")


class _JournalTail:
    """Entries after the last checkpoint: read from the segments if these contain the same bytes, else the journal."""

    def __init__(self, replica: FoundReplica, chain: _Chain, room: CarriedBudget, files: ExitStack) -> None:
        """Prepare to append the replica's journaled entries to `chain`.

        `room` limits the bytes that pieces carry, and `files` closes the opened files."""
        self._chain, self._room, self._files = chain, room, files
        self._path, self._disk = replica.path, chain.disk
        self._log: Window | None = None
        self._file_base = -1
        self._run: tuple[BatchBoundary, bool] | None = None
        """Start of the open sequence of batches, and whether these are only in the journal; None: none is open."""
        self._bytes: list[memoryview] = []
        self._carried = 0

    def take(self, entries: Iterable[JournalEntry], commit: int) -> None:
        """Append the entries of the journal up to entry `commit` to the chain."""
        chain = self._chain
        for entry in entries:
            if entry.index > commit:
                break
            if entry.is_roll:
                self._end_run()
                chain.base, chain.place = entry.offset, BatchBoundary(0, entry.index, entry.offset)
            elif (entry.index, entry.offset) != (chain.place.index, chain.place.offset):
                self._end_run()
                if not chain.problems:
                    why = f"the journal continues with entry {entry.index} at offset {entry.offset}"
                    chain.add_problem(max(chain.base, 0), chain.place, why)
                chain.place = BatchBoundary(chain.place.position, entry.index, entry.offset)
            if entry.batch is not None:
                self._take_batch(entry.batch)
            else:
                self._take_row(entry.row)
        self._end_run()

    def _take_batch(self, batch: memoryview) -> None:
        """Append a batch of the journal to the chain.

        If the segment file contains the same bytes, a task reads the batch from the file. Otherwise the batch belongs
        to a piece that is marked as journaled; the piece carries the bytes if the budget allows it."""
        place = self._chain.place
        is_in_file = self._read(place.position, len(batch)) == batch
        self._begin_run(is_journaled=not is_in_file)
        if not is_in_file:
            self._bytes.append(batch)
            self._carried += len(batch)
        self._advance(len(batch), read_header(batch))

    def _take_row(self, packed: bytes) -> None:
        """Append a batch of which the journal has only the index row, if the file has it."""
        row = unpack_row(packed)
        if row.position != self._chain.place.position:
            self._end_run()
            self._chain.place = BatchBoundary(row.position, row.index, row.offset)
        head = self._read(row.position, HEADER_SIZE)
        sound = bytes(head) if len(head) == HEADER_SIZE and row_matches(packed, head) else None
        header = sound or (restore_header(packed, head) if len(head) == HEADER_SIZE else None)
        if header is None:
            self._end_run()
            self._chain.add_problem(
                self._chain.base, self._chain.place, "the batch that the journal names is not there"
            )
            self._chain.place = BatchBoundary(row.end, row.index + 1, row.offset)
            return
        self._begin_run(is_journaled=False)
        self._advance(row.length, read_header(header))

    def _advance(self, size: int, header: BatchHeader) -> None:
        """Move the end of the chain past one batch."""
        position, index, _ = self._chain.place
        self._chain.place = BatchBoundary(position + size, index + 1, header.next_offset)

    def _begin_run(self, *, is_journaled: bool) -> None:
        """Begin a sequence of batches from one source, unless one is open and has room for more bytes."""
        if self._run is not None and (self._run[1] != is_journaled or self._carried >= CARRIED_BYTES_MAX):
            self._end_run()
        if self._run is None:
            self._run = (self._chain.place, is_journaled)

    def _end_run(self) -> None:
        """Append the open sequence of batches as one piece."""
        if self._run is None:
            return
        (first, is_journaled), chain = self._run, self._chain
        carried = b"".join(self._bytes) if is_journaled and self._room.try_take(self._carried) else None
        chain.pieces.append(SegmentPiece(chain.base, first, chain.place, is_journaled=is_journaled, batches=carried))
        self._run, self._carried = None, 0
        self._bytes.clear()

    def _read(self, position: int, length: int) -> memoryview:
        """Read from the last file of the chain; return nothing if the file does not exist."""
        if self._file_base != self._chain.base:
            self._file_base = self._chain.base
            name = file_name(self._path, self._file_base)
            self._log = None
            if self._disk.exists(name):
                self._log = Window(self._files.enter_context(closing(self._disk.open(name, read_only=True))))
        return memoryview(b"") if self._log is None else self._log.read(position, length)


def journaled_batches(
    folded: FoldedGroup, fold: Fold, piece: SegmentPiece
) -> Iterator[tuple[BatchBoundary, memoryview]]:
    """Yield the batches of a journaled piece, each with its boundary.

    Raises `FormatError` for an entry of which the journal has only the index row, and `JournalDamaged`."""
    place = piece.first
    for entry in journal_entries(folded, fold, place.index):
        if entry.index >= piece.last.index:
            return
        if entry.batch is None:
            raise FormatError(
                f"entry {entry.index} of {folded.group.hex()} is missing in the journal by now; read again"
            )
        yield place, entry.batch
        following = read_header(entry.batch).next_offset
        place = BatchBoundary(place.position + len(entry.batch), entry.index + 1, following)
