"""Log over segments: append, cut, trim. It has index, term, offset and position, and does not depend on Raft.

    log start offset ≤ durable offset ≤ next offset,   durable index ≤ last index

The caller decides when to write, sync, roll, cut or delete: a lone log by its settings, a replica by the commits of its
Raft group. A lone log publishes rows as soon as their batches are durable; a replica's rows wait in memory, because its
journal records durability, and are published at a checkpoint. Not thread-safe except for reads (`readable_log`)."""

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.errors import CorruptBatch, NotAtBatchBorder, OffsetOutOfRange, SyncFailed
from raftlog.records import HEADER_SIZE, BatchHeader, ControlKind, build_control_batch, read_header, stamp
from raftlog.storage.changes import ChangedFiles, Changes, list_changed_files
from raftlog.storage.disk import Disk, File
from raftlog.storage.readable_log import ReadableLog
from raftlog.storage.roll import Roll, encode_roll
from raftlog.storage.rows import Row, pack_row, unpack_row
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import (
    SUFFIXES,
    create_segment_files,
    open_segment_files,
    place_segment_files,
    segment_stem,
)
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS
from raftlog.types import Buffer, Index, Offset, Term


class SyncTargets(NamedTuple):
    """Files and directories to sync, so that all written batches are durable."""

    files: list[File]
    directories: list[str]


