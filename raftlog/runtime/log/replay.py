"""Replay of the journal: it makes segments equal to the journal's entries after a checkpoint.

Small entries have their bytes in the journal: they are written at their places, over all that is there, even if the
same bytes seem to be there already (after a sync that failed the page cache may show bytes that the disk never got). Of
a large append the journal has index rows: its bytes must be in the segment. A bad entry keeps its place by its row, so
that the right bytes can be written there. A roll begins the next file. Nothing is synced and nothing is cut here.

    entries are taken in order of index,   each at the position and offset at which the one before ends"""

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from raftlog.errors import FormatError, InvalidBatch
from raftlog.records import HEADER_SIZE, ControlKind, read_control, read_header
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.log.control_entries import is_control
from raftlog.storage.adoption import Damage, build_damage
from raftlog.storage.disk import Disk
from raftlog.storage.readable_log import ReadableLog
from raftlog.storage.roll import decode_roll
from raftlog.storage.rows import ROW_SIZE, Row, restore_header, unpack_row
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import LOG_SUFFIX, create_segment_files, open_segment_files, segment_stem
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS
from raftlog.types import Buffer, Index, Offset, Term

_WRITE_BYTES = 4 << 20


class JournalEntry(NamedTuple):
    """Entry in the journal: with its bytes or, if it belongs to a large append, with its index row."""

    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    term: Term
    offset: Offset
    batch: memoryview | None
    row: bytes = b""

    @property
    def is_roll(self) -> bool:
        """Whether the entry begins a segment.

        Raises `FormatError` for a control batch that this version cannot read."""
        if self.batch is None:
            return unpack_row(self.row).position == 0
        return _read_control_kind(self.index, self.batch) is ControlKind.ROLL


def journal_entries(folded: FoldedGroup, fold: Fold, first: int = 0) -> Iterator[JournalEntry]:
    """Yield the entries after the checkpoint, from index `first` on. Raises `JournalDamaged`."""
    for extent in folded.extents():
        if extent.last < first:
            continue
        if extent.is_ids:
            packed = fold.read_rows(extent)
            for at in range(0, len(packed), ROW_SIZE):
                row = unpack_row(packed[at : at + ROW_SIZE])
                if row.index >= first:
                    yield JournalEntry(
                        Index(row.index), Term(row.term), Offset(row.offset), None, packed[at : at + ROW_SIZE]
                    )
        else:
            for index, batch in enumerate(fold.read_batches(extent), start=extent.first):
                if index >= first:
                    header = read_header(batch)
                    yield JournalEntry(Index(index), Term(header.leader_epoch), Offset(header.base_offset), batch)


def last_term(folded: FoldedGroup, fold: Fold | None) -> Term | None:
    """Return the term of the journal's last entry after the checkpoint; None without any."""
    last = None
    for extent in folded.extents():
        last = extent
    if last is None or fold is None:
        return None
    if last.is_ids:
        return Term(unpack_row(fold.read_rows(last)[-ROW_SIZE:]).term)
    return Term(read_header(fold.read_batches(last)[-1]).leader_epoch)


def find_first_roll(
    entries: Iterable[JournalEntry], log_start: int, commit_hint: int, held: Container[int], *, is_begun: bool
) -> JournalEntry | None:
    """Return the first roll of a log that was trimmed beyond the end of its checkpoint; None if there is none.

    `held` are the base offsets of the existing files; with `is_begun` the log that the checkpoint synced exists too. A
    roll below the log start is committed. A roll exactly at the log start may be uncommitted, and can still be cut:
    then the entries before it were not deleted, and are in a file, or in the journal with their bytes."""
    certain = possible = None
    is_removed = not is_begun
    for entry in entries:
        if entry.offset > log_start:
            break
        if not entry.is_roll:
            is_removed = is_removed or (entry.batch is None and certain is not None and certain.offset not in held)
        elif entry.offset < log_start or entry.index <= commit_hint:
            certain, possible, is_removed = entry, None, entry.batch is None and entry.offset not in held
        else:
            possible = entry
    return possible if possible is not None and is_removed else certain


