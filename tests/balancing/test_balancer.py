"""Brokers join, are decommissioned, stay away and come back: replicas and leaders follow, and nothing is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from raftlog.partitions.balancing.report import Report
from raftlog.partitions.broker import Broker
from raftlog.partitions.control import AlterClusterConfig, UpdateBroker
from raftlog.partitions.deadline import deadline_in
from raftlog.records import NewRecord, read_records
from tests.brokers.conftest import Brokers, brokers_in

WITHIN_S = 30.0


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Three brokers of a cluster that others can join."""
    async with brokers_in(tmp_path, 5, seeds=3) as brokers:
        await brokers.start(1, 2, 3)
        yield brokers


async def until(condition: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Wait for it; the brokers run on this loop, and what they do is what may make it true."""
    try:
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it did not come to pass: {what()}") from None


def replicas(brokers: Brokers) -> dict[int, int]:
    """How many replicas the process of each broker has, those of the controller's group not counted."""
    return {number: len(broker.node.driver.groups) - 1 for number, broker in brokers.running.items()}


def led(brokers: Brokers) -> dict[int, int]:
    """How many partitions each broker leads."""
    counts: Counter[int] = Counter()
    for number, broker in brokers.running.items():
        own = broker.metadata.group_id
        for group in broker.node.driver.groups.values():
            counts[number] += group.group_id != own and group.core.has_own_term_commit
    return {number: counts[number] for number in brokers.running}


async def set_up(broker: Broker, **configs: str) -> None:
    settings = tuple(sorted((name.replace("_", "."), value) for name, value in configs.items()))
    await broker.metadata.submit(AlterClusterConfig(settings, (), None), deadline_in(10_000))


async def drain(broker: Broker, node: int, *, is_draining: bool = True) -> None:
    row = broker.metadata.state.brokers[node]
    await broker.metadata.submit(UpdateBroker(row.node_id, row.disk_uuid, is_draining), deadline_in(10_000))


async def report(broker: Broker) -> Report:
    return await broker.balancer.report(deadline_in(10_000))


class Writing:
    """Writes to every partition of a topic through all brokers but some, one record after the other, until told to
    end."""

    def __init__(self, brokers: Brokers, topic: str, partitions: int) -> None:
        self._brokers, self._topic, self._partitions = brokers, topic, partitions
        self.acknowledged: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self.failed: list[object] = []
        self.avoided: set[int] = set()
        self._ends = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        count = 0
        while not self._ends:
            number = count % self._partitions
            through = [
                broker
                for node, broker in sorted(self._brokers.running.items())
                if broker.is_ready and node not in self.avoided
            ]
            broker = through[count % len(through)]
            value = b"%d" % count
            record = [NewRecord(value, None, 1_000)]
            [result] = await broker.produce_records(self._topic, number, record, deadline=deadline_in(10_000))
            if result.error is None:
                self.acknowledged[number].append(value)
            else:
                self.failed.append(result.error)
            count += 1

    async def end(self) -> None:
        """Nothing failed, and everything that was acknowledged is there, once and in its order."""
        self._ends = True
        await self._task
        assert not self.failed
        for number, values in self.acknowledged.items():
            for broker in self._brokers.running.values():
                assert await read(broker, self._topic, number) == values


async def read(broker: Broker, topic: str, partition: int) -> list[bytes]:
    end = (await broker.offsets(topic, partition, linearizable=True, deadline=deadline_in(10_000))).end
    values: list[bytes] = []
    while len(values) < end:
        fetched = await broker.fetch(topic, partition, len(values), max_bytes=1 << 20, deadline=deadline_in(10_000))
        values += [record.value or b"" for batch in fetched.batches for record in read_records(batch)]
    return values


async def test_a_broker_joins_and_another_one_is_decommissioned(three: Brokers) -> None:
    """Both under writes, of which none fails: replicas are even, and leaders; who holds nothing is removed."""
    await three[1].create_topic("t", 12, 3, deadline=deadline_in(10_000))
    writing = Writing(three, "t", 12)
    await three.start(4)
    await until(lambda: replicas(three) == {1: 9, 2: 9, 3: 9, 4: 9}, lambda: replicas(three))
    await until(lambda: led(three) == {1: 3, 2: 3, 3: 3, 4: 3}, lambda: led(three))
    assert (await report(three[4])).status in ("ready", "in_progress")
    writing.avoided.add(1)
    await drain(three[2], 1)
    await until(lambda: 1 not in three[2].metadata.state.brokers, lambda: replicas(three))
    del three.running[1]  # it is told to go, and may have gone
    await until(lambda: led(three) == {2: 4, 3: 4, 4: 4}, lambda: led(three))
    await writing.end()
    assert {voter.node_id for voter in three[2].metadata.controller_voters()} == {2, 3, 4}
