"""Recovery of one group's directory: made equal to the journal's fold, when a process starts (design section 3).

    segments below the log start            deleted: left over from a trim that is durable
    entries up to `keep_to`                 adopted as the checkpoint synced them, without reading their bytes
    entries after it                        written from the journal, or compared with their index rows
    bytes and files after the last entry    cut off and deleted: they were never promised

All of it can be repeated: after a crash in the middle the journal is still the same. Nothing is synced but data that is
set aside; every file that was touched counts as changed for the next checkpoint, so the journal may not be recycled
before.

A damaged entry whose row is known keeps its place, to be repaired from another replica. When neither the entry nor the
offset after it is known, the log ends before it: `lost_from`. Then the id that the log ended with is the voting
position, the rest is set aside in `.raftlog/damaged/`, and the caller journals both (a cut, the voting position)
before it appends anything: otherwise the journal would name entries twice."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from raftlog.raft import EntryId
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.log.group_files import GroupFiles
from raftlog.runtime.log.replay import JournalEntry, Replay, find_first_roll, journal_entries, last_term
from raftlog.runtime.log.synced_segments import SyncedSegments
from raftlog.storage.adoption import AdoptionResult, Damage, build_damage
from raftlog.storage.disk import Disk
from raftlog.storage.rows import unpack_row
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import LOG_SUFFIX, segment_stem
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Buffer, Index, Offset, Position, Term


class RecoveredGroup(NamedTuple):
    """Recovered log of one replica. All of it is durable, by the checkpoint or by the journal."""

    log: SegmentedLog
    damage: tuple[Damage, ...]
    """Entries that were found damaged; also the first one that was lost, with its reason."""
    lost_from: Index | None
    """First of the entries that were lost: the log now ends before it."""
    voting_position: EntryId | None
    """Id that the log ended with; set with `lost_from`."""
    configuration_index: Index | None
    """The latest configuration entry in the log, 0 when only a roll has it; `None` when that is not known."""
    unwritten: tuple[Buffer, ...]
    """Batches after the log's last entry that a full disk refused; the caller holds them in memory."""


def recover_group(disk: Disk, path: str, folded: FoldedGroup, fold: Fold | None) -> RecoveredGroup:
    """Open the segments in `path` and make them equal to the state that was replayed from the journal.

    `fold` may be None when the journal has no entry after `keep_to`. Raises `OSError`, `JournalDamaged` and
    `FormatError`."""
    recovery = GroupRecovery(disk, path, folded, fold)
    try:
        return recovery.run()
    except BaseException:
        for segment in recovery.segments:
            segment.close()
        raise


