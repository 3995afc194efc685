"""Leaders of topics as known here, for clients that connect to the leaders.

    leader and epoch belong together: the epoch is the term in which that node leads, never that of another

The replicas here answer for their partitions, other brokers for the rest. Replicas in sync are exact for partitions
that this node leads; for others they are the replicas whose brokers are alive. Called by `Broker.leader.topics`."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from raftlog.errors import RaftlogError, UnknownTopic
from raftlog.partitions.cluster_view import ClusterObserver
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node
from raftlog.partitions.replica.description import voters_in_sync
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.raft import Role
from raftlog.types import NodeId

_ASK_MS: Final = 500
"""Time for other brokers to answer, in ms."""
_CONTROLLER_MS: Final = 3_000
"""Time for the controller to answer whether topics exist, in ms."""


class PartitionLeader(NamedTuple):
    """Leader of a partition and its epoch (None if unknown), and the replicas; `offline` ones are on dead brokers."""

    partition: int
    leader: NodeId | None
    leader_epoch: int | None
    replicas: Sequence[NodeId]
    in_sync: Sequence[NodeId]
    offline: Sequence[NodeId]


class TopicLeader(NamedTuple):
    """Leaders of the partitions of a topic, or the error of the topic."""

    name: str
    is_internal: bool
    partitions: Sequence[PartitionLeader]
    error: RaftlogError | None = None


class TopicLeaders:
    """Look-up of partitions' leaders for metadata requests; one instance per process."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        topics: Topics,
        router: PartitionRouter,
        view: ClusterObserver,
        lag_ticks_max: int,
    ) -> None:
        """Prepare to describe topics; a replica is in sync if it lags at most `lag_ticks_max` ticks."""
        self._node, self._metadata, self._topics, self._router, self._view = node, metadata, topics, router, view
        self._lag_ticks_max = lag_ticks_max
        self._me = node.identity.node_id

    async def describe_all(self) -> list[TopicLeader]:
        """Return the leaders of all topics, by name."""
        topics = sorted(self._topics, key=lambda topic: topic.name)
        leaders = await self._find_leaders([each for topic in topics for each in topic.partitions])
        return [self._topic_leader(topic, leaders) for topic in topics]

    async def describe(self, names: Sequence[str], hold_ms: int) -> list[TopicLeader]:
        """Return the leaders or the error of each topic; wait up to `hold_ms` for leaders that are being elected."""
        until = deadline_in(hold_ms)
        problem = await self._look_up(names)
        topics = [self._topics.get(name) for name in names]
        open_ = {each: None for topic in topics if topic is not None for each in topic.partitions}
        leaders: dict[Partition, PartitionLeader] = {}
        while open_:
            leaders.update(await self._find_leaders(list(open_)))
            open_ = {each: None for each in open_ if leaders[each].leader is None}
            if not open_ or asyncio.get_running_loop().time() >= until:
                break
            await self._router.wait_for_leader_change(next(iter(open_)), until)
        return [
            TopicLeader(name, False, (), problem or UnknownTopic(f"topic {name!r} does not exist"))
            if topic is None
            else self._topic_leader(topic, leaders)
            for name, topic in zip(names, topics, strict=True)
        ]

    async def _look_up(self, names: Iterable[str]) -> RaftlogError | None:
        """Ask the controller once if one of these topics is unknown here; return its error, or None."""
        if all(name in self._topics for name in names):
            return None
        try:
            await self._metadata.barrier(deadline_in(_CONTROLLER_MS))
        except RaftlogError as error:
            return error
        return None

    def _topic_leader(self, topic: Topic, leaders: dict[Partition, PartitionLeader]) -> TopicLeader:
        """Return the row of a topic, with the known leaders of its partitions."""
        return TopicLeader(topic.name, topic.is_internal, [leaders[each] for each in topic.partitions])

    async def _find_leaders(self, partitions: Sequence[Partition]) -> dict[Partition, PartitionLeader]:
        """Return the leader of each partition: as the replica here has it, otherwise as other brokers report it."""
        alive = self._alive_brokers(partitions)
        found = {each: self._local_leader(each, alive) for each in partitions if each.replica is not None}
        others = [each for each in partitions if each.replica is None]
        if others:
            rows = await self._view.leaders(others, deadline_in(_ASK_MS))
            for each in others:
                leader, term, in_sync = rows.get(each.group_id.bytes) or (None, 0, None)
                found[each] = self._partition_leader(each, alive, leader, term, in_sync)
        return found

    def _alive_brokers(self, partitions: Iterable[Partition]) -> set[NodeId]:
        """Return the live brokers among those of the partitions."""
        nodes = {replica.node_id for each in partitions for replica in each.assigned}
        return {node for node in nodes if self._is_alive(node)}

    def _is_alive(self, node: NodeId) -> bool:
        """Return whether the node is this one, or alive."""
        return node == self._me or self._node.is_alive(node)

    def _local_leader(self, partition: Partition, alive: set[NodeId]) -> PartitionLeader:
        """Return the leader that the replica here has; replicas in sync are exact only at the leader."""
        replica = partition.replica
        assert replica is not None, f"{partition.name}: no replica here"
        core = replica.group.core
        in_sync = None
        if core.role is Role.LEADER:
            in_sync = [each.node_id for each in voters_in_sync(core.status(), self._lag_ticks_max)]
        return self._partition_leader(
            partition, alive, core.leader.node_id if core.leader else None, core.term, in_sync
        )

    def _partition_leader(
        self,
        partition: Partition,
        alive: set[NodeId],
        leader: NodeId | None,
        term: int,
        in_sync: Collection[NodeId] | None,
    ) -> PartitionLeader:
        """Return a partition's leader and replicas; a leader that is not alive counts as unknown.

        `in_sync` None: the replicas on live brokers."""
        replicas = [each.node_id for each in partition.assigned]
        if leader is not None and not self._is_alive(leader):
            leader = None
        if in_sync is None:
            in_sync = alive
        return PartitionLeader(
            partition.number,
            leader,
            None if leader is None else term,
            replicas,
            [node for node in replicas if node in in_sync and node in alive],
            [node for node in replicas if node not in alive],
        )
