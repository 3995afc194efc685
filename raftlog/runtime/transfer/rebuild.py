"""Rebuild of a replica that continues alone on an operator's request, with gaps in place of damaged entries.

    its log is copied entry by entry into a separate directory; gaps for damaged entries; a configuration of this
    replica alone, in a new term → synced, the damaged bytes kept → the journal has `install`, durably
    → the directories change places → the replica leads

A crash before `install` is durable leaves the old log; after it, recovery makes the directories change places. No
sound entry is lost by it: offsets and indexes stay. Positions after a gap change, so the other replicas must be created
again from this one, and the caller has made sure that none of them ever counts again (`abandonment`, or the controller
has retired its disk). Other tasks run after each slice; the disk needs room for a second copy of the log."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from raftlog.errors import Unavailable
from raftlog.raft import Configuration
from raftlog.records import ControlKind, build_control_batch, read_control, read_header, stamp
from raftlog.runtime.journal.operations import LogEnd
from raftlog.runtime.log.control_entries import (
    build_configuration_batch,
    configuration_of_roll,
    decode_configuration,
    is_control,
    members_of,
)
from raftlog.runtime.log.row_walk import walk_rows
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.ports import LogPort
from raftlog.runtime.transfer.replacement import Replacement
from raftlog.storage.directory import DAMAGED, internal_path, make_directory
from raftlog.storage.gap import REASON_LOST, Gap, build_gap_batch, last_index_of
from raftlog.storage.index_repair import repair_row
from raftlog.storage.roll import Roll, decode_roll, encode_roll
from raftlog.storage.segment import Segment
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, make_refusal
from raftlog.types import Buffer, Index, Offset, Term

_logger = logging.getLogger(__name__)
_SLICE_BYTES: Final = 1 << 20
_SLICE_ENTRIES: Final = 256


class RebuildResult(NamedTuple):
    """Losses of a rebuild: ranges of offsets, ends exclusive, and the files that keep the damaged bytes."""

    lost: list[tuple[int, int]]
    kept_in: list[str]


class _CopiedRow(NamedTuple):
    """Row of the old log: its bytes, None for damaged ones; the index and offset that follow it."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    batch: Buffer | None
    next_index: int
    end: Offset


