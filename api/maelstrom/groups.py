"""Raft groups of a Maelstrom node: recovery from the directory, and a keyspace for each group.

    begin → (driver recovered, groups created, other nodes notified, preferred leaders campaign) → close

Every node is a voter of every group. All nodes derive the nodes' disk uuids and the groups' ids from the list of nodes.
The directory stores the cluster id, which is derived from this list. A node whose directory was deleted must not
restart under its name, because it could vote twice in a term. Called by `node`."""

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from raftlog.api.maelstrom.keyspace import Keyspace
from raftlog.api.maelstrom.settings import MaelstromSettings
from raftlog.api.maelstrom.wire import MaelstromTransport
from raftlog.errors import RaftlogError, StorageError
from raftlog.partitions.node.campaigns import Campaigns
from raftlog.partitions.node.identity import NodeDirectory
from raftlog.partitions.node.leadership import LeaderWaits
from raftlog.raft import Ready, ReplicaId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.control_entries import member_of
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.rpc.handshake import PeerIdentity
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.roll import Roll
from raftlog.storage.syncs.sync_threads import SyncThreads
from raftlog.types import NodeId

_SYNC_THREADS: Final = 2
_SPACE: Final = uuid.UUID("5e5b1a8b-55a1-4c4c-9c43-0c8f7f6f6d10")


class MaelstromCluster(NamedTuple):
    """Names of the nodes, in the order of the `init` message, and the number of Raft groups."""

    me: str
    names: tuple[str, ...]
    groups: int

    @property
    def id(self) -> str:
        return str(uuid.uuid5(_SPACE, "\n".join((str(self.groups), *self.names))))

    def node_id(self, name: str) -> NodeId:
        """Return the node id of a Maelstrom node: its place in `names`, from 1 on."""
        return NodeId(self.names.index(name) + 1)

    def others(self) -> dict[NodeId, str]:
        """Return the names of the other nodes by node id."""
        return {self.node_id(name): name for name in self.names if name != self.me}

    def other_replicas(self) -> dict[NodeId, ReplicaId]:
        """Return the replica ids of the other nodes by node id."""
        return {node: self.replica(name) for node, name in self.others().items()}

    def replica(self, name: str) -> ReplicaId:
        """Return the replica id of a node; its disk uuid follows from the names of all nodes."""
        return ReplicaId(self.node_id(name), uuid.uuid5(_SPACE, f"{self.id} node {name}"))

    def roll(self, number: int) -> Roll:
        """Return the first roll of a Raft group, the same on every node."""
        voters = tuple(member_of(self.replica(name)) for name in self.names)
        return Roll(uuid.uuid5(_SPACE, f"{self.id} group {number}"), 1, 0, 0, -1, 0, 1, voters)

    def preferred_leader(self, number: int) -> str:
        """Return the name of the node that should lead the Raft group with this number."""
        return self.names[number % len(self.names)]


class MaelstromGroups:
    """Raft groups of a node. `post(name, body)` sends a message; `on_failure` is called when the disk fails."""

    def __init__(
        self,
        settings: MaelstromSettings,
        cluster: MaelstromCluster,
        post: Callable[[str, dict[str, Any]], None],
        on_failure: Callable[[RaftlogError], None],
    ) -> None:
        """Recover the groups from the directory; blocks. Raises `RaftlogError` with the next step for users."""
        self._loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._threads = SyncThreads(_SYNC_THREADS)
        self._waits = LeaderWaits()
        disk = RealDisk(self._threads.run, self._loop.call_soon_threadsafe)
        path = os.path.join(os.path.abspath(settings.data_dir), cluster.me)
        me = cluster.replica(cluster.me)
        self._directory = NodeDirectory.open(disk, path, me.node_id, cluster.id, lambda: me.disk_uuid)
        try:
            self._open(disk, settings, post, on_failure)
        except OSError as error:
            raise StorageError(f"{path} cannot be used: {error}") from error

    def _open(
        self,
        disk: RealDisk,
        settings: MaelstromSettings,
        post: Callable[[str, dict[str, Any]], None],
        on_failure: Callable[[RaftlogError], None],
    ) -> None:
        """Open the transport and the driver, and create the Raft groups that the directory does not have yet."""
        identity, cluster = self._directory.identity, self._cluster
        random = Random()  # noqa: S311  # election timeouts and correlations; seeded by the operating system
        shown = PeerIdentity(cluster.id, identity.node_id, identity.disk_uuid, identity.boot_epoch, 0, "")
        self.transport = MaelstromTransport(
            shown, cluster.others(), cluster.other_replicas(), post, random, settings.linger_ms / 1000
        )
        self.driver = Driver.open(
            disk,
            self._directory.path,
            identity.replica,
            self.transport,
            random,
            settings.driver_config(),
            boot_epoch=identity.boot_epoch,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            create=not identity.has_journal,
        )
        self._directory.mark_journal_created()
        self.driver.on_failure, self.driver.on_step = on_failure, self._on_step
        self.driver.loop = self._loop
        self._campaigns = Campaigns(self._loop, identity.replica, self.driver.mark_dirty)
        self.keyspaces = [self._open_keyspace(number) for number in range(cluster.groups)]
        self._by_key: dict[GroupKey, Keyspace] = {space.group.key: space for space in self.keyspaces}

    def _open_keyspace(self, number: int) -> Keyspace:
        """Return the keyspace of the Raft group with this number; create the group if it does not exist."""
        roll = self._cluster.roll(number)
        group = self.driver.groups.get(roll.group_id.bytes)
        return Keyspace(number, group or self.driver.create_group(roll, f"keys/{number}"), self._loop)

    def begin(self, serve: Callable[[NodeId, object], Any]) -> None:
        """Start the groups; `serve(node, request)` answers requests of other nodes."""
        transport, me = self.transport, self._cluster.me
        transport.on_envelopes, transport.on_heartbeat = self.driver.receive, self.driver.receive_heartbeat
        transport.serve = serve
        transport.open()
        self.driver.start()
        transport.notify_all()
        preferred = [space.group for space in self.keyspaces if self._cluster.preferred_leader(space.number) == me]
        if len(self._cluster.names) == 1:
            self._campaigns.begin_alone(preferred)
        else:
            self._campaigns.begin(preferred)

    async def close(self) -> None:
        """Stop the groups and close their files, after a sync; this can hang with the disk, unless it has failed."""
        self._campaigns.stop()
        self._waits.wake_all()
        has_failed = self.driver.failure is not None
        self.transport.close()
        self.driver.close()
        self._directory.close()
        await asyncio.to_thread(self._threads.close, not has_failed)

    def keyspace_of(self, key: str) -> Keyspace:
        """Return the keyspace that contains a key, given the key's text."""
        return self.keyspaces[crc32c(key.encode()) % len(self.keyspaces)]

    async def wait_for_leader_change(self, space: Keyspace, deadline: float) -> bool:
        """Wait until this replica's role or term or the leader changes; return false at the deadline."""
        return await self._waits.changed(space.group.key, deadline)  # type: ignore[arg-type]  # the loop's time

    def _on_step(self, group: PartitionReplica, ready: Ready) -> None:
        """Apply new entries after a step of the driver; wake tasks that wait for a change of leader."""
        if ready.role_state is not None:
            self._waits.wake(group.key)
        self._by_key[group.key].step()
