"""A follower behind the leader's log start gets the leader's log, entry by entry, in the place of its own.

    fetched into a directory beside (one segment for each of the leader's, byte for byte) → synced
    → the journal says `install`, durably → the directories change places → the core goes on from there

A crash before `install` is durable leaves the old log, and something to delete; after it, recovery makes the
directories change places. While that one sync is under way the replica is deaf: nothing may happen to the old log.
"""

import asyncio
from typing import TYPE_CHECKING

from raftlog.errors import RaftlogError, Unavailable
from raftlog.raft import Installed
from raftlog.raft.messages import InstallOffer
from raftlog.records import ControlKind, crc_matches, read_control, read_header
from raftlog.runtime.admission import end_of_entries
from raftlog.runtime.bulk import EntriesAsked, EntriesFound, LogAsked, LogFound
from raftlog.runtime.configuration_walk import configurations
from raftlog.runtime.control_entries import entry_of, is_control
from raftlog.runtime.group import Group
from raftlog.runtime.journal.operations import Install, LogEnd
from raftlog.runtime.opening import open_installed, take_installed_place
from raftlog.runtime.replica_directory import delete_tree, installing_path, make_replica_directory
from raftlog.storage.roll import decode_roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Offset, Term

if TYPE_CHECKING:  # the driver owns this
    from raftlog.runtime.driver import Driver


class Installation:
    """One attempt."""

    def __init__(self, driver: "Driver", group: Group, offer: InstallOffer) -> None:
        self._driver = driver
        self._group = group
        self._source = offer.sender.node_id
        self._path = installing_path(driver.data_dir, group.group_id)

    async def run(self) -> None:
        """Fetch, sync, change places. Raises `RaftlogError`, `OSError` or `TimeoutError`; then the old log stays."""
        found = await self._ask(LogAsked(self._group.key))
        if not isinstance(found, LogFound):
            raise Unavailable(f"node {self._source} answered with {type(found).__name__}")
        if not self._group.core.wants_install(found.boundary):
            return
        segments = self._begin(found)
        try:
            await self._fetch(segments, found)
            end = await self._sync(segments)
        finally:
            segments.close()
        await self._change_places(found, end)

    async def _ask(self, request: object) -> object:
        timeout_s = self._driver.config.transfer_timeout_ms / 1000
        return await asyncio.wait_for(self._driver.transport.request(self._source, request), timeout_s)

    def _begin(self, found: LogFound) -> SegmentedLog:
        disk = self._driver.disk
        if disk.exists(self._path):
            delete_tree(disk, self._path)
        make_replica_directory(disk, self._path, self._group.group_id)
        return SegmentedLog(disk, self._path, (), found.base_offset)

    async def _fetch(self, segments: SegmentedLog, found: LogFound) -> None:
        group, config = self._group, self._driver.config
        next_index = Index(found.boundary.index + 1)
        while next_index <= found.committed_index:
            asked = EntriesAsked(group.key, next_index, found.committed_index, config.transfer_chunk_bytes)
            answer = await self._ask(asked)
            if not isinstance(answer, EntriesFound) or not answer.entries:
                raise Unavailable(f"node {self._source} has no entry {next_index}")
            for index, term, batch in answer.entries:
                entry = entry_of(index, term, batch)
                if index != next_index or end_of_entries((entry,), group.group_id) is None:
                    raise Unavailable(f"node {self._source} sent something else than entry {next_index}")
                self._append(segments, batch)
                next_index = Index(next_index + 1)
            segments.write()

    @staticmethod
    def _append(segments: SegmentedLog, batch: bytes) -> None:
        header = read_header(batch)
        if header.base_offset != segments.next_offset or not crc_matches(batch, header):
            raise Unavailable(f"offset {header.base_offset} was sent where {segments.next_offset} follows")
        if is_control(batch):
            kind, payload = read_control(batch, header)
            if kind is ControlKind.ROLL:
                segments.begin_segment(batch, header, decode_roll(payload), Term(header.leader_epoch))
                return
        if not segments.segments:
            raise Unavailable("the log that was sent does not begin with a roll")
        segments.append_stamped(batch, header)

    async def _sync(self, segments: SegmentedLog) -> LogEnd:
        segments.publish_rows(segments.last_index)
        if segments.published_index < segments.last_index:
            raise Unavailable(f"{self._path}: no room on the disk")
        changed = segments.changed_since_checkpoint()
        parent = self._path.rpartition("/")[0]
        await self._driver.persister.sync(changed.files, [*changed.directories, parent])
        active = segments.active
        return LogEnd(Offset(active.base_offset), active.row_bytes(active.rows - 1, 1))

    def _may_change_places(self) -> bool:
        """Whether nothing is on its way to the old log, and no checkpoint needs its files where they are."""
        group = self._group
        if group.is_closed or self._driver.failure is not None:
            return True  # to find out that there is nothing to do
        is_idle = not group.parts and not group.is_dirty and not group.log.is_cut_waiting
        return is_idle and not self._driver.persister.checkpoints.is_under_way

    async def _change_places(self, found: LogFound, end: LogEnd) -> None:
        driver, group = self._driver, self._group
        while not self._may_change_places():  # noqa: ASYNC110  # four things, none of them an event
            await asyncio.sleep(driver.config.tick_ms / 1000)
        if group.is_closed or driver.failure or not group.core.wants_install(found.boundary):
            return
        group.is_deaf = True
        driver.persister.checkpoints.note_changed(group)
        try:
            await driver.persister.append_durably([Install(group.key, found.log_start_offset, end)])
            group.log.segments.close()
            take_installed_place(driver.disk, driver.data_dir, group.path, group.group_id)
            segments = open_installed(driver.disk, group.path, end, found.log_start_offset)
        except (RaftlogError, OSError) as error:
            # The old log is gone by what the journal says, the new one is not in its place: only recovery can go on.
            driver.persister.stop_with(error)
            return
        group.log.replace(segments)
        committed = found.committed_index
        known = configurations(segments, None, committed)
        group.core.install(Installed(known, committed, committed))
        group.restart_at(committed)
        group.configuration_index = group.core.configuration.index
        group.is_deaf = False
        driver.persister.checkpoints.note_changed(group)
        driver.persister.trash.look_again()
        driver.note_members(group)
        driver.mark_dirty(group)