class SegmentedLog(ReadableLog):
    """Segments of one directory, and all changes to them.

    A log without a segment gets its first one with the first roll."""

    def __init__(self, disk: Disk, path: str, segments: tuple[Segment, ...], log_start_offset: Offset) -> None:
        """Wrap the open segments of a log, in order."""
        super().__init__(disk, path, segments, log_start_offset)
        self.directory_changes = Changes()
        """Changes of names in the directory."""
        self._dirty = _select_with_waiting_rows(segments)
        """Segments with batches that are not durable or rows that are not published, oldest first."""
        self._directory_dirty = False
        """Whether a file was created since the last complete flush."""
        self._row_of_cut: Row | None = None
        """First removed row of a cut that an `OSError` interrupted: it may not be in the file any more."""

    # appending

    def append(self, batch: Buffer, header: BatchHeader, term: Term) -> None:
        """Stamp the batch with the next offset and `term`, and append it; a read-only buffer is copied first."""
        offset = self.active.next_offset
        if type(batch) is bytes or (type(batch) is memoryview and batch.readonly):
            batch = bytearray(batch)
        stamp(batch, offset, term)  # type: ignore[arg-type]
        self._append_to_active(batch, header, offset, term)

    def append_stamped(self, batch: Buffer, header: BatchHeader) -> None:
        """Append a batch that is stamped with the next offset and its term; `header` is its header."""
        offset = self.active.next_offset
        assert header.base_offset == offset, f"a batch at offset {header.base_offset} where {offset} follows"
        if self.active.is_compacted:  # copied from a compacted log
            self.active.append_compacted(batch, header)
            self._add_dirty(self.active)
        else:
            self._append_to_active(batch, header, offset, header.leader_epoch)

    def append_roll(self, roll: Roll, term: Term) -> None:
        """Close the active segment and begin a new one with `roll`; the old one holds at least one offset."""
        offset = self.next_offset
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), roll.created_ms, next_offset=offset)
        stamp(batch, offset, term)
        self.begin_segment(batch, read_header(batch), roll, term)

    def begin_segment(self, batch: Buffer, header: BatchHeader, roll: Roll, term: Term) -> None:
        """Close the active segment, if there is one, and begin a new one with a roll that is stamped already.

        The old one holds at least one offset. Raises `OSError` when the files cannot be created; then nothing changed.
        """
        offset = self.next_offset
        active = self.active if self.segments else None
        assert header.base_offset == offset, f"a roll at offset {header.base_offset} where {offset} follows"
        assert header.leader_epoch == term, f"a roll stamped with epoch {header.leader_epoch} in term {term}"
        assert active is None or active.base_offset < offset, f"segment {active.base_offset} holds no offset"
        assert active is None or roll.base_index == active.next_index, (
            f"roll at index {roll.base_index} ≠ {active.next_index}"
        )
        segment = Segment(offset, roll.base_index, create_segment_files(self.disk, self.path, offset))
        segment.created_ms, segment.compacted_to = roll.created_ms, roll.compacted_to
        if active:
            active.times.close(active.rows - 1)
            self._add_dirty(active)  # its last time entry is still to be written
        self._set_segments((*self.segments, segment))
        self._directory_dirty = True
        self.directory_changes.count()
        self._append_to_active(batch, header, offset, term)

    def _append_to_active(self, batch: Buffer, header: BatchHeader, offset: int, term: int) -> None:
        """Append a stamped batch to the active segment."""
        active = self.active
        active.append(batch, header, offset, term)
        self._add_dirty(active)

    def _add_dirty(self, active: Segment) -> None:
        """Add the active segment to those with unsynced batches or unpublished rows."""
        if not self._dirty or self._dirty[-1] is not active:
            self._dirty.append(active)

    def write(self) -> None:
        """Write all appended batches to the files; after an `OSError` the caller calls `roll_back` or stops."""
        for segment in self._dirty:
            segment.write()

    def roll_back(self, index: Index) -> None:
        """Remove all entries after `index`, the last written one, durably; called after a failed write."""
        assert self.durable_index <= index <= self.last_index
        while self.active.base_index > index:
            self._dirty = [segment for segment in self._dirty if segment is not self.active]
            self._drop_newest()
        self.active.roll_back(index + 1 - self.active.base_index)
        self.disk.sync([self.active.files.log], [self.path])

    # durable

    def sync_targets(self) -> SyncTargets:
        """Return the files and directories to sync, so that all written batches are durable."""
        files = [segment.files.log for segment in self._dirty]
        return SyncTargets(files, [self.path] if self._directory_dirty else [])

    def mark_durable(self, index: Index, *, publish: bool = True) -> None:
        """Make durable entries up to `index` visible to readers, and publish their rows.

        Without `publish` their durability is recorded elsewhere (in a replica's journal): rows stay in memory, and no
        file counts as synced."""
        assert index <= self.last_index, f"durable {index} > last {self.last_index}"
        if index > self.durable_index:
            self.durable_offset = self.offset_after(index)
            self.durable_index = index
        if publish:
            if index == self.last_index:
                self._directory_dirty = False
            self.publish_rows(index)

    def publish_rows(self, index: Index) -> None:
        """Write the rows up to `index` to the files.

        On a full disk they wait in memory for the next call; no lone log's checkpoint passes `published_index`."""
        try:
            while self._dirty:
                segment = self._dirty[0]
                segment.publish(min(index + 1 - segment.base_index, segment.rows))
                if segment.rows_published < segment.rows:
                    break
                self._dirty.pop(0)
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise

    @property
    def published_index(self) -> Index:
        """Highest index up to which all rows are written to `.index` files."""
        waiting = self._dirty[0] if self._dirty else None
        return Index(waiting.base_index + waiting.rows_published - 1) if waiting else self.last_index

    # syncs of a checkpoint

    def list_changes_since_checkpoint(self) -> ChangedFiles:
        """Return the files and directories that changed since their last reported sync, to sync at a checkpoint.

        The caller writes and publishes first, and reports the sync with `mark_synced`: changes that were made meanwhile
        count for the next checkpoint."""
        files = [
            pair
            for segment in self.segments
            for pair in (
                (segment.files.log, segment.log_changes),
                (segment.files.index, segment.index_changes),
                (segment.files.times, segment.times.changes),
            )
        ]
        return list_changed_files(files, self.path, self.directory_changes)

    def list_unsynced_files(self, first_index: Index, last_index: Index) -> ChangedFiles:
        """Return the files to sync so that these written entries are durable, and the directory if it changed."""
        files = [
            (segment.files.log, segment.log_changes)
            for segment in self.segments
            if segment.next_index > first_index and segment.base_index <= last_index
        ]
        return list_changed_files(files, self.path, self.directory_changes)

    @staticmethod
    def mark_synced(changed: ChangedFiles) -> None:
        """Record a successful sync of these files and directories that began after the listing."""
        changed.mark_synced()

    # cutting

    def check_cut(self, offset: int) -> None:
        """Raise `OffsetOutOfRange` or `NotAtBatchBorder` if the log cannot be cut at `offset`."""
        if not self.log_start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.next_offset)
        if offset == self.next_offset:
            return
        segment = self.segment_of_offset(offset)
        number = segment.find_row(offset)
        row = segment.row(number)
        if row.offset < offset:
            above = segment.row(number + 1).offset if number + 1 < segment.rows else segment.next_offset
            raise NotAtBatchBorder(offset, Offset(row.offset), Offset(above))

    def cut_target(self, offset: int) -> tuple[Segment, int]:
        """Return segment and row number for a cut at `offset`; a cut never leaves a segment without its roll."""
        segment = self.segment_of_offset(offset)
        number = segment.find_row(offset)
        while number > 0 and segment.row(number - 1).offset >= offset:
            number -= 1
        if number == 0 and len(self.segments) > 1 and segment is not self.segments[0]:
            segment = self.segments[self.segments.index(segment) - 1]
            return segment, segment.rows
        return segment, max(number, 1)

    def cut(self, segment: Segment, rows: int) -> None:
        """Remove the rows after the first `rows` of `segment`, and later segments, newest first; synced on return."""
        self.generation += 1
        try:
            while self.active is not segment:
                self._drop_newest()
                self.disk.sync([], [self.path])
            if rows < segment.rows:
                first = segment.cut_index(rows)
                self.disk.sync([segment.files.index])
                segment.cut_log(rows, first)
            self.disk.sync([segment.files.log], [self.path])
            self._settle_cut()
        finally:
            self.generation += 1

    def cut_to_index(self, index: Index) -> None:
        """Remove all entries after `index`; files of later segments are deleted, newest first.

        Nothing is synced: the caller's journal makes the truncation durable. Index 0 leaves no segment. Raises
        `CorruptBatch`, and changes nothing, if the end of entry `index` cannot be determined. After an `OSError` the
        same cut, or a deeper one, can be repeated."""
        first = self.segments[0].base_index if self.segments else 1
        assert index == 0 or first <= index, f"cut to index {index} below the first entry {first}"
        assert index <= self.last_index, f"cut to index {index} after the last entry {self.last_index}"
        kept = [segment for segment in self.segments if segment.base_index <= index]
        inside = kept and index < kept[-1].next_index - 1
        row = self._find_row_after(index) if inside else None
        self._row_of_cut = row
        self.generation += 1
        try:
            while len(self.segments) > len(kept):
                self._drop_newest()
            if row:
                self.active.cut_to(index + 1 - self.active.base_index, row)
            self._row_of_cut = None
            self._settle_cut()
        finally:
            self.generation += 1

    def _find_row_after(self, index: Index) -> Row:
        """Return the index row after entry `index`; if that is damaged, a substitute made from the end of the entry."""
        if self._row_of_cut and self._row_of_cut.index == index + 1:
            return self._row_of_cut
        try:
            return self.check_row_at(Index(index + 1))
        except CorruptBatch:
            ((row, batch),) = self.read_entries(index, index, 1)
            return row._replace(index=index + 1, offset=read_header(batch).next_offset, position=row.end, length=0)

    def _drop_newest(self) -> None:
        """Remove the active segment and delete its files."""
        newest = self.active
        self._set_segments(self.segments[:-1])
        self._unlink(newest)

    def _settle_cut(self) -> None:
        """Lower the durable index and offset to the end of the log after a cut."""
        self._dirty = _select_with_waiting_rows(self.segments)
        self.durable_index = min(self.durable_index, self.last_index)
        self.durable_offset = min(self.durable_offset, self.next_offset)

    # trimming

    def segments_below(self, offset: int) -> tuple[Segment, ...]:
        """Return closed segments wholly below `offset`, oldest first, if the roll after them is durable.

        A replica trims only up to committed rolls, so that the entry before its first entry can never be cut."""
        return tuple(
            segment
            for segment, newer in zip(self.segments, self.segments[1:], strict=False)
            if newer.base_offset <= offset and newer.base_index <= self.durable_index
        )

    def drop_below(self, offset: int) -> int:
        """Delete the files of `segments_below(offset)`; return the bytes freed. The new log start must be durable."""
        removed = self.segments_below(offset)
        self.generation += 1
        try:
            self._set_segments(self.segments[len(removed) :])
            self._dirty = [segment for segment in self._dirty if segment not in removed]
            for segment in removed:
                self._unlink(segment)
        finally:
            self.generation += 1
        return sum(segment.end_position for segment in removed)

    # compaction

    def replace_by_compacted(self, old: Sequence[Segment], staged: Segment) -> None:
        """Replace consecutive closed segments by a staged one, whose files are synced.

        The caller syncs the directory, then calls `unlink_replaced`. Raises `SyncFailed` if the files cannot be
        renamed: then only a new opening can continue."""
        at = self.segments.index(old[0])
        assert self.segments[at : at + len(old)] == tuple(old), "segments are not consecutive"
        assert old[-1] is not self.active, "the last segment is never compacted"
        assert staged.base_index == old[0].base_index, f"{staged.base_index} in place of {old[0].base_index}"
        assert (staged.next_index, staged.next_offset) == (old[-1].next_index, old[-1].next_offset), (
            f"it ends before entry {staged.next_index}, offset {staged.next_offset}, "
            f"and not before {old[-1].next_index}, {old[-1].next_offset}"
        )
        self.generation += 1
        try:
            for segment in (staged, *old):
                segment.close()
            place_segment_files(self.disk, self.path, staged.base_offset)
            placed = open_placed_segment(self.disk, self.path, staged)
        except OSError as error:
            raise SyncFailed(f"{self.path}: cannot replace segments by compacted files: {error}") from error
        self.directory_changes.count()
        self._set_segments((*self.segments[:at], placed, *self.segments[at + len(old) :]))
        self._dirty = [segment for segment in self._dirty if segment not in old]
        self.generation += 1

    def unlink_replaced(self, base_offset: int) -> None:
        """Delete the files of a segment whose entries are durable in the compacted segment before it."""
        assert all(segment.base_offset != base_offset for segment in self.segments), f"{base_offset} is in use"
        self._unlink_files(base_offset)

    def _unlink(self, segment: Segment) -> None:
        """Close a segment and delete its files."""
        segment.close()
        self._unlink_files(segment.base_offset)

    def _unlink_files(self, base_offset: int) -> None:
        """Delete the files of a segment, the `.log` last."""
        self.directory_changes.count()
        stem = f"{self.path}/{segment_stem(base_offset)}"
        for suffix in reversed(SUFFIXES):
            self.disk.unlink(stem + suffix)

    # repair

    def repair_batch(self, index: Index, batch: Buffer) -> None:
        """Replace a damaged batch by one fetched from another replica; not synced.

        Raises `CorruptBatch` when the batch does not match the index row, byte for byte; then nothing changed."""
        segment = self.segment_of_index(index)
        row = self.row_at(index)
        number = segment.number_of(index)
        reason = self.batch_error(segment.row_bytes(number, 1), row, batch)
        if len(batch) > row.length:
            reason = f"it has {len(batch)} bytes where {row.length} belong"
        if reason:
            raise self.corruption_error(segment, row, f"the fetched batch does not fit: {reason}")
        segment.write_again(number, batch)

    def rebuild_entry(self, index: Index, batch: Buffer) -> None:
        """Write a *committed* entry, fetched from the leader, in place of a row and a batch that cannot be trusted.

        The rows around it determine its position; nothing is synced. Raises `CorruptBatch` when the entry does not fit
        there; then nothing changed."""
        segment = self.segment_of_index(index)
        number = segment.number_of(index)
        before = segment.row(number - 1) if number else None
        after = segment.row(number + 1) if number + 1 < segment.rows else None
        position = before.end if before else 0
        header = read_header(batch)
        packed = pack_row(
            index, header.leader_epoch, header.base_offset, position, header, memoryview(batch)[:HEADER_SIZE]
        )
        row = unpack_row(packed)
        follows = (segment.end_position, segment.next_offset)
        if after is not None and after.index == index + 1:
            follows = (after.position, after.offset)
        is_confirmed = number + 1 == segment.rows or (after is not None and after.index == index + 1)
        reason = self.batch_error(packed, row, batch)
        if before is not None and before.index != index - 1:
            reason = "the row before it is damaged as well"
        elif header.base_offset < (before.offset if before else segment.base_offset) or row.end > segment.end_position:
            reason = "it does not fit after the entry before it"
        elif is_confirmed and (row.end, header.next_offset) != follows:
            reason = f"it ends at position {row.end}, offset {header.next_offset}, where {follows} follow"
        if reason:
            raise self.corruption_error(segment, row, f"the fetched entry does not fit: {reason}")
        segment.replace_row(number, packed)
        segment.write_again(number, batch)


def open_placed_segment(disk: Disk, path: str, staged: Segment) -> Segment:
    """Open a compacted segment under its final name, after its files were renamed."""
    segment = Segment(staged.base_offset, staged.base_index, open_segment_files(disk, path, staged.base_offset))
    segment.created_ms, segment.compacted_to = staged.created_ms, staged.compacted_to
    segment.adopt(
        rows=staged.rows,
        end_position=staged.end_position,
        next_offset=staged.next_offset,
        next_index=staged.next_index,
    )
    if not segment.times.adopt_last(staged.rows - 1):
        segment.rebuild_times()
    return segment


def _select_with_waiting_rows(segments: tuple[Segment, ...]) -> list[Segment]:
    """Return the segments with rows that are not in the index file yet."""
    return [segment for segment in segments if segment.rows_published < segment.rows]
