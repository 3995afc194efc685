"""Replacement: a log that is built in a separate directory, and then replaces the replica's log.

    begun → filled by its owner → synced → the journal has `install`, durably → the directories change places

A crash before `install` is durable leaves the old log and a directory to delete; after it, recovery makes the
directories change places. Called by `installation`, `refill` and `rebuild`."""

from raftlog.errors import RaftlogError, StorageFull
from raftlog.raft import Installed
from raftlog.runtime.journal.operations import Install, LogEnd
from raftlog.runtime.log.configuration_walk import read_configurations
from raftlog.runtime.log.replica_directory import delete_tree, installing_path, make_replica_directory
from raftlog.runtime.log.startup import open_installed, place_installed_log
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.ports import LogPort
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Offset


class Replacement:
    """One attempt to replace the log of a replica by a new one that is built in another directory."""

    def __init__(self, port: LogPort, group: PartitionReplica) -> None:
        self._port, self._group = port, group
        self.path = installing_path(port.data_dir, group.group_id)

    def begin(self, base_offset: Offset) -> SegmentedLog:
        """Create the directory with an empty log; delete the one that an earlier attempt left."""
        disk = self._port.disk
        if disk.exists(self.path):
            delete_tree(disk, self.path)
        make_replica_directory(disk, self.path, self._group.group_id)
        return SegmentedLog(disk, self.path, (), base_offset)

    async def sync(self, segments: SegmentedLog) -> LogEnd:
        """Make the written log durable and return its end.

        Raises `StorageFull`, and the error that ended the process."""
        segments.publish_rows(segments.last_index)
        if segments.published_index < segments.last_index:
            raise StorageFull(f"{self.path}: no room on the disk; the log needs its size once more")
        changed = segments.list_changes_since_checkpoint()
        await self._port.persister.sync(changed.files, [*changed.directories, self.path.rpartition("/")[0]])
        active = segments.active
        return LogEnd(Offset(active.base_offset), active.row_bytes(active.rows - 1, 1))

    async def replace_log(self, start: Offset, end: LogEnd) -> SegmentedLog:
        """Replace the group's log by the new one, which begins at `start`; the group is frozen meanwhile.

        Raises the error that ended the process: the journal has replaced the old log, so only recovery can continue."""
        port, group = self._port, self._group
        port.persister.checkpoints.note_changed(group)
        try:
            await port.persister.append_durably([Install(group.key, start, end)])
            group.log.segments.close()
            place_installed_log(port.disk, port.data_dir, group.path, group.group_id)
            return open_installed(port.disk, group.path, end, start)
        except (RaftlogError, OSError) as error:
            port.persister.stop_with(error)
            raise

    async def replace_and_restart(
        self, start: Offset, end: LogEnd, configuration_index: Index | None, committed: Index
    ) -> None:
        """Replace the group's log, and restart the replica with the new one, frozen until `resume`."""
        group = self._group
        group.is_frozen = True
        self._port.stop_compaction(group)
        segments = await self.replace_log(start, end)
        group.log.replace(segments)
        found = read_configurations(segments, configuration_index, committed)
        group.core.install(Installed(found.known, committed, committed))
        group.restart_at(committed)
        group.configuration_index = group.core.configuration.index
        group.are_configurations_known = found.damage is None
        if found.damage:
            group.note_damage(found.damage)

    def resume(self) -> None:
        """Unfreeze the group, with the old or the new log."""
        port, group = self._port, self._group
        group.is_frozen = False
        port.persister.checkpoints.note_changed(group)
        port.persister.trash.mark_not_empty()
        port.mark_dirty(group)
