"""Which brokers are up and which partitions are where: a picture for clients, from what is known on this node alone.

Nobody is asked for it, so it costs no round trip and is there also while others are not; what it says may be a moment
old. It is made at most once in `FRESH_S`, in slices, and then given to everybody who polls; its tag is a hash of what
it says, so that who has it already need not be sent it again. Called by the façade.
"""

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
"""Partitions in one turn of the loop."""
_TAG_BYTES: Final = 12


class Picture(NamedTuple):
    """`body` is JSON; `tag` names what it says."""

    body: bytes
    tag: str


class ClusterMap:
    """One for each process."""

    def __init__(
        self, node: Node, metadata: ControllerHost, topics: Topics, router: PartitionRouter, gossip: Gossip
    ) -> None:
        self._node, self._metadata, self._topics, self._router = node, metadata, topics, router
        self._gossip = gossip
        self._picture: Picture | None = None
        self._made_at = 0.0
        self._making: asyncio.Task[Picture] | None = None

    async def picture(self) -> Picture:
        """At most `FRESH_S` old."""
        if self._picture is not None and self._node.loop.time() - self._made_at < FRESH_S:
            return self._picture
        if self._making is None:
            self._making = self._node.loop.create_task(self._make(), name="the picture of the cluster")
            self._making.add_done_callback(self._made)
        return await asyncio.shield(self._making)

    def _made(self, _: "asyncio.Task[Picture]") -> None:
        self._making = None

    async def _make(self) -> Picture:
        began_at = self._node.loop.time()
        topics = [await self._topic(topic) for topic in sorted(self._topics, key=lambda topic: topic.name)]
        state = self._metadata.state
        view = ClusterView(
            self._metadata.cluster_id,
            self._metadata.freshness().leader,
            state.applied_index,
            [self._broker(row) for row in state.all_brokers()],
            [topic for topic in topics if topic is not None],
        )
        body = to_json(view)
        tag = hashlib.blake2b(body, digest_size=_TAG_BYTES).hexdigest()
        self._picture, self._made_at = Picture(body, tag), began_at
        return self._picture

    def _broker(self, row: BrokerRow) -> BrokerView:
        addresses = row.addresses
        return BrokerView(
            row.node_id, self._state(row), addresses.http or None, addresses.rpc or None, row.host, row.is_draining
        )

    def _state(self, row: BrokerRow) -> GossipState:
        """As gossip has it; where it has nothing, a broker that is connected is there."""
        node = row.node_id
        said = MemberState.ALIVE if node == self._node.identity.node_id else self._gossip.state_of(node)
        if said is None:
            said = MemberState.ALIVE if self._node.is_alive(node) else None
        return UNKNOWN if said is None else state_name(said)

    async def _topic(self, topic: Topic) -> TopicView | None:
        """None for one that only brokers use."""
        if topic.row.creation.is_internal:
            return None
        partitions = []
        for partition in topic.partitions:
            replicas = [replica.node_id for replica in partition.assigned]
            partitions.append(PartitionView(partition.number, replicas, self._router.leader_of(partition)))
            if len(partitions) % _SLICE == 0:
                await asyncio.sleep(0)
        return TopicView(topic.name, str(topic.row.topic_id), partitions)
