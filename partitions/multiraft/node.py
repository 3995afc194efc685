"""One process of a cluster: its disk, its groups, its ways to others, from `open` through `start` to `stop`.

    node = await Node.open(NodeSettings(…))       identity counted and synced, everything recovered
    await node.start()                            listens, connects; with peers the groups begin after one handshake
    reason = await node.ended                     done when it was stopped (None), or when it failed
    await node.stop()                             leaderships handed over, everything durable, closed

Nothing is sent before the boot epoch is durable. What a failed disk holds is not known, so a failure ends everything
here, and the process has to end. All calls come from one running loop. Called by the façade and the composition root.
"""

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Self

from raftlog.errors import FormatError, InvalidArgument, RaftlogError, Unavailable
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.multiraft.batched_disk import BatchedDisk
from raftlog.partitions.multiraft.identity import NodeDirectory, NodeIdentity
from raftlog.partitions.multiraft.leaders import Leaders
from raftlog.partitions.multiraft.leadership import Leadership, LeaderWaits
from raftlog.partitions.multiraft.opening import draw_uuid, open_driver
from raftlog.partitions.multiraft.remembered_peers import RememberedPeers
from raftlog.partitions.multiraft.requests import Handler, Request, Requests
from raftlog.partitions.multiraft.settings import NodeSettings
from raftlog.partitions.multiraft.status import NodeStatus, count_groups, damage_of, journal_status
from raftlog.partitions.multiraft.surroundings import Address, Surroundings, real_surroundings
from raftlog.raft import Ready, Role
from raftlog.runtime.control_entries import member_of
from raftlog.runtime.driver import Driver
from raftlog.runtime.group import Group
from raftlog.runtime.replica_directory import move_aside
from raftlog.runtime.rpc import Answer, Call, Channel, Identity
from raftlog.storage.roll import Roll
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

_LEAVING = "node.leaving"
_LEAVING_MS = 200
_CREATED_TOGETHER = 8
"""Groups created in one turn of the loop, which stands still meanwhile."""


