"""Broker for the next attempt of a request: one without a replica is not asked twice."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from raftlog.errors import NotLeader
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.raft import ReplicaId
from raftlog.types import NodeId

ME, FORMER, LEADER = NodeId(1), NodeId(2), NodeId(3)


class FakeNode:
    """Fake node that sees all others as alive."""

    identity = SimpleNamespace(node_id=ME)

    def is_alive(self, node: NodeId) -> bool:
        return True

    async def pause(self, deadline: float) -> None:
        await asyncio.sleep(0)


def partition(*nodes: NodeId) -> Any:
    assigned = [ReplicaId(node, UUID(int=node)) for node in nodes]
    return SimpleNamespace(name="orders/0", replica=None, hint=None, failed=None, assigned=assigned)


async def test_a_read_is_sent_to_the_present_replicas() -> None:
    router = PartitionRouter(cast(Any, FakeNode()))
    moved = partition(LEADER)
    moved.hint = FORMER
    asked: list[NodeId] = []

    async def read_remotely(node: NodeId) -> str:
        asked.append(node)
        if node == FORMER:
            raise NotLeader("there is no replica here")
        return "read"

    async def read_locally(replica: object) -> str:
        raise AssertionError

    assert await router.call(cast(Partition, moved), deadline_in(10_000), read_locally, read_remotely) == "read"
    assert asked == [FORMER, LEADER]
