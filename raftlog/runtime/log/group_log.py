"""Group log: Raft's view of a segmented log, and the entries that are not in its files yet.

    boundary.index < first index,   written index ≤ last index,   recent holds every entry above written index

Raft appends and cuts in memory, at once; `write` writes the entries to the segments later. Until a cut is durable in
the journal nothing in the files may change, and on a full disk entries wait. So the newest entries are held in memory:
all that wait, and a bounded number of others, which are sent to followers without reads. Offsets and terms are stamped
here, when an entry is appended.

Not here: durability, commit and journal; they belong to the replica and the driver."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from raftlog.errors import CorruptBatch, DescriptorsExhausted
from raftlog.raft import Entry, EntryId, LogView
from raftlog.raft.log_view import prefix_within_bytes
from raftlog.records import BatchHeader, ControlKind, read_control, read_header, stamp
from raftlog.records.header import CONTROL_BIT, MARKER_BITS, base_offset_of
from raftlog.runtime.journal.operations import LogEnd
from raftlog.runtime.log.boundary import boundary_of, previous_entry_id
from raftlog.runtime.log.control_entries import (
    CompactionMark,
    TrimEntry,
    decode_compacted_to,
    decode_trim,
    entry_of,
    is_control,
)
from raftlog.runtime.log.producer_entries import ProducerEntries
from raftlog.storage.roll import decode_roll
from raftlog.storage.segment import Segment
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, descriptors_exhausted, lacks_descriptors
from raftlog.types import Index, Offset, Position, Term

NO_MARK: Final = CompactionMark(Offset(-1), Offset(-1))
_ROWS_WAITING_MAX: Final = 4096
_UNKNOWN_SIZE: Final = 1 << 62


class GroupLog(LogView):
    """Log of one replica, which is its only owner: stored segments, and entries that are not in the files yet."""

    def __init__(self, segments: SegmentedLog, recent_bytes_max: int) -> None:
        self._recent_bytes_max = recent_bytes_max
        self.producers = ProducerEntries()
        """Entries about idempotent producers that the replica has not taken yet."""
        self._adopt(segments)

    def _adopt(self, segments: SegmentedLog) -> None:
        """Make the segments the whole content of the log, without entries in memory."""
        self.segments = segments
        self.producers.clear()
        self._boundary = boundary_of(segments)
        self._last_index = max(segments.last_index, self._boundary.index)
        self.next_offset = segments.next_offset
        """Offset of the next record."""
        self._recent: list[Entry] = []
        """The newest entries, up to the last one."""
        self._recent_first = Index(self._last_index + 1)
        self._recent_bytes = 0
        self._end = self._end_of_files()
        """Last entry in the files, read before its row could be damaged there."""
        self._written: Index = self._last_index
        """Last entry whose bytes were written to a file."""
        self.unwritten_bytes = 0
        """Upper bound of the bytes of entries that are not in the files."""
        self.has_unwritten_control = False
        """Whether there may be control entries among the unwritten ones."""
        self.lacks_descriptors = False
        """Whether no file descriptor was left for the last write; updated by `write`."""
        self._cut_to: Index | None = None
        """Index above which a pending cut removes the entries in the files; their bytes must not be changed yet."""
        self._terms: list[tuple[Index, Term]] = [(self._last_index, self._read_term(self._last_index))]
        """First index of each term, from some index on; terms below are read from the index rows."""
        self.noted_from = Index(self._last_index + 1)
        """Index from which on trims and marks are noted; those below were in the files when the log was opened."""
        self.noted: deque[tuple[Index, TrimEntry | CompactionMark]] = deque()
        """Trims and marks with their index; the replica removes those that are delivered."""
        marks = (segment.compacted_to for segment in segments.segments)
        self.mark = NO_MARK._replace(compacted_to=Offset(max(marks, default=NO_MARK.compacted_to)))
        """Highest known committed compaction mark; after a restart it comes from the rolls. Never falls."""

    # interface of Raft

    @property
    def boundary(self) -> EntryId:
        return self._boundary

    @property
    def last_index(self) -> Index:
        return self._last_index

    def term_at(self, index: Index) -> Term:
        """Return the term of an entry.

        Raises `CorruptBatch` when the index row or header of an old entry is damaged, and `DescriptorsExhausted`."""
        assert self._boundary.index <= index <= self._last_index, (
            f"index {index} outside [{self._boundary.index}, {self._last_index}]"
        )
        runs = self._terms
        if index >= runs[-1][0]:
            return runs[-1][1]
        if index >= runs[0][0]:
            return runs[bisect_right(runs, index, key=itemgetter(0)) - 1][1]
        return self._read_term(index)

    def entries(self, first: Index, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        """Return entries from `first` on, within both limits and up to a damaged one.

        Raises `CorruptBatch` when the first of them is damaged, and `DescriptorsExhausted`."""
        start = first - self._recent_first
        if start >= 0:
            return prefix_within_bytes(self._recent[start : start + max_entries], max_bytes)
        last = Index(min(first + max_entries, self._recent_first) - 1)
        try:
            stored = self.segments.read_entries(first, last, max_bytes)
        except OSError as error:
            raise self._read_error(first, error) from None
        return [entry_of(Index(row.index), Term(row.term), batch) for row, batch in stored]

    # changing

    def append(self, entries: Sequence[Entry]) -> int:
        """Append entries after the last one, stamp those that this replica created; return their size in bytes."""
        assert entries[0].index == self._last_index + 1, f"entry {entries[0].index} after {self._last_index}"
        offset: int = self.next_offset
        size = 0
        for entry in entries:
            batch = entry.payload
            header = read_header(batch)
            if header.base_offset != offset or header.leader_epoch != entry.term:
                assert type(batch) is bytearray, (
                    f"entry {entry.index}@{entry.term} has offset {header.base_offset}, epoch {header.leader_epoch} "
                    f"where {offset} follows"
                )
                stamp(batch, Offset(offset), entry.term)
            if header.attributes & CONTROL_BIT:
                self.has_unwritten_control = True
                self._collect_control(entry, header, Offset(offset))
            elif header.producer_id >= 0:
                self.producers.add_batch(entry.index, Offset(offset), header)
            offset += header.last_offset_delta + 1
            size += len(batch)
            if entry.term != self._terms[-1][1]:
                self._terms.append((entry.index, entry.term))
        self._recent.extend(entries)
        self._recent_bytes += size
        self.unwritten_bytes += size
        self._last_index = entries[-1].index
        self.next_offset = Offset(offset)
        return size

    def _collect_control(self, entry: Entry, header: BatchHeader, offset: Offset) -> None:
        """Add a control entry to `producers`, or if it is a trim or a compaction mark to `noted`."""
        kind, payload = read_control(entry.payload, header)
        self.producers.add_control(entry.index, offset, header, kind, payload)
        if kind is ControlKind.TRIM:
            self.noted.append((entry.index, decode_trim(payload)))
        elif kind is ControlKind.COMPACTED_TO:
            self.noted.append((entry.index, decode_compacted_to(payload)))

    def cut_to(self, index: Index) -> bool:
        """Remove all entries above `index`; return whether some are in files, so that `settle_cut` must follow."""
        assert self._boundary.index <= index < self._last_index, f"cut to {index} of {self._last_index}"
        self.next_offset = self.offset_of(Index(index + 1))
        kept = max(0, index + 1 - self._recent_first)
        self._recent_bytes -= sum(len(entry.payload) for entry in self._recent[kept:])
        del self._recent[kept:]
        self._recent_first = Index(min(self._recent_first, index + 1))
        self._last_index = index
        while len(self._terms) > 1 and self._terms[-1][0] > index:
            self._terms.pop()
        if self._terms[0][0] > index:
            self._terms = [(index, self._read_term(index))]
        while self.noted and self.noted[-1][0] > index:
            self.noted.pop()
        self.producers.cut_to(index)
        self.noted_from = min(self.noted_from, Index(index + 1))
        if index < (self.segments.last_index if self._cut_to is None else self._cut_to):
            self._cut_to = index
        return self._cut_to is not None

    def settle_cut(self) -> None:
        """Carry out a pending cut in the files, once the cut is durable in the journal.

        Raises `CorruptBatch` when the new end is damaged, and `DescriptorsExhausted`; then the cut stays pending."""
        assert self._cut_to is not None, "no cut waits"
        try:
            if self._cut_to > self._boundary.index:
                self.segments.check_row_at(self._cut_to)
            self.segments.cut_to_index(self._cut_to)
        except OSError as error:
            if not lacks_descriptors(error):
                raise
            raise descriptors_exhausted(self.segments.path, error) from None
        self._end = self._end_of_files()
        self._written = min(self._written, self._cut_to)
        self._cut_to = None

    @property
    def is_cut_waiting(self) -> bool:
        return self._cut_to is not None

    @property
    def written_index(self) -> Index:
        """Index of the last entry in the files that a pending cut does not remove."""
        return self._written if self._cut_to is None else min(self._written, self._cut_to)

    def write(self) -> bool:
        """Write entries to the files, without a sync, unless a cut is pending; return False when it must be retried.

        Entries that a full disk or missing descriptors refused wait in memory for the next call. Raises `OSError` for
        other errors."""
        self.lacks_descriptors = False
        if self._cut_to is not None:
            return True
        try:
            for entry in self._recent[self.segments.last_index + 1 - self._recent_first :]:
                self._append_to_segments(entry)
            self.segments.write()
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise
            self.lacks_descriptors = lacks_descriptors(error)
            return False
        self.unwritten_bytes, self.has_unwritten_control = 0, False
        if self._written != self._last_index:
            self._written = self._last_index
            self._end = self._end_of_files()
        return True

    def _append_to_segments(self, entry: Entry) -> None:
        """Append an entry's batch to the segments; a roll begins a new segment."""
        batch = entry.payload
        header = read_header(batch)
        if is_control(batch):
            kind, payload = read_control(batch, header)
            if kind is ControlKind.ROLL:
                self.segments.begin_segment(batch, header, decode_roll(payload), entry.term)
                return
        self.segments.append_stamped(batch, header)

    def note_durable(self, index: Index) -> None:
        """Record that all entries up to `index` are durable, in the journal or in their segment."""
        segments = self.segments
        index = min(index, self.written_index)
        if index > segments.durable_index:
            waiting = segments.active.rows - segments.active.rows_published
            segments.mark_durable(index, publish=waiting > _ROWS_WAITING_MAX)

    def release(self, applied: Index) -> None:
        """Remove written entries up to `applied` from memory when the limit for recent entries is exceeded.

        Callers no longer wait for these entries."""
        if self._recent_bytes <= self._recent_bytes_max:
            return
        free = min(applied, self.written_index) + 1 - self._recent_first
        dropped = 0
        while dropped < free and self._recent_bytes > self._recent_bytes_max // 2:
            self._recent_bytes -= len(self._recent[dropped].payload)
            dropped += 1
        del self._recent[:dropped]
        self._recent_first = Index(self._recent_first + dropped)

    # reading

    def read(self, offset: int, max_bytes: int, end: Offset) -> list[memoryview]:
        """Return client batches and markers below `end`, from the one with `offset` on; at least one if there is any.

        Entries that are not in a file yet come from memory. Raises `OffsetOutOfRange`, `CorruptBatch`,
        `DescriptorsExhausted`."""
        written = self.offset_of(Index(self.written_index + 1))
        found: list[memoryview] = []
        if offset < written or offset > end:
            try:
                found = self.segments.read(offset, max_bytes, min(end, written))
            except OSError as error:
                path = self.segments.segment_of_offset(offset).files.log.path
                if lacks_descriptors(error):
                    raise descriptors_exhausted(path, error) from None
                raise CorruptBatch(path, Position(0), Offset(offset), f"it cannot be read: {error}") from None
            max_bytes -= sum(map(len, found))
            offset = (
                read_header(found[-1]).next_offset if found else max(offset, min(end, written))
            )  # otherwise only gaps
            if offset < written or max_bytes <= 0:
                return found
        for entry in self._recent[self.written_index + 1 - self._recent_first :]:
            header = read_header(entry.payload)
            if header.base_offset >= end or (found and len(entry.payload) > max_bytes):
                break
            if header.next_offset > offset and header.attributes & MARKER_BITS != CONTROL_BIT:
                found.append(memoryview(entry.payload))
                max_bytes -= len(entry.payload)
        return found

    def offset_of(self, index: Index) -> Offset:
        """Return the base offset of an entry, or of the next one to be appended."""
        if index > self._last_index:
            assert index == self._last_index + 1, f"index {index} after {self._last_index}"
            return self.next_offset
        at = index - self._recent_first
        if at >= 0:
            return base_offset_of(self._recent[at].payload)
        return Offset(self.segments.row_at(index).offset)

    def rows(self, first: Index, last: Index) -> bytes:
        """Return the index rows of written entries, for the journal's record of a large append."""
        assert last <= self.segments.last_index, f"entries {first} to {last}, written to {self.segments.last_index}"
        parts = []
        while first <= last:
            segment = self.segments.segment_of_index(first)
            count = min(last + 1, segment.next_index) - first
            parts.append(segment.row_bytes(first - segment.base_index, count))
            first = Index(first + count)
        return b"".join(parts)

    def size_of(self, first: Index, last: Index) -> int:
        """Return the size of these entries in the files; a very large number if the last one is not written yet."""
        segments = self.segments.segments
        if last > self.written_index:
            return _UNKNOWN_SIZE
        start = self.segments.row_at(first).position
        end = self.segments.row_at(last).end
        between = (each.end_position for each in segments if first < each.next_index <= last)
        return sum(between) + end - start

    def stored_bytes_from(self, first: Index) -> int:
        """Return the number of bytes in the files from entry `first` on; wrong if an index row is damaged.

        Raises `CorruptBatch` when the row of `first` cannot be read, and `DescriptorsExhausted`."""
        if first >= self._recent_first:
            return 0
        segment = self.segments.segment_of_index(first)
        try:
            position = segment.row(segment.number_of(first)).position
        except OSError as error:
            raise self._read_error(first, error) from None
        above = sum(each.end_position for each in self.segments.segments if each.base_index > segment.base_index)
        return max(0, segment.end_position - position) + above

    def end(self) -> LogEnd | None:
        """Return the last entry in the files and its position, for a checkpoint."""
        return self._end

    def _end_of_files(self) -> LogEnd | None:
        if not self.segments.segments:
            return None
        segment = self.segments.active
        return LogEnd(Offset(segment.base_offset), segment.row_bytes(segment.rows - 1, 1))

    def _read_term(self, index: Index) -> Term:
        """Return the term of a stored entry, or of the boundary. Raises `CorruptBatch` and `DescriptorsExhausted`."""
        if index == self._boundary.index:
            return self._boundary.term
        try:
            return Term(self.segments.check_row_at(index).term)
        except OSError as error:
            raise self._read_error(index, error) from None

    def _read_error(self, index: Index, error: OSError) -> CorruptBatch | DescriptorsExhausted:
        """Return the error for an entry that cannot be read.

        A read error counts as damage, a missing file descriptor does not."""
        path = self.segments.segment_of_index(index).files.log.path
        if lacks_descriptors(error):
            return descriptors_exhausted(path, error)
        return CorruptBatch(path, Position(0), Offset(-1), f"entry {index} cannot be read: {error}")

    # trimming

    def raise_log_start(self, offset: Offset) -> None:
        """Raise the log start to `offset`, which is durable in the journal; a lower one changes nothing."""
        segments = self.segments
        segments.log_start_offset = max(offset, segments.log_start_offset)

    def trim(self, offset: int) -> None:
        """Delete the segments below `offset`, a segment's base; the log start is at or above it, durably.

        Raises `CorruptBatch` and `DescriptorsExhausted`: nothing changed."""
        removed = self.segments.segments_below(offset)
        if not removed:
            return
        kept = self.segments.segments[len(removed)]
        boundary = self._boundary_before(kept)
        self.segments.drop_below(offset)
        self._raise_boundary(boundary)

    def _boundary_before(self, segment: Segment) -> EntryId:
        """Return the id of the last entry before the segment; at least the present boundary."""
        last = Index(segment.base_index - 1)
        if last <= self._boundary.index:
            return self._boundary
        try:
            return previous_entry_id(segment) or EntryId(last, self.term_at(last))
        except OSError as error:
            raise self._read_error(Index(segment.base_index), error) from None

    def _raise_boundary(self, boundary: EntryId) -> None:
        """Raise the boundary; entries up to it can no longer be read by index."""
        self._boundary = boundary
        dropped = max(0, min(boundary.index + 1 - self._recent_first, len(self._recent)))
        self._recent_bytes -= sum(len(entry.payload) for entry in self._recent[:dropped])
        del self._recent[:dropped]
        self._recent_first = Index(self._recent_first + dropped)

    def refresh_boundary(self) -> None:
        """Read the boundary again after the repair of all damage, because it may have been estimated."""
        self._read_boundary()

    def _read_boundary(self) -> None:
        found = boundary_of(self.segments)
        if found.index >= self._boundary.index:  # a compaction that is still under way can have raised it
            self._raise_boundary(found)

    # compaction

    def raise_mark(self, mark: CompactionMark) -> None:
        """Raise the compaction mark to a committed one; lower numbers change nothing."""
        self.mark = CompactionMark(*map(max, self.mark, mark))

    def segment_at(self, mark: int) -> Segment | None:
        """Return the segment that begins at offset `mark`, otherwise the last one below; None if no file lies below."""
        segments = self.segments.segments
        at = bisect_right(segments, mark, key=lambda segment: segment.base_offset) - 1
        return segments[at] if at > 0 else None

    def begin_compaction(self, segment: Segment) -> None:
        """Make entries below `segment` unavailable by index, before their files are replaced. Raises `CorruptBatch`."""
        self._raise_boundary(self._boundary_before(segment))

    def replace(self, segments: SegmentedLog) -> None:
        """Replace all segments by fetched ones of another log; the old ones are closed already."""
        segments.generation += self.segments.generation + 2  # a replica that copies the old one notices
        self._adopt(segments)

    def refill(self, segments: SegmentedLog) -> None:
        """Replace the files by a copy of the same log that was compacted differently; the old files are closed."""
        assert segments.last_index == self._last_index == self._written, f"{segments.last_index} ≠ {self._last_index}"
        segments.generation += self.segments.generation + 2
        self.segments = segments
        self._end = self._end_of_files()
        self._read_boundary()
