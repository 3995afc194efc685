"""Segments that a checkpoint synced, taken over when their group is recovered: up to `keep_to`, in order.

The first file follows from the log start, the last one from the checkpoint; between them each file begins at the end of
the one before. Files are opened, checked at their ends, and left as they are. Leftovers of a cut or a trim are
recognized by the index with which a file begins. Called by `group_recovery`."""

from functools import partial

from raftlog.raft.entry import TERM_MAX
from raftlog.runtime.journal.fold import FoldedGroup
from raftlog.runtime.log.group_files import GroupFiles
from raftlog.storage.adoption import Adoption, AdoptionResult, Damage, Start, build_damage
from raftlog.storage.disk import Disk
from raftlog.storage.recovery import read_roll
from raftlog.storage.rows import ROW_SIZE, unpack_row
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import open_segment_files
from raftlog.types import Index, Offset, Term


class SyncedSegments:
    """Segments of one Raft group that the last checkpoint synced; `adopt` is called once."""

    def __init__(self, disk: Disk, path: str, folded: FoldedGroup, files: GroupFiles) -> None:
        """Prepare to open the segments that the checkpoint of `folded` has synced."""
        self.segments: list[Segment] = []
        self.damage: list[Damage] = []
        """Entries that are damaged and keep their place."""
        self.pending: AdoptionResult | None = None
        """Adoption whose entry `keep_to` is damaged, while the offset after it is not known yet."""
        self.broken: tuple[Offset, str] | None = None
        """File in which the chain ends before `keep_to`, and the reason."""
        self._disk = disk
        self._path = path
        self._folded = folded
        self._files = files

    def adopt(self) -> None:
        """Open and check the segments up to the one with entry `keep_to`; set `broken` if the chain ends before."""
        if self._folded.keep_to == 0:
            return
        base = self._find_first_base()
        if base is None:
            reason = "the file with the log start is missing, or its first entry cannot be read"
            self.broken = (self._folded.log_start_offset, reason)
        while base is not None:
            base = self._adopt_one(base)

    def forget(self) -> None:
        """Close and drop all segments, because they lie below the log start."""
        for segment in self.segments:
            segment.close()
        self.segments.clear()
        self.damage.clear()
        self.pending = self.broken = None

    def _adopt_one(self, base: Offset) -> Offset | None:
        """Open and check one file; return the base offset of the next one, None without one."""
        before = self.segments[-1] if self.segments else None
        index = before.next_index if before else self._read_base_index(base)
        assert index is not None, f"{self._path}: the first index of segment {base} is not known"
        segment = Segment(base, index, open_segment_files(self._disk, self._path, base))
        self.segments.append(segment)
        adopted = self._adopt_rows(segment)
        if adopted.pending:
            self.pending = adopted
        elif adopted.broken:
            self.broken = (base, adopted.broken)
        elif segment.next_index <= self._folded.keep_to:
            return self._next_base(segment)
        return None

    def _next_base(self, segment: Segment) -> Offset | None:
        """Return the base offset of the file after `segment`; None, with `broken` set, if there is none."""
        base = Offset(segment.next_offset)
        if base == segment.base_offset:
            self.broken = (base, "it was closed, and holds no offset")
        elif base not in self._files.bases:
            self.broken = (base, "the file is missing")
        return None if self.broken else base

    def _adopt_rows(self, segment: Segment) -> AdoptionResult:
        """Adopt the rows of one segment up to `keep_to`, after a check of its roll."""
        end, keep_to = self._folded.end, self._folded.keep_to
        assert end is not None, f"{self._path}: entries up to {keep_to} without a last one"
        holds_end = end.segment == segment.base_offset and keep_to == end.id.index
        roll = read_roll(segment)
        if roll and roll.base_index != segment.base_index:
            return AdoptionResult(f"it begins at index {roll.base_index}, where {segment.base_index} follows")
        segment.created_ms = roll.created_ms if roll else 0
        segment.compacted_to = roll.compacted_to if roll else self._estimate_compaction(segment)
        found: list[Damage] = []
        adopted = Adoption(
            segment,
            keep_to,
            end_row=end.row if holds_end else None,
            following=partial(self._find_next_start, segment.base_offset),
            term_min=self._term_before(),
            term_max=Term(end.id.term),
            damage=found,
        ).run()
        if roll is None and segment.rows and all(each.index != segment.base_index for each in found):
            found.append(build_damage(segment.files.log, segment.row(0), "the roll cannot be read"))
        self.damage += found
        return adopted

    def _estimate_compaction(self, segment: Segment) -> int:
        """Estimate the compaction mark in a damaged roll, only to decide whether this segment has gaps."""
        start, rows = self._find_next_start(segment.base_offset), segment.files.index.size() // ROW_SIZE
        is_compacted = start is not None and rows < start.index - segment.base_index
        return start.offset if start is not None and is_compacted else -1

    def _term_before(self) -> Term:
        """Return the term of the entry before the last file."""
        if len(self.segments) < 2 or self.segments[-2].rows == 0:
            return Term(0)
        before = self.segments[-2]
        return Term(before.row(before.rows - 1).term)

    # the first file

    def _find_first_base(self) -> Offset | None:
        """Return the base offset of the last file at or below the log start that is no newer than `keep_to`.

        The file's roll is committed. A newer file at or below the log start holds entries that were cut, and whose
        offsets were assigned again. If the log starts exactly at a roll, only the commit hint shows that the roll is
        committed. Without that it can still be cut, so the file before is returned if it is complete."""
        start, keep_to = self._folded.log_start_offset, self._folded.keep_to
        for base in reversed([base for base in self._files.bases if base <= start]):
            index = self._read_base_index(base)
            if index is None or index > keep_to:
                continue
            before = self._files.base_before(base)
            may_be_cut = base == start and index > max(1, self._folded.commit_hint)
            return before if before is not None and may_be_cut and self._leads_to(before, index, base) else base
        return None

    def _leads_to(self, base: Offset, next_index: Index, next_offset: Offset) -> bool:
        """Return whether a file is complete and ends where the one at `next_index` and `next_offset` begins."""
        index = self._read_base_index(base)
        if index is None or index >= next_index:
            return False
        segment = Segment(base, index, open_segment_files(self._disk, self._path, base))
        try:
            adopted = Adoption(
                segment,
                Index(next_index - 1),
                end_row=None,
                following=lambda: Start(next_index, next_offset),
                term_min=Term(0),
                term_max=TERM_MAX,
                damage=[],
            ).run()
            is_complete = adopted.broken is None and adopted.pending is None
            return is_complete and (segment.next_index, segment.next_offset) == (next_index, next_offset)
        finally:
            segment.close()

    def _find_next_start(self, base: int) -> Start | None:
        """Return the start of the next file; None without one.

        It is right even if that file holds cut entries: the cut changed no entry before the file."""
        following = self._files.base_after(base)
        index = None if following is None else self._read_base_index(following)
        return Start(index, following) if following is not None and index is not None else None

    def _read_base_index(self, base: Offset) -> Index | None:
        """Return the index with which a file begins, from its roll, or else from its first row."""
        if base == 0:
            return Index(1)  # no segment without an offset is rolled
        segment = Segment(base, 0, open_segment_files(self._disk, self._path, base))
        try:
            if roll := read_roll(segment):
                return Index(roll.base_index)
            packed = segment.files.index.read(0, ROW_SIZE)
            row = unpack_row(packed) if len(packed) == ROW_SIZE else None
            return Index(row.index) if row and (row.position, row.offset) == (0, base) else None
        finally:
            segment.close()
