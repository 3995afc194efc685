"""The replicas on this broker, for whoever asks just this one. Called by the façade `Operations`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from raftlog.partitions.replica import Replica
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topics
from raftlog.values.placement import LocalReplica, LocalSummary, places_of
from raftlog.values.value import NO_LEADER, leader_number

_SLICE: Final = 64
"""Replicas described in one turn of the loop."""


async def local_replicas(topics: Topics) -> list[LocalReplica]:
    """All of them, by topic and number."""
    found = [_described(topic, partition, replica) async for topic, partition, replica in _here(topics)]
    return sorted(found, key=lambda each: (each.topic, each.partition))


async def local_summary(topics: Topics) -> LocalSummary:
    """How many there are, and how they are."""
    found = [_described(topic, partition, replica) async for topic, partition, replica in _here(topics)]
    return LocalSummary(
        len(found), sum(each.leader_id == NO_LEADER for each in found), sum(each.is_under_replicated for each in found)
    )


async def _here(topics: Topics) -> AsyncIterator[tuple[str, Partition, Replica]]:
    count = 0
    for topic in topics:
        for partition in topic.partitions:
            if partition.replica is None:
                continue
            yield topic.name, partition, partition.replica
            count += 1
            if count % _SLICE == 0:
                await asyncio.sleep(0)


def _described(topic: str, partition: Partition, replica: Replica) -> LocalReplica:
    told = replica.describe()
    is_leader = told.in_sync is not None
    is_lacking = is_leader and len(told.in_sync or ()) < len(partition.assigned)
    if told.problem is not None:
        status = told.problem
    elif is_leader:
        status = "leads" if told.is_ready else "begins to lead"
    else:
        status = "follows nobody" if told.leader is None else "follows"
    nodes = [each.node_id for each in partition.assigned]
    return LocalReplica(
        topic=topic,
        partition=partition.number,
        leader_id=leader_number(told.leader),
        is_leader=is_leader,
        is_under_replicated=is_lacking,
        replicas=places_of(nodes),
        bytes=told.size_bytes,
        status=status,
    )