class Rebuild:
    """Rebuild of the log of a replica that continues alone; `run` is called once.

    The group must have no leader and no other replica that still counts."""

    def __init__(self, port: LogPort, group: PartitionReplica, term_min: int) -> None:
        """Prepare a rebuild; `term_min` is the highest term that any replica of the group is known to have."""
        self._port, self._group = port, group
        self._term_min = term_min
        self._old = group.log.segments
        self._replacement = Replacement(port, group)
        self._previous_term = Term(0)
        """Term of the last copied entry."""
        self._configuration = group.core.configuration
        """Configuration at the last copied entry; the present one until a copied entry has one."""
        self._done = RebuildResult([], [])

    async def run(self) -> RebuildResult:
        """Rebuild the log, replace the old one, and return the losses.

        Raises `Unavailable`, `StorageFull` and `OSError`: then the old log stays."""
        group = self._group
        self._port.stop_compaction(group)
        last = group.log.last_index
        self._port.persister.write(group)
        if group.log.is_cut_waiting or group.log.written_index < last:
            raise Unavailable(f"{group.name}: its newest entries are not in its files yet; try again")
        begin = self._old.segments[0].base_offset if self._old.segments else 0
        segments = self._replacement.begin(Offset(begin))
        try:
            await self._copy(segments)
            configuration_index = self._append_configuration(segments)
            end = await self._replacement.sync(segments)
        except OSError as error:
            if error.errno in TEMPORARY_ERRORS:
                raise make_refusal(self._replacement.path, error, "the log needs its size in room once more") from None
            raise
        finally:
            segments.close()
        await self._swap_directories(last, configuration_index, end)
        return self._done

    # copying

    async def _copy(self, segments: SegmentedLog) -> None:
        """Copy all entries of the old segments in slices; replace damaged ones."""
        loop, count, size, began = self._port.loop, 0, 0, self._port.loop.time()
        if not self._old.segments:  # no replica has any entry: the group begins again
            self._configuration = Configuration(Index(0), (self._port.me,))
            self._append_copied(segments, Index(1), self._build_roll(1, self._port.wall_ms(), Offset(0), Term(0)))
        for segment in self._old.segments:
            for result in self._walk_entries(segment):
                batch = result.batch if result.batch is not None else self._build_replacement(segments, segment, result)
                self._append_copied(segments, result.index, batch)
                count, size = count + 1, size + len(batch)
                if count >= _SLICE_ENTRIES or size >= _SLICE_BYTES:
                    segments.write()
                    await asyncio.sleep(loop.time() - began)
                    count, size, began = 0, 0, loop.time()
        segments.write()

    def _walk_entries(self, segment: Segment) -> Iterator[_CopiedRow]:
        """Yield all entries of a segment; store the bytes of a damaged one, and yield it with None as its `batch`."""
        for number, batch, error, is_placed in walk_rows(self._old, segment):
            index = Index(segment.index_of(number))
            if error is None:
                yield self._to_copied_row(segment, index, batch)
            elif is_placed and repair_row(segment, number):
                ((_, healed),) = self._old.read_entries(index, index, 1)
                yield self._to_copied_row(segment, index, healed)
            else:
                self._store_damaged(segment, number, batch)
                yield _CopiedRow(index, None, *self._find_next(segment, number))

    @staticmethod
    def _to_copied_row(segment: Segment, index: Index, batch: Buffer) -> _CopiedRow:
        """Return the row of a sound entry, with the index and offset after it."""
        header = read_header(batch)
        last = last_index_of(batch, header, index) if segment.missing else index
        return _CopiedRow(index, batch, last + 1, Offset(header.next_offset))

    def _find_next(self, segment: Segment, number: int) -> tuple[int, Offset]:
        """Return index and offset after a damaged entry, the offset from the next plausible row."""
        index = segment.index_of(number + 1) if number + 1 < segment.rows else segment.next_index
        for later in range(number + 1, segment.rows):
            row = segment.row(later)
            if segment.can_be_row_of(later, row.index) and row.offset <= segment.next_offset:
                return index, Offset(row.offset)
        return index, Offset(segment.next_offset)

    def _store_damaged(self, segment: Segment, number: int, batch: Buffer) -> None:
        """Store the damaged bytes unchanged in `.raftlog/damaged/`, durably."""
        directory, disk = internal_path(self._port.data_dir, DAMAGED), self._port.disk
        make_directory(disk, directory)
        kept = f"{directory}/{self._group.group_id}-{segment.base_offset:020d}-{number}.batch"
        if disk.exists(kept):
            disk.unlink(kept)
        file = disk.open(kept, create=True)
        try:
            file.write(0, [batch])
            disk.sync([file], [directory])
        finally:
            file.close()
        self._done.kept_in.append(kept)

    def _build_replacement(self, segments: SegmentedLog, segment: Segment, result: _CopiedRow) -> Buffer:
        """Build the batch that replaces a damaged entry.

        The first entry of a segment is its roll. The content of a roll is known, so it is built again; any other entry
        is replaced by a gap."""
        offset, term = Offset(segments.next_offset), self._previous_term
        if result.index == segment.base_index:
            return self._build_roll(segment.base_index, segment.created_ms, offset, term, segment.compacted_to)
        end = max(offset, result.end)
        if end > offset:
            self._done.lost.append((offset, end))
        gap = Gap(result.index, result.next_index - 1, offset, end, term, REASON_LOST)
        return build_gap_batch(gap, self._port.wall_ms())

    def _build_roll(
        self, base_index: int, created_ms: int, offset: Offset, term: Term, compacted_to: int = -1
    ) -> Buffer:
        """Build a stamped roll with the configuration at this place."""
        held = self._configuration
        roll = Roll(
            self._group.group_id,
            base_index,
            term,
            min(self._group.log_start_offset, offset),
            compacted_to,
            created_ms,
            min(held.index, base_index - 1),
            *members_of(held),
            self._group.rolls.settings,
        )
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), roll.created_ms, next_offset=offset)
        stamp(batch, offset, term)
        return batch

    def _append_copied(self, segments: SegmentedLog, index: Index, batch: Buffer) -> None:
        """Append a batch to the new segments; remember its term and the Raft configuration in it, if any."""
        header = read_header(batch)
        self._previous_term = Term(header.leader_epoch)
        stored = bytes(batch)
        if is_control(stored):
            kind, payload = read_control(stored, header)
            if kind is ControlKind.ROLL:
                roll = decode_roll(payload)
                self._configuration = configuration_of_roll(roll)
                segments.begin_segment(stored, header, roll, Term(header.leader_epoch))
                return
            if kind is ControlKind.CONFIGURATION:
                self._configuration, _ = decode_configuration(payload, index)
        segments.append_stamped(stored, header)

    def _append_configuration(self, segments: SegmentedLog) -> Index:
        """Append the configuration of this replica alone, in a term above those of all replicas; return its index."""
        index = Index(segments.last_index + 1)
        term = Term(max(self._term_min, self._group.core.term, self._previous_term) + 1)
        alone = Configuration(index, (self._port.me,))
        batch = build_configuration_batch(alone, self._configuration.index, self._port.wall_ms())
        segments.append(batch, read_header(batch), term)
        segments.write()
        return index

    # changing places

    def _is_idle(self) -> bool:
        """Return whether no write to the old log is under way, and no checkpoint needs its files in place."""
        group, persister = self._group, self._port.persister
        return not (group.parts or group.is_dirty or persister.checkpoints.is_under_way)

    async def _swap_directories(self, last: Index, configuration_index: Index, end: LogEnd) -> None:
        """Wait until the old log is idle, replace it, and make the replica campaign.

        Raises `Unavailable` if the log changed."""
        port, group = self._port, self._group
        while not self._is_idle() and not group.is_closed and port.failure is None:  # noqa: ASYNC110  # no events
            await asyncio.sleep(port.config.tick_ms / 1000)
        is_other = group.log.segments is not self._old or group.log.last_index != last or group.core.leader is not None
        if group.is_closed or port.failure is not None or is_other:
            raise Unavailable(f"{group.name} changed meanwhile; nothing was done; retry")
        await self._replacement.replace_and_restart(
            group.log_start_offset, end, configuration_index, Index(end.id.index)
        )
        _logger.warning(
            "%s continues alone, by an operator's order; lost: %s", group.path, self._done.lost or "nothing"
        )
        group.damage = group.damaged = group.repair_note = None
        group.core.lift_quarantine()
        self._replacement.resume()
        port.note_members(group)
        group.core.campaign()
