"""Compaction of a replica's closed segments: it keeps the newest record of each key below a committed mark.

    clean end ≤ mark:   below the clean end each key has one record;   files are rewritten from the oldest to the newest

It runs in parts of two passes: first an index of the newest offset of each key, from the clean end on, as far as it
fits into its memory limit; then every file below the end of that part is rewritten under a staged name, synced, and
renamed. Removed records leave gaps, so offsets and indexes stay. Small neighbours are merged into one file, whose first
roll stays and holds the offset up to which the file is compacted; by this offset recovery recognises a compacted file.
A tombstone is removed only if it was below the clean end when the run began: then all older records of its key are
durably removed. So it stays at least until the next run. The last record below the mark always stays, so no log ends
in a gap. Batches of aborted transactions are removed, and markers stay as long as tombstones (`markers`). Source:
Kafka's log cleaner (KIP-58, KIP-534 for tombstones and markers).

`run` does one slice of work between two steps, and never waits; the caller does the syncs of a step before it requests
the next one, and stops the run (`close`) if the log was changed otherwise, or must not be changed. Stopped or
crashed at any point, the log holds the newest record of every key."""

from collections.abc import Generator, Iterator
from itertools import count, islice
from typing import Final, NamedTuple, TypeVar

from raftlog.errors import InvalidBatch
from raftlog.records import (
    MARKER_KINDS,
    BatchHeader,
    ControlKind,
    Record,
    build_control_batch,
    build_empty_batch,
    open_in_steps,
    read_control,
    read_header,
    read_records,
    stamp,
)
from raftlog.records.retain import retain_in_steps
from raftlog.storage.disk import File
from raftlog.storage.gap import REASON_COMPACTED, SPAN_MAX, Gap, build_gap_batch, decode_gap
from raftlog.storage.markers import AbortedBatches, is_abort_marker
from raftlog.storage.roll import decode_roll, encode_roll
from raftlog.storage.rows import Row
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import stage_segment_files, unstage_segment_files
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Buffer, Offset, Term

Opened = TypeVar("Opened")

_SLICE_BYTES: Final = 128 * 1024
_SLICE_COST: Final = 400
"""Bounds of a slice in bytes and records, after which other tasks may run: about a millisecond."""
_STEPS_ALONE: Final = 3
"""Number of steps in which a small batch is opened or rewritten without yielding."""
_BATCH_COST: Final = 12
"""Cost of a batch in addition to its records, in records."""
_SYNC_BYTES: Final = 2 << 20
"""Bytes of a new file after which it is synced: a larger sync would delay all other syncs."""


class CompactionBounds(NamedTuple):
    """Bounds of compaction: size of merged files, and of the index of keys."""

    segment_bytes: int
    segment_rows_max: int
    keys_max: int = 1_000_000
    key_bytes_max: int = 64 << 20


class CompactionStep(NamedTuple):
    """Step of a run: bytes that a slice read or wrote, and files and directories to sync before the next step."""

    size_bytes: int = 0
    files: tuple[File, ...] = ()
    directories: tuple[str, ...] = ()


def find_clean_end(log: SegmentedLog) -> Offset:
    """Return the clean end: the offset below which every key has one record in the files."""
    for segment in log.segments:
        if segment.compacted_to < segment.next_offset or not segment.is_compacted:
            return Offset(max(segment.base_offset, segment.compacted_to if segment.is_compacted else -1))
    return log.next_offset


