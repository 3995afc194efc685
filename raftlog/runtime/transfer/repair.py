"""Repair of a quarantined replica: it searches its files for damage, and fetches damaged entries from other replicas.

    quarantined → known damaged entries are fetched → every entry is read, and other damaged ones are fetched
    → synced → no damage is left, and none was found meanwhile → quarantine lifted

A batch is accepted only if it matches the index row, byte for byte, so its sender does not matter. An entry that no
replica has was never committed: the leader cuts it later. With no other replica it stays. Compacted segments differ
between replicas, so if one is damaged all of them are copied again (`refill`).

Other tasks use the loop and the disk between the slices: the group appends and acknowledges entries meanwhile,
and only one slice is in memory. Called by `catch_up`, one at a time for each group."""

import asyncio
import logging
from typing import Final

from raftlog.errors import CorruptBatch, RaftlogError, Unavailable
from raftlog.events import event
from raftlog.records import ControlKind, read_control
from raftlog.runtime.log.boundary import find_first_uncompacted
from raftlog.runtime.log.configuration_walk import read_configurations
from raftlog.runtime.log.control_entries import is_control
from raftlog.runtime.log.damaged_entry import DAMAGED_MAX, DamagedEntry
from raftlog.runtime.log.row_walk import walk_rows
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.bulk import EntriesRequest, EntriesResult, LogRequest, LogResult
from raftlog.runtime.transfer.ports import LogPort, send_request
from raftlog.runtime.transfer.refill import Refill
from raftlog.storage.index_repair import repair_row
from raftlog.storage.segment import Segment
from raftlog.types import Buffer, Index, NodeId, Offset

_logger = logging.getLogger(__name__)
_SLICE_BYTES: Final = 2 << 20
_SLICE_ENTRIES: Final = 512
"""Bounds of a slice, after which other tasks run: one or two milliseconds."""
_PAUSE_S_MAX: Final = 0.002
"""Longest pause after a slice, in which other tasks use the disk; the pause is as long as the slice took. The limit is
low, because a busy loop delays the next slice anyway."""


