"""Gossip of one broker, from its port to the hints that received states give.

    gossip = Gossip(node, metadata, settings, rack, load)
    address = await gossip.bind()                     before the broker registers; "" when gossip is off
    gossip.start(addresses)                           once the cluster is known; before that nothing is sent
    gossip.state_changed()                            the controller's state may have other addresses
    gossip.leave(); …; await gossip.close()

Received states are hints: a dead member wakes quiesced Raft groups, shortens the timeouts of views and yields an
address to try. Gossip never keeps a Raft group quiesced, deposes a leader or changes a Raft configuration. A broker
without gossip is treated as if gossip were switched off. Called by the façade."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

import raftlog
from raftlog.errors import InvalidArgument
from raftlog.events import event
from raftlog.membership.agent import LEAVE_S_MAX, Agent, AgentCounters
from raftlog.membership.authentication import SenderIdentity
from raftlog.membership.keys import GossipKeys
from raftlog.membership.member import GossipMember, MemberState
from raftlog.membership.swim import Conflict, MemberChange
from raftlog.membership.wire import Wire
from raftlog.partitions.addresses import Address, parse_address_or_none
from raftlog.partitions.controller import ControllerHost, address_text, parse_address
from raftlog.partitions.controller.machine import Addresses
from raftlog.partitions.gossip.description import Description, differs, encode
from raftlog.partitions.gossip.members import combine_members, description_of
from raftlog.partitions.gossip.settings import GossipSettings
from raftlog.partitions.node import Node
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.addresses import resolve
from raftlog.types import NodeId
from raftlog.values.brokers import BrokerLoad, ClusterMember

_logger = logging.getLogger(__name__)

_PURPOSE: Final = b"raftlog gossip 1"
LOAD_INTERVAL_S: Final = 5.0
"""Shortest time between two announcements of the load; it is only announced after a change."""
HINT_INTERVAL_S: Final = 10.0
"""Shortest time between two wake-ups of one node's Raft groups by gossip."""