class Compaction:
    """One compaction run over one log, below one mark; `run` is called once."""

    def __init__(self, log: SegmentedLog, mark: Offset, tombstones_to: Offset, bounds: CompactionBounds) -> None:
        """Prepare a run below `mark`, the base offset of a segment whose roll is committed.

        Tombstones below `tombstones_to` may be removed."""
        self.log = log
        self.generation = log.generation
        """Generation of the log after the last change by this run."""
        self.bytes_before = self.bytes_after = 0
        """Sizes of the rewritten files, and of the files that replaced them."""
        bases = [segment.base_offset for segment in log.segments if segment.base_offset <= mark]
        self._mark, self._bounds = Offset(max(bases, default=0)), bounds
        self._tombstones_to = min(tombstones_to, find_clean_end(log))
        self._aborted = AbortedBatches(log)
        self._newest: dict[bytes, int] = {}
        self._end = Offset(0)
        """End of the current part: the index of keys covers records below it."""
        self._slice_bytes = self._slice_cost = 0

    def run(self) -> Iterator[CompactionStep]:
        """Compact the log, yielding after every slice; after an error the log is still correct.

        Raises `CorruptBatch` for damage, `OSError`, and `SyncFailed` if files could not be renamed: then only a restart
        can continue."""
        while (start := find_clean_end(self.log)) < self._mark:
            yield from self._index_keys(start)
            yield from self._rewrite()

    # the newest record of each key

    def _index_keys(self, start: Offset) -> Iterator[CompactionStep]:
        """Record the newest offset of each key from `start` on, until the limits of memory are reached.

        Sets the end of the part of the log that this pass compacts."""
        newest = self._newest = {}
        aborted = self._aborted = AbortedBatches(self.log)
        bounds, keys_seen, key_bytes_seen = self._bounds, 0, 0
        for segment in self._segments_below(self._mark):
            if segment.next_offset <= start:
                continue
            for row, batch in self._batches(segment):
                header = read_header(batch)
                self._end = Offset(header.next_offset)
                if header.is_marker and header.base_offset >= start:
                    _add_older(newest, aborted.end(header.producer_id, header.base_offset, is_abort_marker(batch)))
                if header.is_control or header.next_offset <= start:
                    continue
                found = yield from self._find_keys(batch)
                if header.is_transactional:
                    aborted.begin(header.producer_id, header.base_offset, found)
                else:
                    newest.update(found)
                keys_seen += len(found)
                key_bytes_seen += sum(map(len, found))
                bytes_held = key_bytes_seen * len(newest) // max(keys_seen, 1)  # of keys of average length
                if len(newest) + aborted.keys_held >= bounds.keys_max or bytes_held >= bounds.key_bytes_max:
                    yield from self._resolve_open_transactions()
                    return
                if step := self._step_after(row.length, header.record_count):
                    yield step
        yield from self._resolve_open_transactions()

    def _resolve_open_transactions(self) -> Iterator[CompactionStep]:
        """Read past the end of this run for the outcomes (commit or abort) of transactions that are open there.

        With a valid compaction mark each of them has an end marker. If one has none, the mark is invalid: the mark and
        the end of the run are lowered to the start of the segment with the first undecided record."""
        aborted = self._aborted
        for size, committed in aborted.decide_rest(self._end):
            for keys in committed:
                _add_older(self._newest, keys)
            yield CompactionStep(size)
        if (first := aborted.first_undecided) is not None:
            bases = [segment.base_offset for segment in self.log.segments if segment.base_offset <= first]
            self._mark = self._end = Offset(min(self._mark, self._end, max(bases, default=0)))

    @staticmethod
    def _find_keys(batch: memoryview) -> Generator[CompactionStep, None, dict[bytes, int]]:
        """Return the newest offset of each key of a batch; no keys for an undecodable batch, which stays unchanged."""
        found: dict[bytes, int] = {}
        try:
            records = read_records((yield from _run_in_steps(open_in_steps(batch))))
            while some := list(islice(records, _SLICE_COST)):
                found.update((record.key, record.offset) for record in some if record.key is not None)
                if len(some) == _SLICE_COST:
                    yield CompactionStep()
        except InvalidBatch:
            return {}
        return found

    # rewriting

    def _segments_below(self, end: Offset) -> tuple[Segment, ...]:
        """Return the closed segments that begin below `end`."""
        return tuple(segment for segment in self.log.segments[:-1] if segment.base_offset < end)

    def _rewrite(self) -> Iterator[CompactionStep]:
        """Rewrite the segments below the end of this part, small neighbours into one file."""
        waiting: list[Segment] = []
        output: _Output | None = None
        try:
            for segment in self._segments_below(self._end):
                if output is not None and not self._fits(output.segment, segment):
                    yield from self._replace_segments(output, waiting)
                    output, waiting = None, []
                if output is None:
                    output = _Output(self.log, segment, self._end)
                waiting.append(segment)
                yield from self._copy(segment, output)
            if output is not None:
                yield from self._replace_segments(output, waiting)
                output = None
        finally:
            if output is not None:
                output.discard()

    def _fits(self, output: Segment, segment: Segment) -> bool:
        """Return whether the output file has room for another segment."""
        bounds = self._bounds
        return (
            output.end_position + segment.end_position <= bounds.segment_bytes
            and output.rows + segment.rows <= bounds.segment_rows_max
        )

    def _copy(self, segment: Segment, output: "_Output") -> Iterator[CompactionStep]:
        """Copy the batches of a segment to the output, without the records that compaction removes."""
        for row, batch in self._batches(segment):
            header, position = read_header(batch), output.segment.end_position
            if header.is_control:
                output.add_control(row, header, batch, is_marker_kept=self._is_marker_kept(header))
            else:
                kept = yield from self._keep_records(header, batch)
                if kept is None:
                    output.remove(row.index, row.index, row.offset, header)
                else:
                    output.append(row.index, kept)
            written = output.segment.end_position - position
            if step := self._step_after(row.length + written, header.record_count):
                output.segment.write()
                yield step if not output.is_sync_due() else step._replace(files=(output.segment.files.log,))
        output.segment.write()

    def _keep_records(self, header: BatchHeader, batch: memoryview) -> Generator[CompactionStep, None, bytes | None]:
        """Return the batch with the records that are kept; None if none is kept."""
        if header.next_offset <= self._end and (header.record_count == 0 or self._aborted.has(header)):
            is_last = header.next_offset == self._mark
            empty = build_empty_batch(header.base_offset, header.next_offset, header.leader_epoch) if is_last else b""
            return bytes(empty) or None
        try:
            opened = yield from _run_in_steps(open_in_steps(batch))
            keeps = yield from self._select_records(header, opened)
            if all(keeps):
                return bytes(batch)
            if not any(keeps):
                return None
            return (yield from _run_in_steps(retain_in_steps(header, opened, keeps)))
        except InvalidBatch:
            return bytes(batch) if header.next_offset > self.log.log_start_offset else None

    def _select_records(self, header: BatchHeader, opened: Buffer) -> Generator[CompactionStep, None, list[bool]]:
        """Return for each record of a batch whether it is kept; records without a key are kept."""
        first, next_offset = header.base_offset, header.next_offset
        is_at_edge = first < max(self._tombstones_to, self.log.log_start_offset) or next_offset >= min(
            self._end, self._mark
        )
        flags: list[bool] = []
        records = read_records(opened)
        while some := list(islice(records, _SLICE_COST)):
            newest = map(self._newest.get, [record.key for record in some])  # type: ignore[arg-type]  # None is no key
            keeps = [at is None or at <= record.offset for record, at in zip(some, newest, strict=True)]
            if is_at_edge:
                keeps = [self._is_kept(record, is_newest) for record, is_newest in zip(some, keeps, strict=True)]
            flags += keeps
            if len(some) == _SLICE_COST:
                yield CompactionStep()
        return flags

    def _is_kept(self, record: Record, is_newest: bool) -> bool:
        """Return whether a record is kept: a newest one with a value, and any near a border of the compacted part."""
        offset = record.offset
        if offset >= self._end or offset == self._mark - 1:
            return True
        is_tombstone = record.value is None and record.key is not None
        return is_newest and offset >= self.log.log_start_offset and not (is_tombstone and offset < self._tombstones_to)

    def _is_marker_kept(self, header: BatchHeader) -> bool:
        """Return whether a marker stays: as long as a tombstone would, and at the end of the part."""
        return header.next_offset >= min(self._end, self._mark) or header.base_offset >= max(
            self._tombstones_to, self.log.log_start_offset
        )

    def _batches(self, segment: Segment) -> Iterator[tuple[Row, memoryview]]:
        """Yield the batches of a segment. Raises `CorruptBatch`, because a damaged segment is not compacted."""
        for _, row, batch, reason in self.log.walk(segment):
            if reason is not None:
                raise self.log.corruption_error(segment, row, reason)
            yield row, batch

    def _replace_segments(self, output: "_Output", replaced: list[Segment]) -> Iterator[CompactionStep]:
        """Replace the segments `replaced` by the output file."""
        staged = output.finish()
        yield CompactionStep(files=tuple(staged.files))
        self.log.replace_by_compacted(replaced, staged)
        self.generation = self.log.generation
        self.bytes_before += sum(segment.end_position for segment in replaced)
        self.bytes_after += staged.end_position
        try:
            yield CompactionStep(directories=(self.log.path,))
        finally:  # also when it is stopped here: no other code deletes them
            for segment in replaced[1:]:
                self.log.unlink_replaced(segment.base_offset)
        if len(replaced) > 1:
            yield CompactionStep(directories=(self.log.path,))

    def _step_after(self, size_bytes: int, records: int) -> CompactionStep | None:
        """Add to the work of the slice; return a step if the slice is complete, else None."""
        self._slice_bytes += size_bytes
        self._slice_cost += records + _BATCH_COST
        if self._slice_bytes < _SLICE_BYTES and self._slice_cost < _SLICE_COST:
            return None
        size, self._slice_bytes, self._slice_cost = self._slice_bytes, 0, 0
        return CompactionStep(size)