class GroupRecovery:
    """Recovery of one replica's directory; `run` is called once."""

    def __init__(self, disk: Disk, path: str, folded: FoldedGroup, fold: Fold | None) -> None:
        """Prepare to make the files at `path` equal to `folded`, the journal's state of the Raft group."""
        self._disk = disk
        self._path = path
        self._folded = folded
        self._fold = fold
        self._files = GroupFiles(disk, path)
        self._synced = SyncedSegments(disk, path, folded, self._files)
        self.segments = self._synced.segments
        """All open segments; those of the checkpoint first."""
        self._damage: list[Damage] = []
        self._lost: Damage | None = None

    def run(self) -> RecoveredGroup:
        """Recover the directory; blocking. Raises like `recover_group`."""
        self._synced.adopt()
        start = self._find_start_after_checkpoint()
        if start is not None:
            self._synced.forget()
        self._damage += self._synced.damage
        self._remove_leftovers(start)
        replay = Replay(self._disk, self._path, self.segments)
        if self._synced.broken:
            self._end_log(*self._synced.broken)
        else:
            self._replay(replay, self._read_journal(start.index if start else self._folded.keep_to + 1))
        return self._finish(replay)

    def _find_start_after_checkpoint(self) -> JournalEntry | None:
        """Return the journal entry of the roll that began the first segment after the checkpoint.

        Return None unless everything that the checkpoint synced lies below the log start offset, and so was trimmed."""
        start = self._folded.log_start_offset
        is_held = bool(self.segments) and self._synced.broken is None
        if start == 0 or (is_held and start < self.segments[-1].next_offset):
            return None
        held = self._files.bases
        return find_first_roll(self._read_journal(0), start, self._folded.commit_hint, held, is_begun=is_held)

    def _remove_leftovers(self, start: JournalEntry | None) -> None:
        """Delete the files before the first segment, whose records are all below the log start."""
        first = start.offset if start else self.segments[0].base_offset if self.segments else 0
        for base in [base for base in self._files.bases if base < first]:
            self._files.remove(base)

    # replay

    def _read_journal(self, first: int) -> Iterator[JournalEntry]:
        """Return the group's entries in the journal, from index `first` on."""
        if self._fold is None:
            return iter(())
        return journal_entries(self._folded, self._fold, first)

    def _replay(self, replay: Replay, entries: Iterator[JournalEntry]) -> None:
        """Apply the journal's entries to the segments; record damage, and the end of the log if entries are lost."""
        if self._synced.pending:
            entries = self._settle_pending(self._synced.pending, entries)
            if self._lost:
                return
        reason = replay.run(entries)
        self._damage += replay.damage
        if reason:
            self._end_log(Offset(self.segments[-1].base_offset if self.segments else 0), reason)

    def _settle_pending(self, pending: AdoptionResult, entries: Iterator[JournalEntry]) -> Iterator[JournalEntry]:
        """Adopt a damaged entry of a large append, once the entry after it shows where its offsets end."""
        following = next(entries, None)
        segment = self.segments[-1]
        assert pending.pending is not None, f"{pending} has no row"
        row, reason = unpack_row(pending.pending), pending.broken or ""
        if following is None or following.offset < row.offset:
            self._end_log(Offset(segment.base_offset), f"{reason}, and the offset after it is not known")
            return entries
        segment.adopt_by_row(pending.pending, following.offset)
        self._damage.append(build_damage(segment.files.log, row, reason))
        return chain([following], entries)

    # the end

    def _end_log(self, base: Offset, reason: str) -> None:
        """Record that all entries after the last adopted one are lost; `base` is the file in which they began."""
        segment = self.segments[-1] if self.segments else None
        position = segment.end_position if segment and segment.base_offset == base else 0
        offset = segment.next_offset if segment else base
        index = segment.next_index if segment else 1
        file = f"{self._path}/{segment_stem(base)}{LOG_SUFFIX}"
        self._lost = Damage(file, Position(position), Offset(offset), Index(index), None, reason)

    def _finish(self, replay: Replay) -> RecoveredGroup:
        """Return the recovered log with its damage, after removing files that do not belong to it."""
        if self.segments and not self.segments[-1].rows:
            self.segments.pop().close()
        if replay.full_error and not self.segments and self._folded.log_start_offset:
            raise replay.full_error  # the first index of the log would be unknown
        if self._lost:
            self._damage.append(self._lost)
        self._tidy_files()
        log = self._build_log()
        return RecoveredGroup(
            log,
            tuple(self._damage),
            Index(log.last_index + 1) if self._lost else None,
            self._find_voting_position() if self._lost else None,
            self._configuration_index(log, replay),
            tuple(replay.unwritten),
        )

    def _build_log(self) -> SegmentedLog:
        """Return the log over the open segments; all of it counts as durable."""
        start = Offset(0)
        if self.segments:  # a log that lost its tail can end below its start
            first, last = self.segments[0], self.segments[-1]
            start = min(max(self._folded.log_start_offset, Offset(first.base_offset)), Offset(last.next_offset))
        log = SegmentedLog(self._disk, self._path, tuple(self.segments), start)
        if self._files.is_changed or any(map(self._is_touched, self.segments)):
            log.directory_changes.count()
        log.mark_durable(log.last_index, publish=False)
        return log

    def _is_touched(self, segment: Segment) -> bool:
        """Return whether the segment may differ from the state that the checkpoint synced."""
        keep_to, end = self._folded.keep_to, self._folded.end
        is_cut = end is None or keep_to < end.id.index
        return segment.next_index > keep_to + 1 or (is_cut and segment.next_index > keep_to)

    def _find_voting_position(self) -> EntryId:
        """Return the id of the last entry that the log had; if its term is unknown, with a term that is not lower."""
        folded = self._folded
        term = last_term(folded, self._fold)
        if term is None and self.segments and self.segments[-1].next_index > folded.keep_to:
            term = Term(self.segments[-1].row(self.segments[-1].number_of(folded.keep_to)).term)
        if term is None:
            assert folded.end is not None, f"{self._path}: nothing was there to be lost"
            term = Term(folded.end.id.term)
        return EntryId(folded.last_index, term)

    def _configuration_index(self, log: SegmentedLog, replay: Replay) -> Index | None:
        """Return the index of the latest configuration entry; None if unknown, or if the entry is lost."""
        known = replay.configuration_index or self._folded.configuration_index
        if known is None or known > log.last_index:
            return None
        may_be_later = any(each.index > known for each in replay.damage)  # the journal has only rows of these
        return None if may_be_later else known

    def _tidy_files(self) -> None:
        """Cut files after their last entry, and delete those without entries."""
        for segment in self.segments:
            is_last = segment is self.segments[-1]
            if self._lost and is_last:
                self._files.keep_tail(segment)
            self._files.cut(segment)
            if self._is_touched(segment):
                for changes in (segment.log_changes, segment.index_changes, segment.times.changes):
                    changes.count()
        used = [segment.base_offset for segment in self.segments]
        for base in reversed([base for base in self._files.bases if base not in used]):
            if self._lost:
                self._files.keep_file(base)
            else:
                self._files.remove(base)
        self._files.remove_orphans()
