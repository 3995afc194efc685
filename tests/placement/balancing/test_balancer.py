"""Brokers join, are decommissioned, stop and restart: replicas and leaders follow, and no record is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import AlterClusterConfig, ControllerState, GroupName, UpdateBroker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.placement.balancing.report import BalancerReport
from raftlog.records import NewRecord, read_records
from tests.brokers.conftest import Brokers, brokers_in
from tests.placement.balancing.timing import shorten_intervals
from tests.waiting import until, until_async

_PACE_S = 0.005
"""Between two writes: what is tested is not how many there can be."""


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_intervals(monkeypatch)


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Start three brokers of a cluster that others can join."""
    async with brokers_in(tmp_path, 5, seeds=3) as brokers:
        await brokers.start(1, 2, 3)
        yield brokers


def count_replicas(brokers: Brokers) -> dict[int, int]:
    """Return the number of replicas on each broker, without those of the controller."""
    return {number: len(broker.node.driver.groups) - 1 for number, broker in brokers.running.items()}


def count_leaders(brokers: Brokers) -> dict[int, int]:
    """Return the number of partitions that each broker leads."""
    counts: Counter[int] = Counter()
    for number, broker in brokers.running.items():
        own = broker.metadata.group_id
        for group in broker.node.driver.groups.values():
            counts[number] += group.group_id != own and group.core.has_own_term_commit
    return {number: counts[number] for number in brokers.running}


async def configure_cluster(broker: Broker, **configs: str) -> None:
    settings = tuple(sorted((name.replace("_", "."), value) for name, value in configs.items()))
    await broker.metadata.submit(AlterClusterConfig(settings, (), None), deadline_in(10_000))


async def drain(broker: Broker, node: int, *, is_draining: bool = True) -> None:
    row = broker.metadata.state.brokers[node]
    await broker.metadata.submit(UpdateBroker(row.node_id, row.disk_uuid, is_draining), deadline_in(10_000))


async def report(broker: Broker) -> BalancerReport:
    return await broker.parts.balancer.report(deadline_in(10_000))


class PartitionWriters:
    """Writers to every partition of a topic through all brokers but `avoided`, until stopped."""

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
            await asyncio.sleep(_PACE_S)

    async def stop_and_check(self) -> None:
        """Stop; check that no write failed, and each acknowledged record is stored once and in order."""
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


async def wait_until_removed(brokers: Brokers, asked: int, node: int) -> None:
    """Wait until a decommissioned broker is removed from the controller's state."""
    await until(lambda: node not in brokers[asked].metadata.state.brokers, lambda: count_replicas(brokers))


async def test_a_broker_joins_and_another_one_is_decommissioned(three: Brokers) -> None:
    """Both happen during writes, and no write fails; replicas and leaders end even, the empty broker is removed."""
    await three[1].create_topic("t", 12, 3, deadline=deadline_in(10_000))
    writing = PartitionWriters(three, "t", 12)
    await three.start(4)
    await until(lambda: count_replicas(three) == {1: 9, 2: 9, 3: 9, 4: 9}, lambda: count_replicas(three))
    await until(lambda: count_leaders(three) == {1: 3, 2: 3, 3: 3, 4: 3}, lambda: count_leaders(three))
    assert (await report(three[4])).status in ("ready", "in_progress")
    writing.avoided.add(1)
    await drain(three[2], 1)
    await wait_until_removed(three, 2, 1)
    del three.running[1]
    await until(lambda: count_leaders(three) == {2: 4, 3: 4, 4: 4}, lambda: count_leaders(three))
    await writing.stop_and_check()
    assert {voter.node_id for voter in three[2].metadata.controller_voters()} == {2, 3, 4}


async def test_a_broker_is_emptied_although_the_controllers_leader_and_the_target_fail(three: Brokers) -> None:
    """The next leader continues, and finds another broker for the replicas that the target did not get."""
    await three.start(4, 5)
    await configure_cluster(three[1], balancer_mode="off", replicas_repair_after_ms="1000")
    topic = await three[1].create_topic("t", 8, 3, deadline=deadline_in(10_000))
    leader = three[1].controller_id
    assert leader is not None
    source = next(node for node in three.running if node != leader)
    groups = [GroupName(UUID(topic.topic_id), number) for number in range(8)]
    before = {each: nodes_of(three[leader].metadata.state, each) for each in groups}
    targets: set[int] = set()

    def has_begun() -> bool:
        for each in groups:
            targets.update(set(nodes_of(three[leader].metadata.state, each)) - set(before[each]))
        return bool(targets)

    await drain(three[leader], source)
    await until(has_begun)
    dying = {leader, min(targets)}
    asked = next(node for node in three.running if node not in (source, *dying))
    await three.stop(*dying)
    await three.start(leader)
    await wait_until_removed(three, asked, source)
    del three.running[source]

    def count_assigned() -> Counter[int]:
        return Counter(node for each in groups for node in nodes_of(three[asked].metadata.state, each))

    await until(lambda: {*count_assigned()} == {*three.running}, count_assigned)
    await until(lambda: count_replicas(three) == count_assigned(), lambda: count_replicas(three))