def _add_older(newest: dict[bytes, int], keys: dict[bytes, int]) -> None:
    """Add the offsets of a committed transaction's keys to `newest`, unless `newest` has a higher offset of the key."""
    for key, offset in keys.items():
        if offset > newest.get(key, -1):
            newest[key] = offset


def _run_in_steps(work: Generator[None, None, Opened]) -> Generator[CompactionStep, None, Opened]:
    """Run `work` to its end and return its result; yield between its steps after the first few."""
    for number in count():
        try:
            next(work)
        except StopIteration as end:
            result: Opened = end.value
            return result
        if number >= _STEPS_ALONE:
            yield CompactionStep()
    raise AssertionError("an endless count ended")


class _Output:
    """Staged file that compaction writes: kept batches, and gaps between them."""

    def __init__(self, log: SegmentedLog, first: Segment, compacted_to: Offset) -> None:
        """Create the staged files of a compacted segment, which begins at the offset of the segment `first`."""
        self._log = log
        self.segment = Segment(
            first.base_offset, first.base_index, stage_segment_files(log.disk, log.path, first.base_offset)
        )
        self.segment.created_ms, self.segment.compacted_to = first.created_ms, compacted_to
        self._synced_position = 0
        self._gap: Gap | None = None
        """Gap for the records removed since the last kept batch."""

    def add_control(self, row: Row, header: BatchHeader, batch: memoryview, *, is_marker_kept: bool) -> None:
        """Keep the first roll; remove other control batches, whose content is in the next roll and its snapshot.

        A marker is kept if `is_marker_kept` is set."""
        try:
            kind, payload = read_control(batch, header)
        except InvalidBatch:
            self.append(row.index, bytes(batch))  # written by a newer program
            return
        if kind is ControlKind.GAP:
            gap = decode_gap(payload)
            if gap.reason == REASON_COMPACTED:
                self.remove(gap.first_index, gap.last_index, gap.first_offset, header)
            else:
                self.append(row.index, bytes(batch))
        elif kind in MARKER_KINDS and is_marker_kept:
            self.append(row.index, bytes(batch))
        elif kind is ControlKind.ROLL and not self.segment.rows:
            self.append(row.index, self._rewrite_roll(row, payload))
        elif row.offset > self.segment.compacted_to:
            self.append(row.index, bytes(batch))  # this part ends before it, and so may gaps
        else:
            self.remove(row.index, row.index, row.offset, header)

    def _rewrite_roll(self, row: Row, payload: bytes) -> bytes:
        """Return the roll with the offset up to which the output is compacted."""
        roll = decode_roll(payload)._replace(compacted_to=self.segment.compacted_to)
        offset = Offset(row.offset)
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), roll.created_ms, next_offset=offset)
        stamp(batch, offset, Term(row.term))
        return bytes(batch)

    def remove(self, first_index: int, last_index: int, offset: int, header: BatchHeader) -> None:
        """Replace the batch of these entries by a gap, together with the gap before it if there is one."""
        end, term = header.next_offset, header.leader_epoch
        before = self._gap
        if before is not None and end - before.first_offset > SPAN_MAX:
            self._close_gap()
            before = None
        if before is None:
            self._gap = Gap(first_index, last_index, offset, end, term, REASON_COMPACTED)
        else:
            assert (before.last_index + 1, before.end_offset) == (first_index, offset), f"{before} before {first_index}"
            self._gap = before._replace(last_index=last_index, end_offset=end, term=term)

    def append(self, index: int, batch: bytes) -> None:
        """Append the batch of entry `index`, after the gap for removed entries before it."""
        self._close_gap()
        assert self.segment.next_index == index, f"entry {index} where {self.segment.next_index} follows"
        self.segment.append_compacted(batch, read_header(batch))

    def _close_gap(self) -> None:
        """Append the gap for the entries that were removed since the last kept batch."""
        if self._gap is not None:
            batch = build_gap_batch(self._gap)
            self._gap = None
            self.segment.append_compacted(batch, read_header(batch))

    def is_sync_due(self) -> bool:
        """Return whether a sync is due, because many bytes were written since the last one."""
        is_due = self.segment.written_position >= self._synced_position + _SYNC_BYTES
        if is_due:
            self._synced_position = self.segment.written_position
        return is_due

    def finish(self) -> Segment:
        """Write everything to the staged files and return the segment; the caller syncs it."""
        self._close_gap()
        segment = self.segment
        segment.times.close(segment.rows - 1)
        segment.write()
        segment.publish(segment.rows)
        return segment

    def discard(self) -> None:
        """Close and delete the staged files."""
        self.segment.close()
        unstage_segment_files(self._log.disk, self._log.path, self.segment.base_offset)
