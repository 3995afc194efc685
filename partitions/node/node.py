"""One process of a cluster: its disk, its groups and its connections, from `open` through `start` to `stop`.

    node = await Node.open(NodeSettings(…))       start counted durably, everything recovered
    await node.start()                            listens, connects; with peers the groups begin after one handshake
    reason = await node.ended                     done after a stop (None) or a failure (its error)
    await node.stop()                             leaderships transferred, everything durable, closed

Nothing is sent before the boot epoch is durable. The content of a failed disk is unknown, so a failure ends everything
here, and the process has to end. All calls come from one running loop. Called by the façade and the composition root.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self

from raftlog.errors import (
    DiskRefused,
    IdentityRefused,
    RaftlogError,
    StorageError,
    Unavailable,
)
from raftlog.events import event
from raftlog.partitions.addresses import Address, address_text
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node.campaigns import Campaigns
from raftlog.partitions.node.environment import NodeEnvironment, real_environment
from raftlog.partitions.node.fitness_exchange import FitnessExchange
from raftlog.partitions.node.identity import NodeDirectory
from raftlog.partitions.node.leader_statistics import LeaderStatistics
from raftlog.partitions.node.leaders import LedGroups
from raftlog.partitions.node.leadership import Leadership, LeaderWaits
from raftlog.partitions.node.liveness import HeartbeatTimes
from raftlog.partitions.node.opening import check_creation, draw_uuid, join_group, open_driver
from raftlog.partitions.node.refusals import Consequence, consequence_of
from raftlog.partitions.node.remembered_peers import RememberedPeers
from raftlog.partitions.node.requests import Handler, Requests
from raftlog.partitions.node.settings import NodeSettings
from raftlog.raft import Ready, Role
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.node_identity import NodeIdentity
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.handshake import Channel, HandshakeRefusal, PeerIdentity
from raftlog.runtime.transport import ProcessHeartbeat
from raftlog.storage.roll import Roll
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)


def _ignore(*_: object) -> None:
    """Do nothing; default of callbacks."""


class Node:
    """Process of a cluster with its replicas and connections, below the `Broker`; `open` creates it."""

    driver: Driver
    leaders: LedGroups
    fitness_exchange: FitnessExchange

    def __init__(self, settings: NodeSettings, environment: NodeEnvironment, directory: NodeDirectory) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[RaftlogError | None] = self.loop.create_future()
        """Done when the node has ended: with None after `stop`, with the error after a failure."""
        self.on_step: Callable[[PartitionReplica, Ready], None] = _ignore
        """Called with every Ready of any group, after the node has processed it."""
        self.is_established: Callable[[], bool] = lambda: True
        """Whether this process is a registered member of its cluster, by its own copy of the metadata (see `refusals`).
        """
        self.environment, self._directory = environment, directory
        self.on_lost: Callable[[NodeId], None] = _ignore  # called when the connection to a node is lost
        self._watchers: dict[GroupKey, Callable[[PartitionReplica, Ready], None]] = {}
        self._heartbeat_times = HeartbeatTimes(self.loop.time)
        self._peers: dict[NodeId, Address] = {NodeId(node): at for node, at in settings.peers.items()}
        self.transport = environment.make_transport(self._own_identity)
        self._requests = Requests(directory.identity.node_id, self.transport)
        self._remembered = RememberedPeers(
            directory.disk, directory.path, self.transport.memory, settings.peers_save_ms / 1000, self.fail
        )
        self._waits, self.leader_statistics = LeaderWaits(), LeaderStatistics(self.loop.time)
        self._timer: asyncio.TimerHandle | None = None
        self._live_bytes = 0
        self._is_started = self._is_working = False
        self._failure: RaftlogError | None = None
        self._end: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, settings: NodeSettings, environment: NodeEnvironment | None = None) -> Self:
        """Lock the directory, count the start, and recover every group; blocks the loop.

        Raises `DirectoryLocked`, `InvalidArgument`, `FormatError` and `StorageError`, each with its remedy."""
        chosen = environment or real_environment(settings)
        directory: NodeDirectory | None = None
        try:
            directory = NodeDirectory.open(
                chosen.disk,
                settings.data_dir,
                NodeId(settings.node_id),
                settings.cluster_id,
                lambda: draw_uuid(chosen.random),
            )
            node = cls(settings, chosen, directory)
            node._open_driver()
        except BaseException:
            if directory is not None:
                directory.close()
            await chosen.close(True)
            raise
        return node

    def _open_driver(self) -> None:
        """Open the driver on the directory, and connect its callbacks with those of the transport."""
        self._remembered.restore()
        self.driver = open_driver(
            self._directory.disk, self._directory, self.settings, self.environment, self.transport
        )
        self.fitness_exchange = FitnessExchange(self, self._requests)
        self.leaders = LedGroups(self.identity.replica, self.settings, self.fitness_exchange.fitness)
        self.driver.loop = self.loop  # requests may come before the groups begin; they find no leader yet
        self.driver.on_failure = self.fail
        self.driver.on_step = self._on_step
        self._campaigns = Campaigns(self.loop, self.identity.replica, self.driver.mark_dirty)
        transport = self.transport
        transport.on_envelopes, transport.on_heartbeat = self.driver.receive, self._receive_heartbeat
        transport.on_refused = self._on_refusal
        transport.on_connection, transport.serve = self._connection_changed, self._serve
        transport.serve_probe = self._requests.serve_probe

    # life

    @property
    def identity(self) -> NodeIdentity:
        return self._directory.identity

    @property
    def is_working(self) -> bool:
        """Whether the groups have begun and nothing has failed."""
        return self._is_working and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether the node has failed or ended; before its groups begin it has not."""
        return self._failure is not None or self.ended.done()

    async def start(self) -> None:
        """Listen and connect. Raises `InvalidArgument`, and `OSError` when the address cannot be bound."""
        assert not self._is_started, "the node was started already"
        await self.transport.start(self.settings.rpc_host, self.settings.rpc_port)
        self._is_started = True
        self.transport.set_addresses(self._peers)
        self._timer = self.loop.call_later(self.settings.housekeeping_ms / 1000, self._run_maintenance)
        if not self._peers:
            self._begin()

    def _begin(self) -> None:
        """Start the groups.

        With peers this happens once one of them has accepted the handshake. Otherwise a sole voter on an old copy of
        its disk would lead and lose acknowledged records."""
        if self._is_started and not self._is_working and self._failure is None:
            self._is_working = True
            self.driver.start()
            self._campaigns.begin_alone(self.driver.groups.values())

    async def stop(self) -> None:
        """Stop in bounded time, and release everything. Raises the first error of the stop.

        After a failure it only waits until the rest is closed."""
        if self._end is None:
            self._end = self.loop.create_task(self._stop(), name="stop")
        await asyncio.shield(self._end)

    async def _stop(self) -> None:
        """Transfer leaderships, wait for requests, flush, and close."""
        try:
            if self._is_working:
                await self._hand_over()
                await self._requests.wait_until_quiet(self.settings.stop_answers_ms / 1000)
                await self._flush()
        finally:
            await self._close(None)

    async def _hand_over(self) -> None:
        """Announce the stop, so that no leadership returns, and transfer all leaderships."""
        await self.fitness_exchange.announce_stop()
        left = await self.leaders.hand_over_all(self.settings.stop_transfers_ms / 1000)
        if left:
            _logger.warning("%d groups could not be handed over; their other replicas will elect a leader", left)

    async def _flush(self) -> None:
        """Wait until all accepted entries are durable, at most `stop_flush_ms`."""
        try:
            async with asyncio.timeout(self.settings.stop_flush_ms / 1000):
                await self.driver.persister.append_durably(())
        except TimeoutError:
            _logger.warning("the disk did not sync all entries within %d ms", self.settings.stop_flush_ms)

    async def _close(self, failure: RaftlogError | None) -> None:
        """Close transport and driver; `failure` is the reason, None for an orderly stop."""
        self._campaigns.stop()
        self.fitness_exchange.stop()
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
            self._remembered.stop()
            self._waits.wake_all()
            await self.environment.close(failure is None)
            self._directory.close()
            self.ended.set_result(self._failure)

    def fail(self, failure: RaftlogError) -> None:
        """End the node with an error, after which the process has to end. Only the first call counts."""
        if self._failure is not None:
            return
        self._failure = failure
        event(_logger, "process_failed", node=self.identity.node_id, why=str(failure))
        if self._end is None:
            self._end = self.loop.create_task(self._close(failure), name="stop after a failure")

    # peers

    def set_peers(self, peers: Mapping[NodeId, Address], disks: Mapping[NodeId, uuid.UUID]) -> None:
        """Set the addresses of all other nodes, and their disk uuids where the cluster has decided them.

        Messages of a process with another disk are ignored."""
        assert self.identity.node_id not in peers, f"node {self.identity.node_id} is named among its own peers"
        for node in sorted({*self._peers, *peers}):
            self.transport.memory.assign_disk(node, disks.get(node))
        self._peers = dict(peers)
        self.transport.set_addresses(self._peers)
        self.transport.drop_outsiders()
        if not peers:
            self._begin()

    def join_cluster(self, cluster_id: str) -> None:
        """Store the cluster id; durable on return. Raises `InvalidArgument` if there is another one."""
        self._directory.join_cluster(cluster_id)

    def _own_identity(self) -> PeerIdentity:
        """Return the identity of this process for handshakes."""
        mine, sequence = self.identity, self.driver.journal.durable_sequence
        at = self.settings.advertise_rpc or self.transport.address
        address = "" if at is None else address_text(at)
        known = (mine.cluster_id, mine.node_id, mine.disk_uuid, mine.boot_epoch, sequence)
        return PeerIdentity(*known, self.settings.host_label, rpc_address=address)

    def run_essential_task(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Run a task until the process ends; its failure ends the process."""
        task = self.loop.create_task(work, name=name)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: "asyncio.Task[None]") -> None:
        """End the node with the error of an essential task that failed."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("%s failed", task.get_name(), exc_info=error)
            self.fail(StorageError(f"{task.get_name()} failed, and the process cannot run without it: {error!r}"))

    def _on_refusal(self, refusal: HandshakeRefusal) -> None:
        """End the node if a refused handshake means that this process or its disk has no place in the cluster."""
        consequence = consequence_of(refusal, self.identity.cluster_id, self.is_established())
        if consequence is Consequence.NONE or self._failure is not None:
            return
        if consequence is Consequence.END:
            self.fail(IdentityRefused(refusal.message))
            return
        try:
            self._directory.store_refusal(refusal.message)
        except OSError as error:
            _logger.error("the refusal cannot be kept in %s: %s", self._directory.path, error)
        self.fail(DiskRefused(f"{refusal.message}. The next start on this directory takes a new disk uuid"))

    def _receive_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        """Record the heartbeat of another process."""
        self._heartbeat_times.record_heartbeat(node)
        self.driver.receive_heartbeat(node, heartbeat)

    def heard_at(self, node: NodeId) -> float | None:
        """Return the loop's time of the last heartbeat from a process with a shared group; None without one."""
        return self._heartbeat_times.heard_at(node)

    def _connection_changed(self, node: NodeId, channel: Channel, is_there: bool) -> None:
        """Record a new or a lost connection of the Raft channel; begin the Raft groups with the first one."""
        if channel is not Channel.RAFT:
            return
        if is_there:
            self.leaders.record_connected(node, self.loop.time())
            self._heartbeat_times.restart_timeout(node)
            self._begin()
        else:
            self.leaders.record_disconnected(node)
            self.on_lost(node)

    # groups

    def find_replica(self, group_id: uuid.UUID) -> PartitionReplica | None:
        """Return this process's replica of a Raft group; None if there is none."""
        return self.driver.groups.get(group_id.bytes)

    def create_group(self, roll: Roll, name: str | None = None) -> PartitionReplica:
        """Create one of the first replicas of a group; blocking. The creation has to name this disk.

        Raises `InvalidArgument`, `Unavailable`, `StorageFull`, `FormatError`, `SyncFailed`."""
        check_creation(self.identity, roll)
        group = self._working_driver().create_group(roll, name)
        self._begin_first_election([group])
        return group

    async def create_groups(self, creations: Sequence[tuple[Roll, str | None]]) -> None:
        """Create several replicas without blocking the loop; their files are synced together.

        Raises like `create_group`; replicas that were created before stay."""
        for roll, _ in creations:
            check_creation(self.identity, roll)
        driver = self._working_driver()
        await driver.create_groups(creations)
        created = (driver.groups.get(roll.group_id.bytes) for roll, _ in creations)
        self._begin_first_election([group for group in created if group is not None])

    def _begin_first_election(self, groups: Sequence[PartitionReplica]) -> None:
        """Begin the first election of new groups."""
        me = self.identity.replica
        self._campaigns.begin_alone(groups)
        self.campaign([group for group in groups if self.leaders.preferred(group.group_id) == me])

    def campaign(self, groups: Sequence[PartitionReplica]) -> None:
        """Start elections in new groups, without waiting for an election timeout."""
        self._campaigns.begin(groups)

    async def join_groups(self, joining: Sequence[tuple[uuid.UUID, str | None]]) -> None:
        """Create several replicas with empty logs, without blocking the loop. Raises the errors of `create_groups`."""
        await self._working_driver().join_groups(joining)

    def join_group(self, group_id: uuid.UUID, name: str | None = None) -> PartitionReplica:
        """Create a replica with an empty log, to be filled by the leader; blocking.

        A former directory in its place is kept aside."""
        return join_group(self._working_driver(), group_id, name)

    def remove_group(self, group_id: uuid.UUID) -> None:
        """Remove a replica and its directory permanently."""
        self.driver.remove_group(group_id.bytes)
        self.leaders.forget(group_id.bytes)
        self.leader_statistics.forget(group_id.bytes)
        self._waits.wake(group_id.bytes)

    def _working_driver(self) -> Driver:
        """Return the driver. Raises `Unavailable` once the node stops."""
        if self._failure is not None or self._end is not None:
            raise Unavailable(f"node {self.identity.node_id} stops: {self._failure or 'a stop was requested'}")
        return self.driver

    # leaders

    def leader_of(self, group_id: uuid.UUID) -> Leadership | None:
        """Return the known leader of a group; None if the group has no replica here."""
        group = self.find_replica(group_id)
        if group is None:
            return None
        core = group.core
        return Leadership(core.leader, core.role is Role.LEADER, core.has_own_term_commit, core.term)

    async def wait_for_leader(self, group_id: uuid.UUID, deadline: Deadline) -> Leadership | None:
        """Return the result of `leader_of` once a leader is known, the deadline passes, or the replica is removed."""
        while (known := self.leader_of(group_id)) is not None and known.leader is None and not self.ended.done():
            if not await self._waits.changed(group_id.bytes, deadline):
                break
        return known

    async def leader_changed(self, group_id: uuid.UUID, deadline: Deadline) -> bool:
        """Wait for a change of role, term or leader of a replica here; return False if the deadline passes first."""
        return await self._waits.changed(group_id.bytes, deadline)

    async def pause(self, until: Deadline) -> None:
        """Wait until the given time, or until the node ends."""
        await asyncio.wait([self.ended], timeout=max(0.0, until - self.loop.time()))

    def is_connected(self, node: NodeId) -> bool:
        """Return whether requests can be sent to the node now."""
        return self.leaders.is_connected(node)

    def is_alive(self, node: NodeId) -> bool:
        """Return whether the node is connected and sends heartbeats; a stalled process only keeps its connections."""
        return self.leaders.is_connected(node) and not self._heartbeat_times.is_silent(node)

    def watch(self, group_id: uuid.UUID, hook: Callable[[PartitionReplica, Ready], None]) -> None:
        """Call `hook` with every Ready of this Raft group, before the callback `on_step`."""
        self._watchers[group_id.bytes] = hook

    def _on_step(self, group: PartitionReplica, ready: Ready) -> None:
        """Record a change of role; then call the group's watcher and `on_step`."""
        if ready.role_state is not None:
            self.leader_statistics.record_change(
                group, ready.role_state, is_handed_over=self.leaders.is_transferring(group.key)
            )
            self.leaders.record_role(group, ready.role_state.role)
            self._waits.wake(group.key)
        watcher = self._watchers.get(group.key)
        if watcher is not None:
            watcher(group, ready)
        self.on_step(group, ready)

    # requests of other nodes

    async def probe(self, address: Address, name: str, header: Any, deadline: Deadline) -> tuple[PeerIdentity, Answer]:
        """Send one request to the process at an address, over a connection of its own; see `TcpTransport.probe`."""
        return await self._requests.probe(address, name, header, deadline)

    async def ask(self, node: NodeId, name: str, header: Any, payload: Sequence[Any], deadline: Deadline) -> Answer:
        """Send one request to a node; `requests` describes the errors."""
        return await self._requests.ask(node, name, header, payload, deadline)

    def on_request(self, name: str, handler: Handler, *, is_open: bool = False) -> None:
        """Serve requests of this name; with `is_open` also from processes outside the cluster (probes)."""
        self._requests.on_request(name, handler, is_open=is_open)

    async def _serve(self, node: NodeId, request: object) -> object:
        """Serve another node's request: a call by name here, any other in the driver."""
        if isinstance(request, Call):
            return await self._requests.serve(node, request)
        return await self.driver.serve(node, request)

    # time

    def _run_maintenance(self) -> None:
        """Save the remembered peers if that is due and update the fitness, every `housekeeping_ms`."""
        self._timer = self.loop.call_later(self.settings.housekeeping_ms / 1000, self._run_maintenance)
        now, live_bytes = self.loop.time(), self.driver.journal.live_bytes
        is_checkpoint, self._live_bytes = live_bytes < self._live_bytes, live_bytes
        self._remembered.save_if_due(now, is_checkpoint=is_checkpoint)
        if self.is_working and self._end is None:
            self.fitness_exchange.update(now)
