"""Nodes with the cluster secret that are missing in the receiving broker's copy of the metadata."""

import asyncio
from pathlib import Path

from raftlog.partitions.controller.machine import GroupName
from raftlog.partitions.deadline import deadline_in
from raftlog.types import NodeId
from tests.brokers.conftest import Brokers, brokers_in
from tests.operations.conftest import assigned_nodes, soon, write
from tests.waiting import WITHIN_S, until


async def remove_broker(brokers: Brokers, node: int, asked: int) -> None:
    """Decommission a broker, wait until the cluster has removed it, and stop its process."""
    await brokers[asked].operations.brokers.decommission(node, deadline=deadline_in(30_000))
    await until(lambda: NodeId(node) not in brokers[asked].metadata.state.brokers)
    await brokers.stop(node)


async def test_a_broker_accepts_leaders_that_joined_while_it_was_down(tmp_path: Path) -> None:
    """All voters were replaced by brokers at unknown addresses while one broker was down.

    None of the new addresses is among its seeds, and the brokers that it knew have left for ever. Its replicas
    must still accept what their new leaders send."""
    async with brokers_in(tmp_path, 5, seeds=3) as brokers:
        await brokers.start(1, 2, 3)
        await brokers[1].create_topic("t", 1, 3, deadline=soon())
        await write(brokers[1], "t", b"before")
        await brokers.stop(1)
        await brokers.start(4, 5)
        for node in (2, 3):
            await remove_broker(brokers, node, asked=4)
        assert sorted(assigned_nodes(brokers[4], "t")) == [1, 4, 5]
        await write(brokers[4], "t", b"while it was away")
        async with asyncio.timeout(WITHIN_S):
            await brokers.start(1)
        assert {broker.node_id for broker in brokers[1].metadata.state.all_brokers()} == {1, 4, 5}
        await write(brokers[1], "t", b"after")
        topic = brokers[1].metadata.state.topic("t").topic_id
        groups = [brokers[node].node.find_replica(GroupName(topic, 0).group_id) for node in (1, 4, 5)]
        await until(lambda: len({group and group.high_watermark for group in groups}) == 1)
