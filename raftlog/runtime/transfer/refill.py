"""Refill after damage in compacted segments: no other replica has the same bytes, so all are copied from one replica.

    the other replica's files below a roll that is sound on both → this replica's entries from that roll on, unchanged
    → the replica is frozen, and entries that arrived meanwhile are copied too → synced
    → the journal has `install`, durably → the directories change places

Acknowledged entries stay: entries from the roll on are this replica's own, and those below are committed. A crash
before `install` is durable leaves the old log, after it the new one. Called by `repair`, for one source at a time."""

import asyncio
import logging
from typing import Final

from raftlog.errors import Unavailable
from raftlog.records import ControlKind, read_control, read_header
from raftlog.runtime.log.boundary import previous_entry_id
from raftlog.runtime.log.control_entries import is_control
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.bulk import FilesResult
from raftlog.runtime.transfer.file_copy import FileCopy
from raftlog.runtime.transfer.ports import LogPort
from raftlog.runtime.transfer.replacement import Replacement
from raftlog.storage.roll import decode_roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, NodeId, Offset, Term

_logger = logging.getLogger(__name__)
_SLICE_BYTES: Final = 1 << 20


class Refill:
    """One attempt to replace damaged compacted segments by copies of another replica's."""

    def __init__(self, port: LogPort, group: PartitionReplica, source: NodeId) -> None:
        self._port, self._group = port, group
        self._old = group.log.segments
        self._copying = FileCopy(port, group, source)
        self._replacement = Replacement(port, group)

    async def run(self) -> None:
        """Copy the files and replace the log by the copy.

        Raises `RaftlogError`, `OSError` or `TimeoutError`: then the old log stays."""
        port, group = self._port, self._group
        port.stop_compaction(group)
        below = self._old.row_at(Index(group.log.boundary.index + 1)).offset
        files = await self._copying.request_files(Offset(below))
        self._check(files)
        segments = self._replacement.begin(files.base_offsets[0])
        try:
            await self._copying.copy(files, segments)
            await self._copy_remaining(segments)
            await self._swap_directories(segments, min(files.log_start_offset, files.below))
        finally:
            segments.close()

    def _check(self, files: FilesResult) -> None:
        """Raise `Unavailable` unless the own log has an undamaged roll right after the copied files."""
        group = self._group
        own = self._old.segment_of_offset(files.below)
        is_behind = own.base_offset == files.below and own.base_index == files.boundary.index + 1
        if not (is_behind and group.log.boundary.index <= files.boundary.index <= group.applied_index) or (
            previous_entry_id(own) != files.boundary
        ):
            raise Unavailable(
                f"{group.name}: the other replica's files end before offset {files.below}; not those here"
            )

    async def _copy_remaining(self, segments: SegmentedLog) -> None:
        """Append the entries that follow the copied files from the own log, in slices.

        Raises `Unavailable` if the log was replaced."""
        while segments.last_index < self._group.log.written_index:
            self._copy_slice(segments)
            await asyncio.sleep(0)
            if self._group.is_closed or self._group.log.segments is not self._old:
                raise Unavailable(f"{self._group.name} changed meanwhile")

    def _copy_slice(self, segments: SegmentedLog) -> None:
        """Append the next slice of entries from the own log. Raises `CorruptBatch`."""
        first = Index(segments.last_index + 1)
        for row, batch in self._old.read_entries(first, self._group.log.written_index, _SLICE_BYTES):
            stored = bytes(batch)
            header = read_header(stored)
            roll = read_control(stored, header) if is_control(stored) else None
            if roll is not None and roll[0] is ControlKind.ROLL:
                segments.begin_segment(stored, header, decode_roll(roll[1]), Term(row.term))
            else:
                segments.append_stamped(stored, header)
        segments.write()

    async def _swap_directories(self, segments: SegmentedLog, start: Offset) -> None:
        """Replace the damaged log by the copy, which begins at `start` or later.

        `start` is the log start offset of the copied replica. It is above this replica's if a trim was applied there
        and not here yet."""
        port, group = self._port, self._group
        group.is_frozen = True
        try:
            await self._wait_for_writes()
            while segments.last_index < group.log.last_index:
                self._copy_slice(segments)
            end, start = await self._replacement.sync(segments), max(start, group.log_start_offset)
            if group.is_closed or port.failure is not None or group.log.segments is not self._old:
                raise Unavailable(f"{group.name} changed meanwhile")
            segments.close()
            group.log.refill(await self._replacement.replace_log(start, end))
            port.compact(group)
            _logger.warning("%s: damaged compacted segments were copied from another replica", group.path)
        finally:
            self._replacement.resume()

    async def _wait_for_writes(self) -> None:
        """Wait until no write to the old log is under way; raise `TimeoutError`."""
        port, group = self._port, self._group
        async with asyncio.timeout(port.config.transfer_timeout_ms / 1000):
            while group.parts or group.log.is_cut_waiting or not port.persister.may_move(group):  # noqa: ASYNC110
                await asyncio.sleep(port.config.tick_ms / 1000)
        port.persister.write(group)
        if group.log.written_index < group.log.last_index:
            raise Unavailable(f"{group.path}: no room on the disk")