class Gossip:
    """Gossip service of a broker; without gossip it has no members and does nothing."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        settings: GossipSettings | None,
        rack: str,
        load: Callable[[], BrokerLoad],
    ) -> None:
        """Create a stopped service; `settings` is None without gossip, and `load` returns the present load figures."""
        self._node, self._metadata, self._settings = node, metadata, settings
        self._rack, self._load = rack, load
        self._wire: Wire | None = None
        self._agent: Agent | None = None
        self._described: Description | None = None
        self._introduced: list[Address] = []
        self._hinted_at: dict[NodeId, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        metadata.introductions.hint = self.rpc_address_of
        node.on_lost = self._on_connection_lost
        self.address = ""
        """HOST:PORT that is advertised to other brokers; empty without gossip."""

    # start and stop

    async def bind(self) -> str:
        """Bind the port and return the advertised address.

        Raises `InvalidArgument` and `OSError` when gossip is required and cannot start."""
        settings = self._settings
        if settings is None:
            return ""
        try:
            wire = self._wire = await self._listen(settings)
        except (OSError, InvalidArgument) as error:
            if settings.is_required:
                raise InvalidArgument(
                    f"gossip cannot listen on {settings.host}:{settings.port}: {error}; "
                    "set --gossip to another address or to off"
                ) from error
            _logger.warning(
                "gossip is off: cannot listen on %s:%s: %s; set --gossip to another address",
                settings.host,
                settings.port,
                error,
            )
            return ""
        assert wire.address is not None, "a started wire has no address"
        host, port = wire.address
        self.address = address_text(settings.advertise or (settings.advertise_host or host, port))
        return self.address

    async def _listen(self, settings: GossipSettings) -> Wire:
        """Listen on the port of the settings, and return the wire.

        An optional port must not be an RPC port of another broker."""
        if self._node.settings.secret is None:
            raise InvalidArgument(
                "gossip is signed with the cluster secret, and none is set: give --cluster-secret-file"
            )
        host = (await resolve(self._node.loop, settings.host))[0]
        ports = [settings.port] if settings.is_required or settings.port not in self._rpc_ports() else []
        if not settings.is_required:
            ports.append(0)
        for port in ports:
            wire = self._node.environment.make_wire()
            try:
                await wire.start(host, port)
            except OSError:
                if port == ports[-1]:
                    raise
            else:
                return wire
        raise AssertionError("no port to try")

    def _rpc_ports(self) -> set[int]:
        """Return the RPC ports of registered brokers: these may run on this machine and start after this broker."""
        texts = (row.addresses.rpc for row in self._metadata.state.all_brokers())
        return {address[1] for text in texts if (address := parse_address_or_none(text)) is not None}

    def start(self, at: Addresses) -> None:
        """Begin to gossip, unless it has begun, the cluster is unknown, or gossip is off."""
        identity, secret = self._node.identity, self._node.settings.secret
        if self._wire is None or self._agent is not None or identity.cluster_id is None:
            return
        assert secret is not None, "a port for gossip without a secret"
        cluster_id = UUID(identity.cluster_id)
        host_label, version = self._node.settings.host_label, raftlog.__version__
        self._described = Description(at.http, at.rpc, at.gossip, host_label, self._rack, version, self._load())
        agent = self._agent = Agent(
            SenderIdentity(cluster_id, identity.node_id, identity.disk_uuid, identity.boot_epoch),
            parse_address(at.gossip),
            encode(self._described),
            GossipKeys(secret.derive(_PURPOSE)),
            self._wire,
            self._node.environment.random,
        )
        agent.on_change, agent.on_conflict = self._on_change, self._on_conflict
        self._introduced = self._registered_addresses()
        agent.start(self._introduced)
        self._timer = self._node.loop.call_later(LOAD_INTERVAL_S, self._announce_load)

    def state_changed(self) -> None:
        """Pass the gossip addresses of registered brokers to the agent."""
        addresses = self._registered_addresses() if self._agent is not None else []
        if self._agent is not None and addresses != self._introduced:
            self._introduced = addresses
            self._agent.set_join_addresses(addresses)

    def _registered_addresses(self) -> list[Address]:
        """Return the gossip addresses of the other registered brokers."""
        me = self._node.identity.node_id
        texts = [row.addresses.gossip for row in self._metadata.state.all_brokers() if row.node_id != me]
        return [address for text in texts if (address := parse_address_or_none(text)) is not None]

    def leave(self) -> None:
        """Announce an orderly stop; not after a failure, so that other brokers detect it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._agent is not None and self._node.is_working:
            self._agent.leave()

    async def close(self) -> None:
        """Send pending announcements for a short time, and release the port."""
        if self._agent is not None:
            await self._agent.close(LEAVE_S_MAX)
        elif self._wire is not None:
            await self._wire.close()

    # state

    @property
    def is_on(self) -> bool:
        return self._agent is not None

    def members(self) -> list[ClusterMember]:
        """Return all brokers that are registered or known by gossip, sorted by node id."""
        members = [] if self._agent is None else self._agent.members()
        rows = self._metadata.state.all_brokers()
        return combine_members(rows, {member.node_id: member for member in members}, self._node.loop.time())

    def counters(self) -> AgentCounters | None:
        """Return the counters of the agent; None while gossip is off."""
        return None if self._agent is None else self._agent.counters()

    def state_of(self, node: NodeId) -> MemberState | None:
        """Return the gossip state of a node; None if it has none."""
        member = self._member(node)
        return None if member is None else member.state

    def is_doubtful(self, node: NodeId) -> bool:
        """Return whether gossip reports the node as suspect, dead or left, which may be wrong: use shorter timeouts."""
        state = self.state_of(node)
        return state is not None and state is not MemberState.ALIVE

    def racks(self) -> dict[NodeId, str]:
        """Return the rack of each live node, as it gossips it."""
        return {node: description.rack for node, description in self._descriptions().items() if description.rack}

    def free_bytes(self) -> dict[NodeId, int]:
        """Return the free bytes on disk that live nodes gossiped some seconds ago."""
        return {node: max(0, description.load.disk_free) for node, description in self._descriptions().items()}

    def _descriptions(self) -> dict[NodeId, Description]:
        """Return the descriptions that the live nodes gossip."""
        members = [] if self._agent is None else self._agent.members()
        description = ((member.node_id, description_of(member)) for member in members if member.state.is_up)
        return {node: description for node, description in description if description is not None}

    def rpc_address_of(self, replica: ReplicaId) -> Address | None:
        """Return the RPC address that the process with this disk gossiped; None if it is unknown or not up."""
        member = self._member(replica.node_id)
        if member is None or member.disk_uuid != replica.disk_uuid.bytes or not member.state.is_up:
            return None
        description = description_of(member)
        return None if description is None else parse_address_or_none(description.rpc)

    def _member(self, node: NodeId) -> GossipMember | None:
        """Return the member with this node id; None without gossip, or if the node is unknown."""
        return None if self._agent is None else self._agent.member(node)

    # announcements

    def _announce_load(self) -> None:
        """Gossip the load if it has changed enough, and schedule the next measurement."""
        self._timer = self._node.loop.call_later(LOAD_INTERVAL_S, self._announce_load)
        load, description = self._load(), self._described
        if description is not None and self._agent is not None and differs(load, description.load):
            self._described = description._replace(load=load)
            self._agent.set_description(encode(self._described))

    # received changes

    def _on_change(self, change: MemberChange) -> None:
        """Write the event of a member's new state, and wake Raft groups that rely on a dead or departed node."""
        if change.before is change.after or change.node_id == self._node.identity.node_id:
            return
        if change.after is MemberState.SUSPECT:
            event(_logger, "member_suspected", node=change.node_id)
        elif change.after is MemberState.DEAD:
            event(_logger, "member_dead", node=change.node_id)
            self._wake_groups(change.node_id)
        elif change.after is MemberState.LEFT:
            event(_logger, "member_left", node=change.node_id)
            self._wake_groups(change.node_id)
        elif change.after is MemberState.ALIVE:
            event(_logger, "member_alive", node=change.node_id, incarnation=change.member.incarnation)

    def _on_connection_lost(self, node: NodeId) -> None:
        """Probe a member at once after its connection broke."""
        if self._agent is not None:
            self._agent.probe_now(node)

    def _on_conflict(self, conflict: Conflict) -> None:
        """Log that two processes use the same node id."""
        other = conflict.other.about
        event(
            _logger,
            "member_conflict",
            node=conflict.known.node_id,
            address=str(conflict.known.address),
            other="" if other is None else str(other.address),
        )

    def _wake_groups(self, node: NodeId) -> None:
        """Wake the quiesced Raft groups that rely on a node's heartbeat, because gossip reports it as dead or left."""
        now = self._node.loop.time()
        if now - self._hinted_at.get(node, float("-inf")) >= HINT_INTERVAL_S:
            self._hinted_at[node] = now
            self._node.driver.doubt(node)
