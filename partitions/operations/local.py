"""Replicas on this broker, for operators that query one broker. Called by listeners, as `operations.replicas`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from raftlog.errors import NotLeader
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica import Replica
from raftlog.partitions.results import ActiveProducer
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topics
from raftlog.values.placement import LocalReplica, LocalSummary, make_places
from raftlog.values.value import NO_LEADER, leader_number

_SLICE: Final = 64
"""Replicas described in one turn of the loop."""


class LocalReplicas:
    """Information about the replicas on this broker. No other broker is asked, so the deadlines have no effect."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def local_replicas(self, *, deadline: Deadline) -> list[LocalReplica]:
        """Return all replicas, by topic and number."""
        found = [
            _describe(topic, partition, replica) async for topic, partition, replica in _local_partitions(self._topics)
        ]
        return sorted(found, key=lambda each: (each.topic, each.partition))

    async def local_summary(self, *, deadline: Deadline) -> LocalSummary:
        """Return the number of replicas, and of those without a leader or with too few copies."""
        found = await self.local_replicas(deadline=deadline)
        leaderless = sum(each.leader_id == NO_LEADER for each in found)
        return LocalSummary(len(found), leaderless, sum(each.is_under_replicated for each in found))

    async def active_producers(self, topic: str, partition: int, *, deadline: Deadline) -> list[ActiveProducer]:
        """Return the idempotent producers of a partition that this broker leads.

        Raises `UnknownTopic`, `UnknownPartition`, `NotLeader`, and `Unavailable` while a new leader reads them."""
        found = self._topics.find(topic).partition(partition)
        if found.replica is None:
            raise NotLeader(f"{found.name} has no replica on this broker; ask its leader")
        return await found.replica.transactions.active_producers(deadline)


async def _local_partitions(topics: Topics) -> AsyncIterator[tuple[str, Partition, Replica]]:
    """Yield the partitions with a replica here; yield to the event loop between slices."""
    count = 0
    for topic in topics:
        for partition in topic.partitions:
            if partition.replica is None:
                continue
            yield topic.name, partition, partition.replica
            count += 1
            if count % _SLICE == 0:
                await asyncio.sleep(0)


def _describe(topic: str, partition: Partition, replica: Replica) -> LocalReplica:
    """Return the description of one replica on this broker."""
    description = replica.describe()
    is_leader = description.in_sync is not None
    is_lacking = is_leader and len(description.in_sync or ()) < len(partition.assigned)
    if description.problem is not None:
        status = description.problem
    elif is_leader:
        status = "leads" if description.is_ready else "begins to lead"
    else:
        status = "has no leader" if description.leader is None else "follows"
    nodes = [each.node_id for each in partition.assigned]
    return LocalReplica(
        topic=topic,
        partition=partition.number,
        leader_id=leader_number(description.leader),
        is_leader=is_leader,
        is_under_replicated=is_lacking,
        replicas=make_places(nodes),
        bytes=description.size_bytes,
        status=status,
    )
