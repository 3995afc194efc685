"""Installation: it replaces a follower's log, if it ends before the leader's log begins, by the leader's beginning.

    the leader's compacted files, if it has any, are copied into a separate directory, then the first entry after
    them, a committed roll → synced
    → the journal has `install`, durably → the directories change places → the core continues after the roll

Every entry of the old log is committed and trimmed away elsewhere, or was never committed; so no promised entry is lost
by it, and the entries after the roll are fetched into the log itself (`log_fetch`). A crash before `install`
is durable leaves the old log and a directory to delete; after it, recovery makes the directories change places. While
that sync is under way the replica is frozen: the old log must not change."""

import asyncio
import logging

from raftlog.errors import Unavailable
from raftlog.records import ControlKind, read_control, read_header
from raftlog.runtime.journal.operations import LogEnd
from raftlog.runtime.log.control_entries import entry_of, is_control
from raftlog.runtime.replica.admission import end_of_entries
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.bulk import LogRequest, LogResult
from raftlog.runtime.transfer.file_copy import FileCopy
from raftlog.runtime.transfer.ports import LogPort, send_request
from raftlog.runtime.transfer.replacement import Replacement
from raftlog.storage.roll import decode_roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import NodeId, Offset

_logger = logging.getLogger(__name__)


class Installation:
    """One attempt to replace the log by a copy of another replica's."""

    def __init__(self, port: LogPort, group: PartitionReplica, source: NodeId) -> None:
        """Prepare to replace the group's log by that of the node `source`."""
        self._port = port
        self._group = group
        self._source = source
        self._replacement = Replacement(port, group)
        self.bytes_taken = 0
        """Number of bytes of compacted files that were copied."""

    async def run(self) -> None:
        """Fetch and sync the new log, and replace the old one.

        Raises `RaftlogError`, `OSError` or `TimeoutError`; then the old log stays."""
        result = await send_request(self._port, self._source, LogRequest(self._group.key))
        if not isinstance(result, LogResult):
            raise Unavailable(f"node {self._source} answered with {type(result).__name__}")
        if not self._group.core.needs_install(result.boundary):
            return
        copying = FileCopy(self._port, self._group, self._source)
        files = await copying.request_files(result.base_offset) if result.files else None
        if files is not None and (files.boundary, files.below) != (result.boundary, result.base_offset):
            raise Unavailable(f"node {self._source} compacts {self._group.name} just now")
        segments = self._replacement.begin(files.base_offsets[0] if files else result.base_offset)
        try:
            if files is not None:
                await copying.copy(files, segments)
            self._append_roll(segments, result)
            end = await self._replacement.sync(segments)
        finally:
            segments.close()
            self.bytes_taken = copying.bytes_taken
        await self._swap_directories(result, files.log_start_offset if files else result.base_offset, end)

    def _append_roll(self, segments: SegmentedLog, result: LogResult) -> None:
        """Append the first roll; raise `Unavailable` unless it is a roll of this group right after the boundary."""
        index, term, batch = result.first
        header = read_header(batch)
        is_sound = end_of_entries((entry_of(index, term, batch),), self._group.group_id) is not None
        if is_sound and is_control(batch) and header.base_offset == result.base_offset:
            kind, payload = read_control(batch, header)
            if kind is ControlKind.ROLL:
                segments.begin_segment(batch, header, decode_roll(payload), term)
                segments.write()
                return
        raise Unavailable(f"node {self._source} sent something else than the roll after {result.boundary}")

    def _may_swap_directories(self) -> bool:
        """Return whether no write to the old log is under way, and no checkpoint needs its files in place."""
        group = self._group
        if group.is_closed or self._port.failure is not None:
            return True  # the caller then has nothing to do
        is_idle = not group.parts and not group.is_dirty and not group.log.is_cut_waiting
        return is_idle and not self._port.persister.checkpoints.is_under_way

    async def _swap_directories(self, result: LogResult, start: Offset, end: LogEnd) -> None:
        """Wait until the old log is idle, replace it, and restart the replica.

        Do nothing if it is not needed any more."""
        port, group = self._port, self._group
        while not self._may_swap_directories():  # noqa: ASYNC110  # four things, none of them an event
            await asyncio.sleep(port.config.tick_ms / 1000)
        if group.is_closed or port.failure or not group.core.needs_install(result.boundary):
            return
        await self._replacement.replace_and_restart(start, end, None, result.first.index)
        _logger.info("%s restarts at offset %s, where the leader's log begins", group.path, start)
        self._replacement.resume()
        port.note_members(group)
