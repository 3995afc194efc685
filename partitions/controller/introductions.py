"""Search for the addresses of unreachable nodes: by questions to reachable nodes, and by probes of the seeds.

An old copy of the controller's state may lack a broker that joined since, or the address of one that moved; when
that broker leads the controller, the copy never becomes newer by itself, and only other nodes know the leader. The same
holds when the leader has a new disk, which is refused here. So while a member of the group is not connected, other
nodes are asked for the members that they know, and the addresses of seeds and of unreachable nodes are probed. An
answer is used as long as the state is unchanged for that node. The handshake proves the identity at an address; that a
disk belongs to a node is accepted only from a member whose copy of the state says so.

    a node in a round: at most one change      contradicting answers are tried in turn

A process that proved its identity in the handshake, and is unknown to the copy here, may be a broker that joined since:
its Raft messages are refused until a known member has named it. Only if no known member is connected (all may have left
meanwhile), the process itself is asked, and trusted if it knows this disk as a member of the same cluster.

Called by the host."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.addresses import Address, address_text, parse_address
from raftlog.partitions.controller.bootstrap_record import BootstrapMember
from raftlog.partitions.controller.first_start import JOIN, Phase, replace_address, unpack_view
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import BackgroundLoop, Node
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.handshake import PeerIdentity
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)
_PAUSE_MS_MAX = 10_000


class NodeIntroduction(NamedTuple):
    """Node as another node described it (`member`), and the description here that it replaces, or None."""

    member: BootstrapMember
    instead_of: BootstrapMember | None


class _NamedMembers(NamedTuple):
    """Members named in an answer.

    `is_certain`: they are from a member's copy of the state, not only from a handshake.
    """

    members: Sequence[BootstrapMember]
    is_certain: bool


_NONE_NAMED = _NamedMembers((), False)


class Introductions(BackgroundLoop):
    """Search for the addresses of members to which this process has no connection; from `start` to `stop`.

    `unconnected_members` returns the members that are not connected, with their descriptions; those in `known` do not
    count. `on_learned` is called when `known` has changed."""

    purpose = "looking for nodes that are away"

    def __init__(
        self,
        node: Node,
        settings: MetadataSettings,
        unconnected_members: Callable[[], dict[ReplicaId, BootstrapMember | None]],
        on_learned: Callable[[], None],
    ) -> None:
        """Prepare the search.

        `unconnected_members` returns the members without a connection. `on_learned` is called when `known` has
        changed."""
        self.known: dict[NodeId, NodeIntroduction] = {}
        """Newest descriptions by other nodes."""
        self.hint: Callable[[ReplicaId], Address | None] = lambda replica: None
        """Function that returns the address of a member according to gossip, which is probed too; None if unknown."""
        self._node, self._settings = node, settings
        self._away, self._learned = unconnected_members, on_learned

    async def _run(self) -> None:
        """Search for unconnected members, with doubling pauses while there are any."""
        pause_ms = self._settings.look_ms_max
        while not self._node.ended.done():
            await self._node.pause(deadline_in(pause_ms))
            if self._away():
                pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)
                await self._ask_nodes()
            else:
                pause_ms = self._settings.look_ms_max

    async def _ask_nodes(self) -> None:
        """Ask connected nodes, seeds and known addresses for the unconnected members; store the answers."""
        peers = [peer.node for peer in self._node.transport.peers() if self._node.is_connected(peer.node)]
        asked = [self._ask_members(node) for node in peers]
        known = [parse_address(member.address) for member in self._away().values() if member is not None]
        hinted = [address for replica in self._away() if (address := self.hint(replica)) is not None]
        found = [self._probe(address) for address in dict.fromkeys((*self._settings.seeds, *known, *hinted))]
        joined = [] if peers else [self._ask_unknown(identity) for identity in self._node.transport.outsiders()]
        self._apply_answers(await asyncio.gather(*asked, *found, *joined))

    async def _ask_members(self, node: NodeId) -> _NamedMembers:
        """Return the members that a reachable node has in its copy of the state."""
        try:
            answer = await self._node.ask(node, JOIN, None, (), deadline_in(self._settings.probe_ms))
            return _NamedMembers(unpack_view(self._node.identity.replica, None, answer.value).members, True)
        except RaftlogError as error:
            _logger.debug("node %s did not name its members: %s", node, error)
            return _NONE_NAMED

    async def _probe(self, address: Address) -> _NamedMembers:
        """Return the process at an address, and the members in its copy if it is a member itself."""
        text = address_text(address)
        try:
            identity, answer = await self._node.probe(address, JOIN, None, deadline_in(self._settings.probe_ms))
            view = unpack_view(ReplicaId(identity.node_id, identity.disk_uuid), identity.cluster_id, answer.value)
        except (RaftlogError, OSError) as error:
            _logger.debug("no process at %s can be probed: %s", text, error)
            return _NONE_NAMED
        if view.phase is Phase.MEMBER and view.cluster_id == self._node.identity.cluster_id:
            return _NamedMembers(replace_address(view, text).members, True)
        return _NamedMembers((BootstrapMember(*view.replica, text),), False)

    async def _ask_unknown(self, identity: PeerIdentity) -> _NamedMembers:
        """Return the members that an unknown process names, if the disk of this process is among them."""
        try:
            answer = await self._probe(parse_address(identity.rpc_address))
        except InvalidArgument as error:
            _logger.debug("node %s cannot be probed: %s", identity.node_id, error)
            return _NONE_NAMED
        knows_us = any(member.replica == self._node.identity.replica for member in answer.members)
        return answer if answer.is_certain and knows_us else _NONE_NAMED

    def _apply_answers(self, answer: Sequence[_NamedMembers]) -> None:
        """Store the new descriptions of unconnected members; those from a member's state come first."""
        away = self._away()
        known = {replica.node_id: member for replica, member in away.items()}
        news: dict[NodeId, NodeIntroduction | None] = {}
        for members, is_certain in answer:
            for member in members:
                node = member.node_id
                is_wanted = node in known and (is_certain or member.replica in away)
                if not is_wanted or not member.address or self._node.transport.memory.is_retired(member.disk_uuid):
                    continue
                introduction = self._find_change(member, known[node])
                if introduction != self.known.get(node):
                    news.setdefault(node, introduction)
        for node, introduction in news.items():
            if introduction is None:
                del self.known[node]
            else:
                self.known[node] = introduction
                member = introduction.member
                _logger.info(
                    "another node reports node %s at %s with the disk %s", node, member.address, member.disk_uuid
                )
        if news:
            self._learned()

    def _find_change(self, member: BootstrapMember, before: BootstrapMember | None) -> NodeIntroduction | None:
        """Return the description of a node to store in `known`, after an answer; None if none has to be stored."""
        if member != before:
            return NodeIntroduction(member, before)
        counts = self.known.get(member.node_id)
        return None if counts is None or counts.member.disk_uuid != member.disk_uuid else counts