class Node:
    """See the module. Use `open`."""

    driver: Driver
    leaders: Leaders

    def __init__(self, settings: NodeSettings, surroundings: Surroundings, directory: NodeDirectory) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[RaftlogError | None] = self.loop.create_future()
        """Done when nothing works any more: with None after `stop`, with the reason after a failure."""
        self._surroundings, self._directory = surroundings, directory
        self._disk = BatchedDisk(directory.disk, surroundings.sync_directories)
        self._peers: dict[NodeId, Address] = {NodeId(node): at for node, at in settings.peers.items()}
        self.transport = surroundings.make_transport(self._introduction)
        self._requests = Requests(directory.identity.node_id, self.transport)
        self._requests.on_request(_LEAVING, self._note_leaving)
        self._remembered = RememberedPeers(
            directory.disk, directory.path, self.transport.memory, settings.peers_save_ms / 1000, self._fail
        )
        self._waits = LeaderWaits()
        self._timer: asyncio.TimerHandle | None = None
        self._live_bytes = 0
        self._is_started = self._is_working = False
        self._failure: RaftlogError | None = None
        self._end: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, settings: NodeSettings, surroundings: Surroundings | None = None) -> Self:
        """Lock the directory, count the start, recover every group; blocks the loop.

        Raises `DirectoryLocked`, `InvalidArgument`, `FormatError` and `StorageError`, each saying what to do.
        """
        around = surroundings or real_surroundings(settings)
        directory: NodeDirectory | None = None
        try:
            directory = NodeDirectory.open(
                around.disk,
                settings.data_dir,
                NodeId(settings.node_id),
                settings.cluster_id,
                lambda: draw_uuid(around.random),
            )
            node = cls(settings, around, directory)
            node._open_driver()
        except BaseException:
            if directory is not None:
                directory.close()
            await around.close(True)
            raise
        return node

    def _open_driver(self) -> None:
        self._remembered.restore()
        self.driver = open_driver(self._disk, self._directory, self.settings, self._surroundings, self.transport)
        self.leaders = Leaders(self.identity.replica, self.settings)
        self.driver.loop = self.loop  # requests may come before the groups begin; they find no leader yet
        self.driver.on_failure = self._fail
        self.driver.on_step = self._stepped
        transport = self.transport
        transport.on_envelopes, transport.on_beat = self.driver.receive, self.driver.receive_beat
        transport.on_connection, transport.serve = self._connection_changed, self._serve

    # life

    @property
    def identity(self) -> NodeIdentity:
        return self._directory.identity

    @property
    def is_working(self) -> bool:
        """The groups have begun, and nothing failed."""
        return self._is_working and self._failure is None and not self.ended.done()

    async def start(self) -> None:
        """Listen and connect. Raises `InvalidArgument`, and `OSError` when the address cannot be bound."""
        assert not self._is_started, "the node was started already"
        await self.transport.start(self.settings.rpc_host, self.settings.rpc_port)
        self._is_started = True
        self.transport.set_addresses(self._peers)
        self._timer = self.loop.call_later(self.settings.housekeeping_ms / 1000, self._keep_house)
        if not self._peers:
            self._begin()

    def _begin(self) -> None:
        """Let the groups work. A process that has peers comes here once one of them took its handshake: on an old
        copy of its disk a group of one would otherwise lead, and forget what was acknowledged."""
        if self._is_started and not self._is_working and self._failure is None:
            self._is_working = True
            self.driver.start()

    async def stop(self) -> None:
        """An orderly end, in bounded time. Raises what kept it from being one; everything is given back all the same.

        After a failure it only waits until the rest is closed.
        """
        if self._end is None:
            self._end = self.loop.create_task(self._stop(), name="stop")
        await asyncio.shield(self._end)

    async def _stop(self) -> None:
        try:
            if self._is_working:
                await self._hand_over()
                await self._flush()
        finally:
            await self._close(None)

    async def _hand_over(self) -> None:
        """Others lead first, and know that nothing is to be given back."""
        deadline = deadline_in(_LEAVING_MS)
        await asyncio.gather(*(self._say_goodbye(peer.node, deadline) for peer in self.transport.peers()))
        left = await self.leaders.hand_over_all(self.settings.stop_transfers_ms / 1000)
        if left:
            _logger.warning("%d groups could not be handed over; their other replicas will elect a leader", left)

    async def _say_goodbye(self, node: NodeId, deadline: Deadline) -> None:
        try:
            await self._requests.ask(node, _LEAVING, None, (), deadline)
        except RaftlogError as error:
            _logger.info("node %s was not told that this one stops: %s", node, error)

    async def _flush(self) -> None:
        """Whatever was taken is durable, unless the disk is slower than we wait."""
        try:
            async with asyncio.timeout(self.settings.stop_flush_ms / 1000):
                await self.driver.persister.append_durably(())
        except TimeoutError:
            _logger.warning("the disk did not take everything in %d ms", self.settings.stop_flush_ms)

    async def _close(self, failure: RaftlogError | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._is_started:
                await self.transport.close()
            self.driver.close()
            if failure is None:
                self._remembered.save()
        except RaftlogError as error:
            self._failure = self._failure or error
            raise
        finally:
            self._waits.wake_all()
            await self._surroundings.close(failure is None)
            self._directory.close()
            self.ended.set_result(self._failure)

    def _fail(self, failure: RaftlogError) -> None:
        """Called once by the driver, or by what saves the peers."""
        if self._failure is not None:
            return
        self._failure = failure
        _logger.error("node %s stops: %s", self.identity.node_id, failure)
        if self._end is None:
            self._end = self.loop.create_task(self._close(failure), name="stop after a failure")

    # the neighbourhood

    def set_peers(self, peers: Mapping[NodeId, Address], disks: Mapping[NodeId, uuid.UUID]) -> None:
        """All other nodes and where they are, and which disk each has, as far as that is decided: a process with
        another disk is not listened to."""
        assert self.identity.node_id not in peers, f"node {self.identity.node_id} is named among its own peers"
        for node in sorted({*self._peers, *peers}):
            self.transport.memory.assign_disk(node, disks.get(node))
        self._peers = dict(peers)
        self.transport.set_addresses(self._peers)
        if not peers:
            self._begin()

    def join_cluster(self, cluster_id: str) -> None:
        """Belong to this cluster from now on; durable on return. Raises `InvalidArgument` when it is another one."""
        self._directory.join_cluster(cluster_id)

    def _introduction(self) -> Identity:
        mine, sequence = self.identity, self.driver.journal.durable_sequence
        label = self.settings.host_label
        return Identity(mine.cluster_id, mine.node_id, mine.disk_uuid, mine.boot_epoch, sequence, label)

    def _connection_changed(self, node: NodeId, channel: Channel, is_there: bool) -> None:
        if channel is not Channel.RAFT:
            return
        if is_there:
            self.leaders.note_connected(node, self.loop.time())
            self._begin()
        else:
            self.leaders.note_gone(node)

    async def _note_leaving(self, request: Request) -> Answer:
        self.leaders.note_leaving(request.node)
        return Answer()

    # groups

    def group(self, group_id: uuid.UUID) -> Group | None:
        """This process's replica of a group."""
        return self.driver.groups.get(group_id.bytes)

    def create_group(self, roll: Roll, name: str | None = None) -> Group:
        """Begin as one of the first replicas; blocking. The creation must name this very disk: a wiped one is not it.

        Raises `InvalidArgument`, `Unavailable`, `StorageFull`, `FormatError`, `SyncFailed`.
        """
        if member_of(self.identity.replica) not in roll.voters + roll.learners:
            raise InvalidArgument(
                f"group {roll.group_id} was created without node {self.identity.node_id} on disk "
                f"{self.identity.disk_uuid}: it can only join"
            )
        return self._driver_in_use().create_group(roll, name)

    async def create_groups(self, creations: Sequence[tuple[Roll, str | None]]) -> None:
        """Create many, a few in each turn of the loop, whose directories are synced together; raises like
        `create_group`, and what was created before stays."""
        for at in range(0, len(creations), _CREATED_TOGETHER):
            try:
                with self._disk.together():
                    for roll, name in creations[at : at + _CREATED_TOGETHER]:
                        self.create_group(roll, name)
            except OSError as error:
                self.driver.persister.stop_with(error)
                raise self._failure or error from None
            await asyncio.sleep(0)

    def join_group(self, group_id: uuid.UUID, name: str | None = None) -> Group:
        """Begin with an empty log that the leader will fill; blocking. What stood in its place is kept aside."""
        driver = self._driver_in_use()
        try:
            return driver.join_group(group_id, name)
        except FormatError:
            path = f"{driver.data_dir}/{name or group_id}"
            kept = move_aside(driver.disk, driver.data_dir, path)
            _logger.warning("%s held a log that the journal does not know; it is kept in %s", path, kept)
            return driver.join_group(group_id, name)

    def remove_group(self, group_id: uuid.UUID) -> None:
        """Forget a replica for good: its directory goes."""
        self.driver.remove_group(group_id.bytes)
        self.leaders.forget(group_id.bytes)
        self._waits.wake(group_id.bytes)

    def _driver_in_use(self) -> Driver:
        if self._failure is not None or self._end is not None:
            raise Unavailable(f"node {self.identity.node_id} stops: {self._failure or 'it was told to'}")
        return self.driver

    # who leads

    def leader_of(self, group_id: uuid.UUID) -> Leadership | None:
        """Who leads a group; None when it has no replica here."""
        group = self.group(group_id)
        if group is None:
            return None
        core = group.core
        return Leadership(core.leader, core.role is Role.LEADER, core.has_own_term_commit, core.term)

    async def wait_for_leader(self, group_id: uuid.UUID, deadline: Deadline) -> Leadership | None:
        """The same once a leader is known, or after the deadline, or when the replica is gone."""
        while (known := self.leader_of(group_id)) is not None and known.leader is None and not self.ended.done():
            if not await self._waits.changed(group_id.bytes, deadline):
                break
        return known

    def _stepped(self, group: Group, ready: Ready) -> None:
        if ready.role_state is not None:
            self.leaders.note_role(group, ready.role_state.role)
            self._waits.wake(group.key)

    # requests of other nodes

    async def ask(self, node: NodeId, name: str, header: Any, payload: Sequence[Any], deadline: Deadline) -> Answer:
        """Ask another node, once; see `requests` for what its failures mean."""
        return await self._requests.ask(node, name, header, payload, deadline)

    def on_request(self, name: str, handler: Handler) -> None:
        """Serve requests of this name."""
        self._requests.on_request(name, handler)

    async def _serve(self, node: NodeId, request: object) -> object:
        if isinstance(request, Call):
            return await self._requests.serve(node, request)
        return await self.driver.serve(node, request)

    # time, pictures

    def _keep_house(self) -> None:
        self._timer = self.loop.call_later(self.settings.housekeeping_ms / 1000, self._keep_house)
        now, live_bytes = self.loop.time(), self.driver.journal.live_bytes
        is_checkpoint, self._live_bytes = live_bytes < self._live_bytes, live_bytes
        self._remembered.maybe_save(now, is_checkpoint=is_checkpoint)
        if self.is_working and self._end is None:
            self.leaders.tick(now)

    def status(self) -> NodeStatus:
        """For operators; looks through all groups."""
        groups = self.driver.groups.values()
        return NodeStatus(
            self.identity,
            self.transport.address if self._is_started else None,
            self.is_working,
            str(self._failure) if self._failure else None,
            count_groups(groups),
            damage_of(groups),
            journal_status(self.driver.journal),
            tuple(self.transport.peers()),
            self.transport.complaints,
            self.driver.messages_refused,
            self.transport.messages_unaddressed,
        )
