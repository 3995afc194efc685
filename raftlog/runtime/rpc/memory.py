"""Record of other processes and their disks, by which a stale copy of a disk is detected.

    boot epoch and journal sequence of a disk never fall;   at most `peers_max` disks, the longest silent is removed

It records only data of an authenticated peer about itself, over that peer's own connection. It is in memory: the
owner stores `records()`, soon after `on_start` and periodically, and passes them to `restore` after a start. The
cluster metadata decides which disk a node has; `assign_disk` records it. Called by connections."""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from raftlog.runtime.rpc.handshake import Hello, KnownPeer
from raftlog.runtime.transport import ProcessHeartbeat
from raftlog.types import NodeId


class PeerRecord(NamedTuple):
    """Record of another process's disk, as it is stored on this disk.

    `boot_id` belongs to `boot_epoch`; None if only the epoch is known."""

    disk_uuid: UUID
    node_id: NodeId
    boot_epoch: int
    journal_sequence: int
    boot_id: bytes | None


class PeerMemory:
    """Remembered identities of peers: by disk its boot epoch and journal sequence, by node id the assigned disk."""

    def __init__(self, peers_max: int) -> None:
        """Begin without records of peers; at most `peers_max` are stored."""
        self._peers_max = peers_max
        self._records: dict[UUID, PeerRecord] = {}
        self._assigned: dict[NodeId, UUID] = {}
        """Disk of each node id in the cluster metadata."""
        self._live: dict[NodeId, list[UUID]] = {}
        """Disks of open connections, an element for each connection."""
        self.is_retired: Callable[[UUID], bool] = lambda disk_uuid: False
        """Whether a disk was removed from the cluster or replaced; set by the owner."""
        self.is_member: Callable[[NodeId, UUID], bool] = lambda node, disk_uuid: True
        """Whether the disk is the node's in the cluster; others may not send Raft messages. Set by the owner."""
        self.on_start: Callable[[], None] = lambda: None
        """Called at the first connection of a newly started process; the owner then stores its `boot_id`."""

    def find_record(self, node: NodeId, disk_uuid: UUID) -> KnownPeer:
        """Return the record against which a handshake is checked."""
        record = self._records.get(disk_uuid, PeerRecord(disk_uuid, node, 0, 0, None))
        live = self._live.get(node)
        return KnownPeer(
            self._assigned.get(node),
            live[0] if live else None,
            record.boot_epoch,
            record.journal_sequence,
            record.boot_id,
            self.is_retired(disk_uuid),
            next((other for other, disk in self._assigned.items() if disk == disk_uuid and other != node), None),
        )

    def is_allowed(self, hello: Hello) -> bool:
        """Return whether a connection with this introduction is still allowed.

        Another disk may have been assigned to the node in the meantime."""
        peer = hello.identity
        return self._assigned.get(peer.node_id) in (None, peer.disk_uuid) and not self.is_retired(peer.disk_uuid)

    def has_assigned(self, node: NodeId, disk_uuid: UUID) -> bool:
        """Return whether exactly this disk is assigned to the node."""
        assigned = self._assigned.get(node)
        return assigned is disk_uuid or assigned == disk_uuid

    def assign_disk(self, node: NodeId, disk_uuid: UUID | None) -> None:
        """Restrict the node to this disk; None removes the restriction."""
        if disk_uuid is None:
            self._assigned.pop(node, None)
        else:
            self._assigned[node] = disk_uuid

    def add_connection(self, hello: Hello) -> None:
        """Record a handshake that this side accepted, and count its connection as open."""
        peer = hello.identity
        self._update(peer.node_id, peer.disk_uuid, peer.boot_epoch, peer.journal_sequence, hello.boot_id)
        self._live.setdefault(peer.node_id, []).append(peer.disk_uuid)

    def remove_connection(self, hello: Hello) -> None:
        """Count a connection as closed."""
        node = hello.identity.node_id
        live = self._live[node]
        live.remove(hello.identity.disk_uuid)
        if not live:
            del self._live[node]

    def note_heartbeat(self, hello: Hello, heartbeat: ProcessHeartbeat) -> None:
        """Record a heartbeat that came over a connection that began with `hello`."""
        peer = hello.identity
        if heartbeat.boot_epoch == peer.boot_epoch:
            self._update(peer.node_id, peer.disk_uuid, heartbeat.boot_epoch, heartbeat.journal_sequence, hello.boot_id)

    def _update(
        self, node: NodeId, disk_uuid: UUID, boot_epoch: int, journal_sequence: int, boot_id: bytes | None
    ) -> None:
        """Raise a peer's boot epoch and journal sequence; remove the longest silent peer beyond the limit."""
        record = self._records.pop(disk_uuid, None)
        is_start = record is None or boot_epoch > record.boot_epoch or record.boot_id is None
        if record is not None:
            if boot_epoch < record.boot_epoch:
                boot_epoch, boot_id = record.boot_epoch, record.boot_id
            journal_sequence = max(journal_sequence, record.journal_sequence)
        self._records[disk_uuid] = PeerRecord(disk_uuid, node, boot_epoch, journal_sequence, boot_id)
        if len(self._records) > self._peers_max:
            del self._records[next(iter(self._records))]
        if is_start:
            self.on_start()

    # storage across restarts

    def records(self) -> list[PeerRecord]:
        """Return all records that should outlive this process, in a fixed order."""
        return sorted(self._records.values())

    def restore(self, records: list[PeerRecord]) -> None:
        """Restore the records that were stored before the restart."""
        self._records = {record.disk_uuid: record for record in records[-self._peers_max :]}