async def test_replicas_of_a_broker_that_stays_down_are_created_elsewhere(three: Brokers) -> None:
    """The moves begin after the configured time; the returning broker loses its old replicas and gets others."""
    await three.start(4)
    await three[1].create_topic("t", 8, 3, deadline=deadline_in(10_000))
    await configure_cluster(three[1], replicas_repair_after_ms="1000")
    await three.stop(3)
    await until(lambda: count_replicas(three) == {1: 8, 2: 8, 4: 8}, lambda: count_replicas(three))
    await three.start(3)
    await until(lambda: count_replicas(three) == {1: 6, 2: 6, 3: 6, 4: 6}, lambda: count_replicas(three))


async def test_a_reduction_of_replicas_does_not_wait_for_a_stopped_one(three: Brokers) -> None:
    """The other replica alone would be no quorum, so the leaving one stays until the stopped one is replaced."""
    topic = await three[1].create_topic("t", 1, 3, deadline=deadline_in(10_000))
    group = GroupName(UUID(topic.topic_id), 0)
    await configure_cluster(three[1], balancer_mode="off", replicas_repair_after_ms="1000")
    writing = PartitionWriters(three, "t", 1)
    writing.avoided.add(3)
    await three.stop(3)
    await three[1].operations.partitions.set_replicas("t", 0, [1, 3], deadline=deadline_in(10_000))
    await until(lambda: sorted(nodes_of(three[1].metadata.state, group)) == [1, 2])
    await writing.stop_and_check()


async def test_a_stopped_broker_can_be_decommissioned(three: Brokers) -> None:
    """The deletion of its replicas cannot be confirmed, but no partition needs them."""
    await three.start(4)
    await three[1].create_topic("t", 4, 3, deadline=deadline_in(10_000))
    node = next(node for node in three.running if node != three[1].controller_id)
    await three.stop(node)
    asked = min(three.running)
    await drain(three[asked], node)
    await wait_until_removed(three, asked, node)
    await until(lambda: count_replicas(three) == dict.fromkeys(three.running, 4), lambda: count_replicas(three))


async def test_the_balancer_moves_only_on_request_when_it_is_off(three: Brokers) -> None:
    await configure_cluster(three[1], balancer_mode="off")
    await three[1].create_topic("t", 8, 3, deadline=deadline_in(10_000))
    await three.start(4)
    looks = await wait_for_report(three[1], "off")
    assert not looks.reasons
    assert count_replicas(three) == {1: 8, 2: 8, 3: 8, 4: 0}
    assert await three[4].parts.balancer.rebalance(deadline_in(10_000)) == 6
    await until(lambda: count_replicas(three) == {1: 6, 2: 6, 3: 6, 4: 6}, lambda: count_replicas(three))


async def test_replicas_without_another_place_are_reported(three: Brokers) -> None:
    """F38: the broker stays until there is a place, or until it is recommissioned."""
    await three[1].create_topic("t", 2, 3, deadline=deadline_in(10_000))
    await drain(three[1], 2)
    told = await wait_for_report(three[1], "stalled")
    assert told.reasons == [
        "t/0, t/1: node 2 cannot give up its replica: it needs 3 hosts, and 2 are left: start brokers "
        "on other hosts, or give the partition fewer replicas"
    ]
    assert {(each.topic, each.partition, each.node_id) for each in told.misplaced} == {("t", 0, 2), ("t", 1, 2)}
    await drain(three[1], 2, is_draining=False)
    await wait_for_report(three[1], "ready")


async def wait_for_report(broker: Broker, status: str) -> BalancerReport:
    """Return the first report with this status."""

    async def read() -> BalancerReport | None:
        found = await report(broker)
        return found if found.status == status else None

    return await until_async(read)


def nodes_of(state: ControllerState, group: GroupName) -> list[int]:
    return [replica.node_id for replica in state.assignment(group).replicas]
