"""Bugs in the recovery of brokers: from lost and old disks, damaged files, full disks."""

from collections.abc import Callable
from uuid import UUID

from jepsen.planted.patch import replace_method
from raftlog.partitions.node import identity, opening
from raftlog.partitions.node.environment import NodeEnvironment
from raftlog.partitions.node.identity import NodeDirectory
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.node_identity import JOURNAL, NodeIdentity
from raftlog.runtime.rpc import handshake
from raftlog.runtime.rpc.handshake import Hello, KnownPeer
from raftlog.runtime.transfer.repair import Repair
from raftlog.storage.directory import internal_path
from raftlog.storage.disk import Disk
from raftlog.types import NodeId


def keep_identity_of_wiped_disk() -> None:
    """Plant a bug: after its disk was wiped, a process keeps its identity and votes with an empty log."""
    save, identify = NodeDirectory._save, identity._identify
    known: dict[tuple[Disk, NodeId], NodeIdentity] = {}

    def save_and_remember(self: NodeDirectory, mine: NodeIdentity) -> None:
        """Save the identity, and remember it outside of the disk."""
        save(self, mine)
        known[self.disk, mine.node_id] = mine

    def identify_as_before(
        disk: Disk, path: str, node_id: NodeId, cluster_id: str | None, draw_uuid: Callable[[], UUID]
    ) -> NodeIdentity:
        """Return the remembered identity with the next boot epoch for a new disk, otherwise the usual one."""
        mine = identify(disk, path, node_id, cluster_id, draw_uuid)
        before = known.get((disk, node_id))
        if before is None or mine.boot_epoch > 1:
            return mine
        return before._replace(boot_epoch=before.boot_epoch + 1, has_journal=False)

    replace_method(NodeDirectory, "_save", save_and_remember)
    replace_method(identity, "_identify", identify_as_before)


def replace_damaged_journal() -> None:
    """Plant a bug: a process with a damaged journal begins an empty one, and keeps its identity.

    So the process forgets its votes and acknowledgements."""

    def begin_anew(directory: NodeDirectory, _why: str, _environment: NodeEnvironment) -> None:
        """Rename the damaged journal's directory, and save that this identity has no journal yet."""
        journals, mine = internal_path(directory.path, JOURNAL), str(directory.identity.disk_uuid)
        directory.disk.rename(f"{journals}/{mine}", f"{journals}/{mine}-{directory.identity.boot_epoch}")
        directory._save(directory.identity._replace(has_journal=False))

    replace_method(opening, "_take_new_disk", begin_anew)


def accept_stale_disk() -> None:
    """Plant a bug: a returning peer's disk is not compared with the last known state of that disk."""

    def accept_any(_theirs: Hello, _known: KnownPeer) -> None:
        """Accept the peer's disk without comparing it."""
        return

    replace_method(handshake, "_check_history", accept_any)


def drop_bytes_without_room() -> None:
    """Plant a bug: data that a full disk refused are counted as written."""
    write = GroupLog.write

    def write_what_fits(self: GroupLog) -> bool:
        """Write; discard the data that do not fit, count them as written, and return whether all are."""
        if write(self):
            return True
        for segment in self.segments._dirty:
            segment._unwritten.clear()
            segment._written_position = segment.end_position
        self._written = self.segments.last_index
        self._end = self._end_of_files()
        return self._written == self._last_index

    replace_method(GroupLog, "write", write_what_fits)


def lift_quarantine() -> None:
    """Plant a bug: a quarantine is lifted without repairing anything."""

    async def skip_repair(self: Repair) -> None:
        """Forget the damage and lift the quarantine at once."""
        group = self._group
        group.damage = None
        group.core.lift_quarantine()

    replace_method(Repair, "run", skip_repair)