class Replay:
    """Replay of the journal's entries into the given segments, and into new ones that rolls begin."""

    def __init__(self, disk: Disk, path: str, segments: list[Segment]) -> None:
        """Prepare to append the journaled entries to `segments`, the segments in the directory `path`."""
        self.segments = segments
        self.damage: list[Damage] = []
        self.configuration_index = Index(0)
        """Latest configuration entry that was replayed."""
        self.unwritten: list[Buffer] = []
        """Batches that a full disk refused; they follow the last entry of the segments."""
        self._disk = disk
        self._path = path
        self._waiting_bytes = 0
        self._full: OSError | None = None

    def run(self, entries: Iterable[JournalEntry]) -> str | None:
        """Replay all entries; return the reason if the log ends before one of them, else None. Raises `OSError`."""
        before: JournalEntry | None = None
        reason = None
        for entry in entries:
            if before and (reason := self._replay_entry(before, entry.offset)):
                break
            before = entry
        if before and reason is None:
            reason = self._replay_entry(before, None)
        self._write()
        return reason

    @property
    def full_error(self) -> OSError | None:
        """Error of the full disk that refused the unwritten entries; None without any."""
        return self._full

    def _replay_entry(self, entry: JournalEntry, next_offset: Offset | None) -> str | None:
        """Append a journal entry, or hold it if the disk is full; return the reason if it cannot follow."""
        if self._full is None and (reason := self._place(entry)):
            return reason
        if self._full is not None:
            self._hold(entry)
        elif entry.batch is None:
            return self._take_row(entry.row, next_offset)
        else:
            self._take_batch(entry, entry.batch)
        return None

    def _hold(self, entry: JournalEntry) -> None:
        """Hold an entry in memory while the disk is full, as before the restart.

        Raises the error of the full disk for an entry whose batch is not in the journal."""
        assert self._full is not None, "held without a full disk"
        if entry.batch is None:
            raise self._full
        self.unwritten.append(entry.batch)

    def _place(self, entry: JournalEntry) -> str | None:
        """Check that the entry is the next one, and begin its file if it is a roll.

        Returns None, or the reason if it is not the next one."""
        segment = self.segments[-1] if self.segments else None
        is_roll = entry.is_roll
        if segment is None:
            if not is_roll:
                return f"entry {entry.index} is the first one and no roll"
        elif (entry.index, entry.offset) != (segment.next_index, segment.next_offset):
            return (
                f"the journal continues with entry {entry.index} at offset {entry.offset}, "
                f"where {segment.next_index} at offset {segment.next_offset} follows"
            )
        if is_roll:
            if segment:
                self._write()
                segment.times.close(segment.rows - 1)
            if self._full is None:
                self._begin_segment(entry)
        return None

    def _begin_segment(self, entry: JournalEntry) -> None:
        """Open the file of a segment, or create it; index rows from before the restart are removed."""
        name = f"{self._path}/{segment_stem(entry.offset)}{LOG_SUFFIX}"
        open_files = open_segment_files if self._disk.exists(name) else create_segment_files
        try:
            files = open_files(self._disk, self._path, entry.offset)
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise
            self._full = error
            return
        segment = Segment(entry.offset, entry.index, files)
        segment.index_changes.count()
        files.index.truncate(0)
        segment.times.restart()
        self.segments.append(segment)

    # entries with their bytes

    def _take_batch(self, entry: JournalEntry, batch: memoryview) -> None:
        """Append an entry with its bytes to the newest segment; write when enough bytes are pending."""
        self._adopt_control(entry.index, batch)
        self.segments[-1].append(batch, read_header(batch), entry.offset, entry.term)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        """Write pending entries to the newest segment; if the disk is full, keep them in `unwritten`."""
        self._waiting_bytes = 0
        if not self.segments or self._full:
            return
        segment = self.segments[-1]
        try:
            segment.write()
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise
            self._full = error
            self.unwritten = segment.remove_unwritten()
            if not segment.rows:
                self.segments.pop().close()

    # entries of large appends

    def _take_row(self, packed: bytes, next_offset: Offset | None) -> str | None:
        """Adopt an entry of a large append from the segment; return None, or the reason if it is not there."""
        self._write()
        if self._full is not None:
            raise self._full
        segment = self.segments[-1]
        row = unpack_row(packed)
        if row.position != segment.end_position:
            return f"the journal has entry {row.index} at position {row.position}, where {segment.end_position} follows"
        batch = memoryview(segment.files.log.read(row.position, row.length))
        reason = ReadableLog.batch_error(packed, row, batch)
        if reason is None:
            self._adopt_control(Index(row.index), batch)
            segment.adopt_scanned(batch, read_header(batch))
            return None
        next_known = _offset_after(packed, row, batch, next_offset)
        if next_known is None:
            return f"{reason}, and the offset after it is not known"
        self.damage.append(build_damage(segment.files.log, row, reason))
        segment.adopt_by_row(packed, next_known)
        return None

    def _adopt_control(self, index: Index, batch: memoryview) -> None:
        """Record the index of a configuration entry, or copy the fields of a roll to its segment."""
        kind = _read_control_kind(index, batch)
        if kind is ControlKind.CONFIGURATION:
            self.configuration_index = index
        elif kind is ControlKind.ROLL:
            roll = decode_roll(read_control(batch)[1])
            self.segments[-1].created_ms, self.segments[-1].compacted_to = roll.created_ms, roll.compacted_to


def _read_control_kind(index: Index, batch: memoryview) -> ControlKind | None:
    """Return the kind of a control batch, None for data; raises `FormatError`."""
    if not is_control(batch):
        return None
    try:
        return read_control(batch)[0]
    except InvalidBatch as error:
        raise FormatError(f"entry {index} cannot be read: {error}") from None


def _offset_after(packed: bytes, row: Row, batch: memoryview, next_offset: Offset | None) -> int | None:
    """Return the offset that follows a damaged entry; None when it is not known."""
    if row.position == 0:
        return row.offset  # a roll takes none
    if next_offset is not None:
        return next_offset
    restored = restore_header(packed, batch) if len(batch) >= HEADER_SIZE else None
    return read_header(restored).next_offset if restored else None