class Repair:
    """One pass over the files of a damaged replica that repairs entries from other replicas."""

    def __init__(self, port: LogPort, group: PartitionReplica) -> None:
        """Prepare to repair the damaged entries of the group's log."""
        self._port = port
        self._group = group
        self._unrepaired: list[DamagedEntry] = []
        """Damaged entries that no other replica could supply, in order; at most `DAMAGED_MAX`."""
        self._repaired_count = 0
        self._compacted: CorruptBatch | None = None
        """First damage in the compacted part, whose entries cannot be read by index."""
        self._latest_configuration = Index(0)
        """Latest configuration among the entries that were read; 0 when only a roll has it."""

    async def run(self) -> None:
        """Repair the damage, and lift the quarantine if none is left.

        Raises `Unavailable` when damage is left that no other replica could repair, and errors of reading and writing.
        """
        group = self._group
        await self._repair_known()
        log, damages_before = group.log, group.damage_count
        generation, written = log.segments.generation, log.written_index
        await self._read_all()
        if self._repaired_count:
            await self._sync_repairs()
        if self._compacted is not None and not self._unrepaired:
            await self._refill(self._compacted)
        if self._unrepaired:
            group.damage, group.damaged = self._unrepaired[0].error, tuple(self._unrepaired)
            await self._follow_log_start()
            raise Unavailable(f"no other replica has it yet: {group.damage}")
        while group.is_dirty and not group.is_closed and self._port.failure is None:  # noqa: ASYNC110  # no event
            await asyncio.sleep(0)  # a turn, which takes over the core's cuts
        if log.is_cut_waiting:  # the files still have configurations that were cut; damage may have prevented the cut
            self._port.persister.settle_cut(group)
            raise Unavailable("the log is being cut; the repair is repeated")
        is_cut = log.segments.generation != generation or log.written_index < written
        if is_cut or group.damage_count != damages_before:
            raise Unavailable("the log changed meanwhile; the repair is repeated")
        self._lift_quarantine()

    def _lift_quarantine(self) -> None:
        """Restore the configurations from the repaired log, and allow campaigns again."""
        group, port = self._group, self._port
        found = read_configurations(group.log.segments, self._latest_configuration, group.core.committed_index)
        if found.damage:
            raise Unavailable(f"the log is damaged again; the repair is repeated: {found.damage}")
        group.log.refresh_boundary()
        group.core.restore_configurations(found.known)
        group.configuration_index, group.are_configurations_known = group.core.configuration.index, True
        port.note_members(group)
        port.note_changed(group)
        event(_logger, "replica_repaired", group=group.name, entries=self._repaired_count, why=str(group.damage))
        group.damage, group.damaged, group.repair_note = None, None, None
        group.core.lift_quarantine()
        port.compact(group)  # damage ended the run that was under way
        port.mark_dirty(group)

    # reading

    async def _repair_known(self) -> None:
        """Repair first the entry in which a reader found damage, because other readers may need it."""
        index = self._find_index(self._group.damage)
        if index is None or index < find_first_uncompacted(self._group.log.segments):
            return
        if self._find_damage(index) is not None:
            await self._repair_entry(index)

    def _find_index(self, damage: CorruptBatch | None) -> Index | None:
        """Find the index of the entry at a damaged position, by the rows; None if it is in no segment of this log."""
        segments = self._group.log.segments.segments
        segment = next((each for each in segments if damage and each.files.log.path == damage.file), None)
        if segment is None or damage is None:
            return None
        low, high = 0, segment.rows
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if segment.row(middle).position <= damage.position else (low, middle)
        index = Index(segment.index_of(low))
        return index if low < segment.rows and index <= self._group.log.written_index else None

    def _find_damage(self, index: Index) -> CorruptBatch | None:
        """Return the error in entry `index`, or None if it is sound."""
        try:
            self._group.log.segments.read_entries(index, index, 1)
        except CorruptBatch as error:
            return error
        return None

    async def _read_all(self) -> None:
        """Read every entry; repair the damaged ones, or record those that cannot be repaired."""
        segments = self._group.log.segments.segments
        total, before = max(1, self._group.log.segments.size_bytes), 0
        for segment in segments:
            await self._read_segment(segment, before, total)
            before += segment.end_position

    async def _read_segment(self, segment: Segment, before: int, total: int) -> None:
        """Read all entries of a segment in slices, with pauses, and update the progress."""
        loop, number = self._port.loop, 0
        while number < segment.rows:
            began = loop.time()
            number = await self._read_slice(segment, number)
            read = before + (segment.row(number).position if number < segment.rows else segment.end_position)
            share = min(1.0, read / total)
            self._group.repair_note = f"{self._repaired_count} entries repaired, {share:.0%} of {total:,} bytes read"
            await asyncio.sleep(min(loop.time() - began, _PAUSE_S_MAX))

    async def _read_slice(self, segment: Segment, first: int) -> int:
        """Read one slice of rows from `first` on, and repair or record damaged ones.

        Returns the number of the next row to read."""
        group, size, number = self._group, 0, first
        for number, batch, error, is_placed in walk_rows(group.log.segments, segment, first):
            index = Index(segment.index_of(number))
            if index > group.log.written_index:
                return segment.rows
            if error is None:
                self._keep_configuration(index, batch)
            elif segment.base_index < find_first_uncompacted(group.log.segments):
                if not repair_row(segment, number):
                    self._compacted = self._compacted or error
            elif not is_placed:
                await self._rebuild_or_report(index, error)
            elif repair_row(segment, number) and self._find_damage(index) is None:
                self._keep_stored_configuration(index)
            else:
                await self._repair_or_report(index, error)
            size += len(batch)
            if number + 1 - first >= _SLICE_ENTRIES or size >= _SLICE_BYTES:
                break
        return number + 1

    def _keep_configuration(self, index: Index, batch: Buffer) -> None:
        """Remember `index` if the batch is a configuration entry: the latest one is needed after the repair."""
        if is_control(batch) and read_control(batch)[0] is ControlKind.CONFIGURATION:
            self._latest_configuration = max(index, self._latest_configuration)

    def _keep_stored_configuration(self, index: Index) -> None:
        """Read an entry and keep its index like `_keep_configuration`."""
        for _, batch in self._group.log.segments.read_entries(index, index, 1):
            self._keep_configuration(index, batch)

    # repairing

    async def _repair_or_report(self, index: Index, error: CorruptBatch) -> None:
        """Fetch an entry from another replica; otherwise rebuild it, or record it as unrepaired."""
        if not await self._repair_entry(index):
            await self._rebuild_or_report(index, error)
            return
        self._keep_stored_configuration(index)

    async def _rebuild_or_report(self, index: Index, error: CorruptBatch) -> None:
        """Rebuild a committed entry without a row from the leader's entry; otherwise record it as unrepaired.

        A committed entry is the same on the leader."""
        group, leader = self._group, self._group.core.leader
        if index <= group.core.committed_index and leader is not None and leader != self._port.me:
            try:
                batch = await self._request_entry(leader.node_id, index)
                if batch is not None:
                    group.log.segments.rebuild_entry(index, batch)
                    self._count_repaired()
                    self._keep_configuration(index, batch)
                    return
            except (RaftlogError, OSError, TimeoutError) as refused:
                _logger.info("%s: entry %s cannot be rebuilt: %s", group.path, index, refused)
        self._add_unrepaired(index, error)

    def _add_unrepaired(self, index: Index, error: CorruptBatch) -> None:
        """Record a damaged entry that no other replica could supply, with its range of offsets."""
        segments = self._group.log.segments
        segment = segments.segment_of_index(index)
        number = segment.number_of(index)
        end = segment.row(number + 1).offset if number + 1 < segment.rows else segment.next_offset
        if len(self._unrepaired) < DAMAGED_MAX:
            self._unrepaired.append(DamagedEntry(index, error.offset, Offset(max(end, error.offset)), error))

    def _count_repaired(self) -> None:
        """Count a repaired entry."""
        self._port.entries_repaired += 1
        self._repaired_count += 1

    async def _repair_entry(self, index: Index) -> bool:
        """Request the entry from one replica after the other; return True if one of them supplied it."""
        group = self._group
        for node in self._list_sources():
            try:
                batch = await self._request_entry(node, index)
                if batch is not None:
                    if index > group.log.written_index:
                        return False
                    group.log.segments.repair_batch(index, batch)
                    self._count_repaired()
                    return True
            except (RaftlogError, OSError, TimeoutError) as error:
                _logger.info("%s: node %s did not return entry %s: %s", group.path, node, index, error)
        return False

    async def _request_entry(self, node: NodeId, index: Index) -> bytes | None:
        """Request one entry from a node; return its batch, or None if the node does not have it."""
        bytes_max = self._port.config.transfer_chunk_bytes
        answer = await send_request(self._port, node, EntriesRequest(self._group.key, index, index, bytes_max))
        result = answer.entries if isinstance(answer, EntriesResult) else ()
        return result[0].batch if result and result[0].index == index else None

    async def _follow_log_start(self) -> None:
        """Move the log start to another replica's, if that replica has trimmed or compacted the damaged entries.

        Entries below it need no repair. Raises `Unavailable` if the local log changed meanwhile: the caller retries."""
        group = self._group
        for node in self._list_sources():
            try:
                result = await send_request(self._port, node, LogRequest(group.key))
            except (RaftlogError, OSError, TimeoutError) as error:
                _logger.info("%s: node %s did not return the beginning of its log: %s", group.path, node, error)
                continue
            own = find_first_uncompacted(group.log.segments) - 1
            if not isinstance(result, LogResult) or self._unrepaired[0].index > result.boundary.index:
                continue
            if result.files and result.boundary.index > own:
                await self._refill(self._unrepaired[0].error)
            elif not result.files and result.boundary.index >= own and group.trim_damaged(result.base_offset):
                raise Unavailable(
                    "the damaged entries were trimmed elsewhere, and are trimmed here; the repair is repeated"
                )

    def _list_sources(self) -> list[NodeId]:
        """List the nodes of the other replicas, the leader first.

        The leader is known even if the configuration entry is damaged."""
        core, me = self._group.core, self._port.me.node_id
        leader = core.leader.node_id if core.leader else None
        nodes = {member.node_id for member in core.configuration.all_members()} | ({leader} if leader else set())
        return sorted(nodes - {me}, key=lambda node: (node != leader, node))

    async def _refill(self, damage: CorruptBatch) -> None:
        """Copy the compacted segments from another replica; record the damage if none has them.

        Raises `Unavailable` after a copy: the log was replaced, and the next round reads it."""
        group = self._group
        for node in self._list_sources():
            try:
                await Refill(self._port, group, node).run()
            except (RaftlogError, OSError, TimeoutError) as error:
                if self._port.failure is not None:
                    raise
                _logger.info("%s: node %s did not return its compacted files: %s", group.path, node, error)
            else:
                self._port.entries_repaired += 1
                raise Unavailable("the compacted part was copied from another replica; the repair is repeated")
        index = self._find_index(damage)
        if index is not None:
            self._add_unrepaired(index, damage)

    async def _sync_repairs(self) -> None:
        """Make the repairs durable; a failed sync ends the process."""
        segments = self._group.log.segments
        changed = segments.list_changes_since_checkpoint()
        await self._port.persister.sync(changed.files, changed.directories)
        changed.mark_synced()
