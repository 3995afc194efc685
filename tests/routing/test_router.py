"""Next broker for a request: one that has dropped its replica is not asked again."""

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


class Node:
    """Stand-in for a node to which all others are alive."""

    identity = SimpleNamespace(node_id=ME)

    def is_alive(self, node: NodeId) -> bool:
        return True

    async def pause(self, deadline: float) -> None:
        await asyncio.sleep(0)


def partition(*nodes: NodeId) -> Any:
    assigned = [ReplicaId(node, UUID(int=node)) for node in nodes]
    return SimpleNamespace(name="orders/0", replica=None, hint=None, failed=None, assigned=assigned)


async def test_a_read_goes_to_where_the_replicas_are_now() -> None:
    router = PartitionRouter(cast(Any, Node()))
    moved = partition(LEADER)
    moved.hint = FORMER
    asked: list[NodeId] = []

    async def there(node: NodeId) -> str:
        asked.append(node)
        if node == FORMER:
            raise NotLeader("there is no replica here")
        return "read"

    async def here(replica: object) -> str:
        raise AssertionError

    assert await router.call(cast(Partition, moved), deadline_in(10_000), here, there) == "read"
    assert asked == [FORMER, LEADER]
