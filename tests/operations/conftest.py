"""Brokers of one cluster in this process, and helpers of the tests of operators' requests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import GroupName
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.records import NewRecord
from tests.brokers.conftest import Brokers, brokers_in


def soon() -> Deadline:
    """Return a deadline 10 s from now."""
    return deadline_in(10_000)


async def write(broker: Broker, topic: str, value: bytes, partition: int = 0) -> None:
    results = await broker.produce_records(topic, partition, [NewRecord(value, None, 1_000)], deadline=soon())
    assert [result.error for result in results] == [None]


def assigned_nodes(broker: Broker, topic: str, partition: int = 0) -> list[int]:
    state = broker.metadata.state
    name = GroupName(state.topic(topic).topic_id, partition)
    return [replica.node_id for replica in state.assignment(name).replicas]


def voters(broker: Broker, topic: str, partition: int = 0) -> set[int]:
    """Return the voters in the configuration of the replica here."""
    name = GroupName(broker.metadata.state.topic(topic).topic_id, partition)
    group = broker.node.find_replica(name.group_id)
    return set() if group is None else {voter.node_id for voter in group.core.configuration.all_members()}


def count_led_groups(broker: Broker) -> int:
    return broker.node.leaders.led_count


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Return three brokers of one cluster."""
    async with brokers_in(tmp_path) as brokers:
        await brokers.start()
        yield brokers


@pytest.fixture
async def four(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Return four brokers of one cluster."""
    async with brokers_in(tmp_path, 4) as brokers:
        await brokers.start()
        yield brokers
