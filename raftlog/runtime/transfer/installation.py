"""Installation: a follower whose log ends before the leader's begins starts anew at the leader's beginning.

    the leader's compacted files, if it has any, are copied into a directory beside, and the first entry behind them, or
    behind nothing, a committed roll → synced
    → the journal has `install`, durably → the directories change places → the core continues behind the roll

Every entry of the old log is committed and trimmed away elsewhere, or was never committed; so no promised entry is lost
by it, and the entries behind the roll are fetched into the log itself (`log_fetch`). A crash before `install`
is durable leaves the old log, and something to delete; after it, recovery makes the directories change places. While
that one sync is under way the replica is frozen: nothing may happen to the old log."""

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
from raftlog.runtime.transfer.ports import LogPort, ask
from raftlog.runtime.transfer.replacement import Replacement
from raftlog.storage.roll import decode_roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import NodeId, Offset

_logger = logging.getLogger(__name__)


class Installation:
    """Installation attempt, from one replica."""

    def __init__(self, port: LogPort, group: PartitionReplica, source: NodeId) -> None:
        self._port = port
        self._group = group
        self._source = source
        self._replacement = Replacement(port, group)
        self.bytes_taken = 0
        """Bytes of compacted files."""

    async def run(self) -> None:
        """Fetch, sync, change places. Raises `RaftlogError`, `OSError` or `TimeoutError`; then the old log stays."""
        result = await ask(self._port, self._source, LogRequest(self._group.key))
        if not isinstance(result, LogResult):
            raise Unavailable(f"node {self._source} answered with {type(result).__name__}")
        if not self._group.core.wants_install(result.boundary):
            return
        copying = FileCopy(self._port, self._group, self._source)
        files = await copying.ask_files(result.base_offset) if result.files else None
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
        await self._change_places(result, files.log_start_offset if files else result.base_offset, end)

    def _append_roll(self, segments: SegmentedLog, result: LogResult) -> None:
        """Append the roll; raise `Unavailable` for anything but the roll of this group behind the boundary."""
        index, term, batch = result.first
        header = read_header(batch)
        is_sound = end_of_entries((entry_of(index, term, batch),), self._group.group_id) is not None
        if is_sound and is_control(batch) and header.base_offset == result.base_offset:
            kind, payload = read_control(batch, header)
            if kind is ControlKind.ROLL:
                segments.begin_segment(batch, header, decode_roll(payload), term)
                segments.write()
                return
        raise Unavailable(f"node {self._source} sent something else than the roll behind {result.boundary}")

    def _may_change_places(self) -> bool:
        """Return whether nothing is on its way to the old log, and no checkpoint needs its files in place."""
        group = self._group
        if group.is_closed or self._port.failure is not None:
            return True  # the caller then finds that nothing is to do
        is_idle = not group.parts and not group.is_dirty and not group.log.is_cut_waiting
        return is_idle and not self._port.persister.checkpoints.is_under_way

    async def _change_places(self, result: LogResult, start: Offset, end: LogEnd) -> None:
        port, group = self._port, self._group
        while not self._may_change_places():  # noqa: ASYNC110  # four things, none of them an event
            await asyncio.sleep(port.config.tick_ms / 1000)
        if group.is_closed or port.failure or not group.core.wants_install(result.boundary):
            return
        await self._replacement.become_log(start, end, None, result.first.index)
        _logger.info("%s restarts at offset %s, where the leader's log begins", group.path, start)
        self._replacement.resume()
        port.note_members(group)
