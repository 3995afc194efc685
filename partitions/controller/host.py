"""Controller on this process: a copy of its state that can always be read, and operations that change the state.

    metadata = ControllerHost.open(node, settings)   the state of the local replica is in `state`
    await node.start()
    await metadata.start(addresses)               founded or joined a cluster; registered, also in the copy here
    await metadata.submit(command, deadline)      from any node
    await metadata.barrier(deadline)              the copy then has everything that was committed before
    await metadata.stop()                         before the node

Only a committed entry changes the state; only the replica's own log is read for it. Reads that need no leader are
answered from the copy, with its freshness. All calls come from the node's loop. Called by the broker."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self
from uuid import UUID

from raftlog.errors import CorruptBatch, IdentityRefused, InvalidArgument, NoLeader
from raftlog.events import event
from raftlog.partitions.addresses import address_text, normalize_addresses
from raftlog.partitions.controller.bootstrap_record import BootstrapFile, BootstrapMember, rebuild_record
from raftlog.partitions.controller.damaged_copy import check_repairable
from raftlog.partitions.controller.disk_replacement import DiskReplacement, removed_error
from raftlog.partitions.controller.first_start import FirstStart, Phase, StartView
from raftlog.partitions.controller.foreign_seeds import ForeignSeeds
from raftlog.partitions.controller.introductions import Introductions
from raftlog.partitions.controller.leader_duties import LeaderDuties
from raftlog.partitions.controller.local_copy import LocalCopy
from raftlog.partitions.controller.machine import (
    Addresses,
    Command,
    ControllerState,
    controller_group_id,
    first_controller_roll,
)
from raftlog.partitions.controller.machine.rolls import CONTROLLER_VOTERS_MAX
from raftlog.partitions.controller.peers import PeerAddresses, peers_of
from raftlog.partitions.controller.proposals import CommandProposals
from raftlog.partitions.controller.registration import BrokerRegistration
from raftlog.partitions.controller.settings import MetadataSettings, check_start
from raftlog.partitions.deadline import NEVER, Deadline
from raftlog.partitions.node import Node
from raftlog.raft import Ready, ReplicaId, Role
from raftlog.runtime.log.replica_directory import CONTROLLER
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index, NodeId, Term

_logger = logging.getLogger(__name__)


class Freshness(NamedTuple):
    """Age of the local copy of the controller's state.

    `age_ms`: time since the last message of the controller's leader; 0 if this node leads, None if none arrived.
    `problem`: reason why the copy cannot be trusted or is not updated."""

    applied_index: Index
    age_ms: float | None
    leader: NodeId | None
    is_member: bool
    problem: str | None


class ControllerHost:
    """Controller on one process: its replica, if this process has one, the local copy, and all requests.

    Created by `open`."""

    def __init__(self, node: Node, settings: MetadataSettings) -> None:
        """Create the controller's parts of this process; `start` begins their work."""
        self.observers: list[Callable[[], None]] = []
        """Callbacks on the loop, in their order, once per batch of applied entries."""
        self.is_ready = False
        """Whether `start` has returned."""
        self._node, self._settings = node, settings
        self._file = BootstrapFile(node.environment.disk, node.settings.data_dir)
        self._copy = LocalCopy(settings.fold_ms, node.fail)
        self._copy.on_applied = self._on_applied
        self._proposals = CommandProposals(node, self._copy, settings.attempt_ms)
        self._first_start = FirstStart(node, settings, self._file, self._phase_and_members)
        self._foreign_seeds = ForeignSeeds(node, settings, lambda: self.state)
        self._duties = LeaderDuties(node, self._copy, self._file, self._proposals, settings)
        self._replacement = DiskReplacement(node, self._copy, self._proposals, settings)
        self._registration = BrokerRegistration(node, self._copy, self._proposals, settings)
        self.introductions = Introductions(node, settings, self._unconnected_members, self._update_peers)
        self._heard_at: float | None = None
        """Time when an earlier leader of the controller was last heard."""
        self._peers: PeerAddresses | None = None
        self._is_founded = False
        """Whether all seeds of the record here are known to hold it."""
        self._starting: asyncio.Task[None] | None = None
        node.is_established = self._is_established
        memory = node.transport.memory
        memory.is_retired = lambda disk_uuid: disk_uuid in self.state.retired
        memory.is_member = memory.has_assigned

    @classmethod
    def open(cls, node: Node, settings: MetadataSettings | None = None) -> Self:
        """Apply the log of the local replica to the copy, before `node.start()`; blocking.

        Raises `FormatError`, `InvalidArgument`, `IdentityRefused` for a broker that was removed, and `CorruptBatch`
        when no other replica could repair the log."""
        metadata = cls(node, settings or MetadataSettings())
        metadata._file.read()
        metadata._file.detect_loss(node.identity, node.settings.cluster_id)
        check_start(metadata._settings, node.settings.rpc_port, node.identity.cluster_id)
        if metadata._file.record is not None:  # a crash may have come between the two files
            node.join_cluster(str(metadata._file.record.cluster_id))
        group = metadata._find_group()
        if group is not None:
            metadata._follow_group(group)
            damage: CorruptBatch | None = None
            try:
                metadata._copy.apply_all()
            except CorruptBatch as error:
                damage = error
            check_repairable(node, group, metadata._file, metadata._settings.seeds, damage)
        if metadata._is_removed():
            raise removed_error(node.identity.node_id)
        metadata._update_peers()
        metadata._check_peers()
        return metadata

    def _check_peers(self) -> None:
        """Raise `InvalidArgument` if other nodes are known, and this process has no RPC address."""
        if self._peers is not None and self._peers.addresses and self._node.settings.rpc_port is None:
            raise InvalidArgument(
                f"node {self._node.identity.node_id} belongs to a cluster with the nodes "
                f"{', '.join(map(str, self._peers.addresses))}: start it with an RPC address that they can reach"
            )

    def _find_group(self) -> PartitionReplica | None:
        """Return the controller's replica here; None without one, or before a cluster id is known."""
        cluster_id = self._node.identity.cluster_id
        if cluster_id is None:
            return None
        return self._node.find_replica(controller_group_id(UUID(cluster_id)))

    def _follow_group(self, group: PartitionReplica) -> None:
        """Apply the log of this replica from now on."""
        group.is_essential = True
        self._copy.attach(group)
        self._node.watch(group.group_id, self._on_step)
        self._copy.follow()

    # state

    @property
    def state(self) -> ControllerState:
        """Local copy of the controller's state, read-only for callers; replaced when a snapshot is read."""
        return self._copy.state

    @property
    def cluster_id(self) -> str | None:
        return self._node.identity.cluster_id

    @property
    def group_id(self) -> UUID | None:
        """Id of the controller's Raft group; None without a replica of it here."""
        return None if self._copy.group is None else self._copy.group.group_id

    @property
    def is_leading(self) -> bool:
        """Whether this process leads the controller, and its state has everything committed before."""
        group = self._copy.group
        return group is not None and group.core.has_own_term_commit and self._copy.is_up_to_date

    @property
    def term(self) -> Term:
        """Raft term of the controller, as known here."""
        return Term(0) if self._copy.group is None else self._copy.group.core.term

    def controller_voters(self) -> tuple[ReplicaId, ...]:
        """Return the voters of the controller, outgoing ones included, as known here."""
        return () if self._copy.group is None else self._copy.group.core.configuration.all_voters()

    def freshness(self) -> Freshness:
        """Return the age of the local copy, and the index that it has applied."""
        group, replica = self._copy.group, self._node.identity.replica
        if group is None:
            return Freshness(Index(0), None, None, False, self._copy.problem)
        core = group.core
        leader = None if core.leader is None else core.leader.node_id
        now = self._node.loop.time()
        heard_at = now if core.role is Role.LEADER else self._leader_answered_at()
        return Freshness(
            self.state.applied_index,
            None if heard_at is None else max(0.0, (now - heard_at) * 1000),
            leader,
            core.configuration.has_member(replica),
            self._copy.problem,
        )

    def degraded_reason(self) -> str | None:
        """Return the pending change of the controller's voters as known here; None without one."""
        group = self._copy.group
        if group is None:
            return None
        configuration = group.core.configuration
        staying = [broker.replica for broker in self.state.all_brokers() if not broker.is_draining]
        gone = [voter.node_id for voter in configuration.all_voters() if voter.disk_uuid in self.state.retired]
        waiting = [replica.node_id for replica in staying if not configuration.has_voter(replica)]
        if gone:
            return f"the controller's group still counts on replaced disks of the nodes {sorted(gone)}"
        if waiting and len(configuration.voters) < min(CONTROLLER_VOTERS_MAX, len(staying)):
            return f"the nodes {waiting} do not vote in the controller's group yet"
        return None

    def _leader_answered_at(self) -> float | None:
        """Return the loop's time of the last message from the leader; None if there was none."""
        group = self._copy.group
        leader = None if group is None else group.core.leader
        heard_at = None if leader is None else self._node.heard_at(leader.node_id)
        if heard_at is not None and (self._heard_at is None or heard_at > self._heard_at):
            self._heard_at = heard_at
        return self._heard_at

    def _is_registered(self) -> bool:
        """Return whether this node is registered with this disk, by the copy here."""
        return self.state.broker_of(self._node.identity.replica) is not None

    def _is_removed(self) -> bool:
        """Return whether the disk of this node is retired and no other disk has its node id."""
        me = self._node.identity.replica
        return me.disk_uuid in self.state.retired and self.state.disk_of(me.node_id) is None

    def _is_established(self) -> bool:
        """Return whether this node is registered or a member; the copy may lack its row at first."""
        group = self._copy.group
        is_member = group is not None and group.core.configuration.has_member(self._node.identity.replica)
        return is_member or self._is_registered()

    # start and stop

    async def start(self, addresses: Addresses) -> None:
        """Found or join a cluster; return once the copy here has this process registered under its boot epoch.

        Without a majority it waits. `addresses` are announced to others; a missing RPC address is replaced by
        that of the node's listener. Raises `IdentityRefused` and `InvalidArgument` when this process cannot be in the
        cluster, which ends the node."""
        assert self._starting is None, "started twice"
        self._starting = self._node.loop.create_task(self._start(addresses), name="the controller's start")
        waiting: list[asyncio.Future[Any]] = [self._starting, self._node.ended]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not self._starting.done():
                failure = self._node.ended.result()
                raise failure or NoLeader("the node was stopped while it started")
            await self._starting
        except (IdentityRefused, InvalidArgument) as error:
            self._node.fail(error)
            raise
        finally:
            self._starting.cancel()

    async def _start(self, addresses: Addresses) -> None:
        """Find the cluster, start the controller's duties, and register a new or moved broker."""
        at = self._node.transport.address
        if not addresses.rpc and at is not None:
            addresses = replace(addresses, rpc=address_text(at))
        registration = self._registration
        registration.addresses = addresses
        if self._copy.group is None:
            await self._find_cluster(addresses.rpc)
        self._duties.start()
        self.introductions.start()
        record, me = self._file.record, self._node.identity.replica
        is_newcomer = not self._is_established() and not (record is not None and record.has_seed(me))
        if is_newcomer or registration.has_moved:
            await registration.register()
        await self._duties.barrier(NEVER)
        self._proposals.was_up_to_date = True
        if not is_newcomer:
            while self.state.bootstrap is None:
                await self._copy.wait_for_index(Index(self.state.applied_index + 1), NEVER)
        if not is_newcomer or registration.lacks_addresses:  # it registered before it knew the feature level
            await registration.register()
        self._restore_lost_record()
        await self._foreign_seeds.check()
        registration.log_withheld()
        self.is_ready = True
        registration.register_missing_addresses()
        _logger.debug("node %s is registered in cluster %s", self._node.identity.node_id, self.cluster_id)

    def _restore_lost_record(self) -> None:
        """Write a lost bootstrap record again, because processes join with it."""
        lost = (
            rebuild_record(self.state, normalize_addresses(self._settings.seeds)) if self._file.record is None else None
        )
        if lost is not None:
            _logger.warning("the bootstrap record of cluster %s was lost, and is written again", lost.cluster_id)
            self._file.store(lost)

    async def _find_cluster(self, rpc: str) -> None:
        """Found or join a cluster, and create the replica of the controller on this process."""
        report = await self._first_start.run(rpc)
        if report is None:
            self._create_first_replica()
            return
        assert report.record is not None, f"node {report.replica.node_id} is a member without a record"
        await self._replace_old_disk(report)
        self._file.store(self._file.record or report.record, report.members)
        self._node.join_cluster(str(report.record.cluster_id))
        self._update_peers()
        self._follow_group(self._node.join_group(controller_group_id(report.record.cluster_id), CONTROLLER))

    async def _replace_old_disk(self, report: StartView) -> None:
        """Register this disk in place of another that the cluster has under this node id, if there is one.

        Waits until that one has been silent long enough. Raises `IdentityRefused`."""
        me = self._node.identity.replica
        old = next((member.disk_uuid for member in report.members if member.node_id == me.node_id), None)
        former = self._node.identity.former_disks
        if old is None and former:
            raise removed_error(me.node_id)
        if old not in (None, me.disk_uuid):
            if former and old not in former:
                raise IdentityRefused(
                    f"node id {me.node_id} went to the disk {old} while this broker was away; stop one of the two, or "
                    "start this one with another node id and an empty data directory"
                )
            at = [member.address for member in report.members if member.address and member.node_id != me.node_id]
            was_refused = self._node.identity.was_refused
            silence_ms = self._settings.refused_silence_ms if was_refused else self._settings.replace_silence_ms
            await self._replacement.ask(self._registration.command(replaces=old), silence_ms, at)

    def _create_first_replica(self) -> None:
        """Create the first replica of the controller from the bootstrap record."""
        record, me = self._file.record, self._node.identity.replica
        assert record is not None, "begins without a record"
        self._node.join_cluster(str(record.cluster_id))  # a full disk may have refused that when the record was kept
        event(_logger, "cluster_founded", node=me.node_id, cluster_id=str(record.cluster_id), seeds=len(record.seeds))
        roll = first_controller_roll(record.command())
        self._is_founded = True
        self._update_peers()
        is_voter = any((voter.node_id, voter.disk_uuid) == me for voter in roll.voters)
        group = self._node.create_group(roll, CONTROLLER)
        self._follow_group(group)
        if is_voter and record.seeds[0].replica == me:
            self._node.campaign([group])

    async def stop(self) -> None:
        """Stop all tasks; call it before `Node.stop`."""
        tasks = [] if self._starting is None else [self._starting]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._registration.stop()
        await self.introductions.stop()
        await self._duties.stop()
        self._copy.stop()

    # commands and reads

    async def submit(self, command: Command, deadline: Deadline) -> int:
        """Submit a command; return its number once it is executed and applied to the local copy.

        It is executed at most once. Raises the command's own error; `Unavailable` (mostly `NoLeader`) when it was
        definitely not proposed; `DeadlineExceeded` or `OutcomeUnknown` when that is not known."""
        if self._proposals.refuses(command):
            await self.barrier(deadline)  # the copy here may be older than the end of an upgrade
        return await self._proposals.submit(command, deadline)

    async def barrier(self, deadline: Deadline) -> None:
        """Wait until the copy here has everything that was committed before the call. Raises `Unavailable`."""
        await self._duties.barrier(deadline)

    async def wait_for_index(self, index: Index, deadline: Deadline) -> bool:
        """Wait until the copy here has applied this index; return False if the deadline passes first."""
        return await self._copy.wait_for_index(index, deadline)

    # callbacks

    def _on_step(self, group: PartitionReplica, ready: Ready) -> None:
        """Apply new entries, and run the leader's duties after a change of role."""
        if ready.role_state is not None:
            self._leader_answered_at()
            self._duties.run_soon()
        self._copy.follow()

    def _on_applied(self) -> None:
        """Act on applied entries: update peers, duties and registration, and call the observers."""
        if self._is_removed():
            self._node.fail(removed_error(self._node.identity.node_id))
        self._update_peers()
        self._duties.run_soon()
        if self.is_ready:
            self._registration.register_missing_addresses()
        for observe in self.observers:
            observe()

    def _update_peers(self) -> None:
        """Pass the known peers to the node, once the cluster of the bootstrap record is founded."""
        record = self._file.record
        is_seed = record is not None and record.has_seed(self._node.identity.replica)
        if is_seed and self._copy.group is None and not self._is_founded:
            return
        peers = peers_of(self.state, self._file, self._node.identity.replica, self.introductions.known)
        if peers is not None and peers != self._peers:
            self._peers = peers
            self._node.set_peers(peers.addresses, peers.disks)

    def _unconnected_members(self) -> dict[ReplicaId, BootstrapMember | None]:
        """Return unconnected members of the controller's Raft configuration, each with its description if it is known.

        The configuration and the copy here may be old. So these are added: the controller's leader, or the leader that
        another node named, and processes that connected to this one and are unknown here."""
        group, me = self._copy.group, self._node.identity.replica
        if group is None:
            return {}
        leader, outsiders = group.core.leader or self._proposals.named_leader, self._node.transport.outsiders()
        members = (
            *group.core.configuration.all_members(),
            *([] if leader is None else [leader]),
            *(ReplicaId(outsider.node_id, outsider.disk_uuid) for outsider in outsiders),
        )
        if not self._is_registered():
            members = (*members, *(member.replica for member in self._file.members))
        others = [member for member in members if member.node_id != me.node_id]
        away = [member for member in others if not self._node.is_connected(member.node_id)]
        known = peers_of(self.state, self._file, me, {}) if away else None
        return {member: None if known is None else known.member(member.node_id) for member in away}

    def _phase_and_members(self) -> tuple[Phase, list[BootstrapMember]]:
        """Return phase and members, for reports to other processes."""
        state = self.state
        if self._copy.group is None:
            return Phase.EMPTY, []
        if state.bootstrap is None or not self._is_registered():
            record = self._file.record
            is_seed = record is not None and record.has_seed(self._node.identity.replica)
            return (Phase.FOUNDED if is_seed else Phase.EMPTY), []
        members = [
            BootstrapMember(broker.node_id, broker.disk_uuid, broker.addresses.rpc) for broker in state.all_brokers()
        ]
        members += [BootstrapMember(*seed, "") for seed in sorted(state.absent_seeds())]
        return Phase.MEMBER, members
