"""Map of the cluster for clients: liveness of brokers and places of partitions, from the state of this node only.

It costs no round trip and is available while other brokers do not answer; it may be a moment old. It is built at most
once in `FRESH_S`, in slices, and then served to all clients that poll. Its tag is a hash of the content, so that
a client that has it need not receive it again. Called by the façade."""

import asyncio
import hashlib
from typing import Final, NamedTuple

from raftlog.membership.member import MemberState
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import RegisteredBroker as BrokerRow
from raftlog.partitions.gossip.members import UNKNOWN, state_name
from raftlog.partitions.gossip.service import Gossip
from raftlog.partitions.node import Node
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.values.brokers import GossipState
from raftlog.values.cluster import BrokerView, ClusterView, PartitionView, TopicView
from raftlog.values.value import to_json

FRESH_S: Final = 1.0
_SLICE: Final = 256
"""Partitions described in one turn of the loop."""
_TAG_BYTES: Final = 12


class RenderedMap(NamedTuple):
    """Map of brokers and partitions in encoded form: `body` is JSON, `tag` its hash."""

    body: bytes
    tag: str


class ClusterMap:
    """Builder and cache of the cluster map; one instance for each process."""

    def __init__(
        self, node: Node, metadata: ControllerHost, topics: Topics, router: PartitionRouter, gossip: Gossip
    ) -> None:
        """Create a map that is rendered at the first request."""
        self._node, self._metadata, self._topics, self._router = node, metadata, topics, router
        self._gossip = gossip
        self._rendered: RenderedMap | None = None
        self._made_at = 0.0
        self._making: asyncio.Task[RenderedMap] | None = None

    async def render(self) -> RenderedMap:
        """Return the map, at most `FRESH_S` old."""
        if self._rendered is not None and self._node.loop.time() - self._made_at < FRESH_S:
            return self._rendered
        if self._making is None:
            self._making = self._node.loop.create_task(self._make(), name="cluster map")
            self._making.add_done_callback(self._on_made)
        return await asyncio.shield(self._making)

    def _on_made(self, _: "asyncio.Task[RenderedMap]") -> None:
        """Allow the next rendering."""
        self._making = None

    async def _make(self) -> RenderedMap:
        """Render the cluster map as JSON with its entity tag."""
        began_at = self._node.loop.time()
        topics = [await self._topic_view(topic) for topic in sorted(self._topics, key=lambda topic: topic.name)]
        state = self._metadata.state
        view = ClusterView(
            self._metadata.cluster_id,
            self._metadata.freshness().leader,
            state.applied_index,
            [self._broker_view(row) for row in state.all_brokers()],
            [topic for topic in topics if topic is not None],
        )
        body = to_json(view)
        tag = hashlib.blake2b(body, digest_size=_TAG_BYTES).hexdigest()
        self._rendered, self._made_at = RenderedMap(body, tag), began_at
        return self._rendered

    def _broker_view(self, row: BrokerRow) -> BrokerView:
        """Return a broker's row in the map, with its addresses and state."""
        addresses = row.addresses
        return BrokerView(
            row.node_id,
            self._broker_state(row),
            addresses.http or None,
            addresses.rpc or None,
            row.host,
            row.is_draining,
        )

    def _broker_state(self, row: BrokerRow) -> GossipState:
        """Return the state by gossip; without gossip, a broker with an open connection counts as alive."""
        node = row.node_id
        gossip_state = MemberState.ALIVE if node == self._node.identity.node_id else self._gossip.state_of(node)
        if gossip_state is None:
            gossip_state = MemberState.ALIVE if self._node.is_alive(node) else None
        return UNKNOWN if gossip_state is None else state_name(gossip_state)

    async def _topic_view(self, topic: Topic) -> TopicView | None:
        """Return the view of a topic; None for an internal topic."""
        if topic.row.creation.is_internal:
            return None
        partitions = []
        for partition in topic.partitions:
            replicas = [replica.node_id for replica in partition.assigned]
            partitions.append(PartitionView(partition.number, replicas, self._router.leader_of(partition)))
            if len(partitions) % _SLICE == 0:
                await asyncio.sleep(0)
        return TopicView(topic.name, str(topic.row.topic_id), partitions)
