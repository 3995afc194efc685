"""Brokers join, are decommissioned, stay away and come back: replicas and leaders follow, and nothing is lost."""

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
from tests.waiting import WITHIN_S, until

_PACE_S = 0.005
"""Between two writes: what is tested is not how many there can be."""


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Provide three brokers of a cluster that others can join."""
    async with brokers_in(tmp_path, 5, seeds=3) as brokers:
        await brokers.start(1, 2, 3)
        yield brokers


def replicas(brokers: Brokers) -> dict[int, int]:
    """Return the number of replicas on each broker, without those of the controller."""
    return {number: len(broker.node.driver.groups) - 1 for number, broker in brokers.running.items()}


def led(brokers: Brokers) -> dict[int, int]:
    """Return the number of partitions that each broker leads."""
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


async def report(broker: Broker) -> BalancerReport:
    return await broker.parts.balancer.report(deadline_in(10_000))


class Writing:
    """Writers to every partition of a topic through all brokers but some, one record after the other, until stopped."""

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

    async def end(self) -> None:
        """Check that no write failed, and each acknowledged record is there, once and in order."""
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


async def removed(brokers: Brokers, asked: int, node: int) -> None:
    """Wait until a decommissioned broker is removed; its process is notified, and ends by itself."""
    await until(lambda: node not in brokers[asked].metadata.state.brokers, lambda: replicas(brokers))


async def test_a_broker_joins_and_another_one_is_decommissioned(three: Brokers) -> None:
    """Both happen under writes, of which none fails: replicas and leaders are even; an empty broker is removed."""
    await three[1].create_topic("t", 12, 3, deadline=deadline_in(10_000))
    writing = Writing(three, "t", 12)
    await three.start(4)
    await until(lambda: replicas(three) == {1: 9, 2: 9, 3: 9, 4: 9}, lambda: replicas(three))
    await until(lambda: led(three) == {1: 3, 2: 3, 3: 3, 4: 3}, lambda: led(three))
    assert (await report(three[4])).status in ("ready", "in_progress")
    writing.avoided.add(1)
    await drain(three[2], 1)
    await removed(three, 2, 1)
    del three.running[1]
    await until(lambda: led(three) == {2: 4, 3: 4, 4: 4}, lambda: led(three))
    await writing.end()
    assert {voter.node_id for voter in three[2].metadata.controller_voters()} == {2, 3, 4}


async def test_the_controllers_leader_and_the_target_die_while_a_broker_is_emptied(three: Brokers) -> None:
    """The next leader continues, and finds another place for the replicas that the target did not get."""
    await three.start(4, 5)
    await set_up(three[1], balancer_mode="off", replicas_repair_after_ms="1000")
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
    await removed(three, asked, source)
    del three.running[source]

    def wanted() -> Counter[int]:
        return Counter(node for each in groups for node in nodes_of(three[asked].metadata.state, each))

    await until(lambda: {*wanted()} == {*three.running}, wanted)
    await until(lambda: replicas(three) == wanted(), lambda: replicas(three))


async def test_replicas_of_a_broker_that_stays_down_are_created_elsewhere(three: Brokers) -> None:
    """The move begins after the configured time. The returning broker loses its old replicas and gets others."""
    await three.start(4)
    await three[1].create_topic("t", 8, 3, deadline=deadline_in(10_000))
    await set_up(three[1], replicas_repair_after_ms="1000")
    await three.stop(3)
    await until(lambda: replicas(three) == {1: 8, 2: 8, 4: 8}, lambda: replicas(three))
    await three.start(3)
    await until(lambda: replicas(three) == {1: 6, 2: 6, 3: 6, 4: 6}, lambda: replicas(three))


async def test_of_fewer_replicas_one_that_stays_away_is_not_waited_for(three: Brokers) -> None:
    """The other replica alone would be no quorum, so the leaving one stays until then, and is replaced then."""
    topic = await three[1].create_topic("t", 1, 3, deadline=deadline_in(10_000))
    group = GroupName(UUID(topic.topic_id), 0)
    await set_up(three[1], balancer_mode="off", replicas_repair_after_ms="1000")
    writing = Writing(three, "t", 1)
    writing.avoided.add(3)
    await three.stop(3)
    await three[1].operations.partitions.set_replicas("t", 0, [1, 3], deadline=deadline_in(10_000))
    await until(lambda: sorted(nodes_of(three[1].metadata.state, group)) == [1, 2])
    await writing.end()


async def test_a_broker_that_is_away_is_decommissioned(three: Brokers) -> None:
    """Its replicas cannot be confirmed as deleted; but every partition does without it."""
    await three.start(4)
    await three[1].create_topic("t", 4, 3, deadline=deadline_in(10_000))
    node = next(node for node in three.running if node != three[1].controller_id)
    await three.stop(node)
    asked = min(three.running)
    await drain(three[asked], node)
    await removed(three, asked, node)
    await until(lambda: replicas(three) == dict.fromkeys(three.running, 4), lambda: replicas(three))


async def test_nothing_is_evened_without_an_order_where_operators_do_not_want_it(three: Brokers) -> None:
    await set_up(three[1], balancer_mode="off")
    await three[1].create_topic("t", 8, 3, deadline=deadline_in(10_000))
    await three.start(4)
    looks = await looked(three[1], "off")
    assert not looks.reasons
    assert replicas(three) == {1: 8, 2: 8, 3: 8, 4: 0}
    assert await three[4].parts.balancer.rebalance(deadline_in(10_000)) == 6
    await until(lambda: replicas(three) == {1: 6, 2: 6, 3: 6, 4: 6}, lambda: replicas(three))


async def test_a_broker_whose_replicas_have_no_other_place_reports_it(three: Brokers) -> None:
    """F38: it stays, until there is a place, or it is to stay after all."""
    await three[1].create_topic("t", 2, 3, deadline=deadline_in(10_000))
    await drain(three[1], 2)
    told = await looked(three[1], "stalled")
    assert told.reasons == [
        "t/0, t/1: node 2 cannot give up its replica: it needs 3 hosts, and 2 are left: start brokers "
        "on other hosts, or give the partition fewer replicas"
    ]
    assert {(each.topic, each.partition, each.node_id) for each in told.misplaced} == {("t", 0, 2), ("t", 1, 2)}
    await drain(three[1], 2, is_draining=False)
    await looked(three[1], "ready")


async def looked(broker: Broker, status: str) -> BalancerReport:
    """Return the first report with this status."""
    async with asyncio.timeout(WITHIN_S):
        while (told := await report(broker)).status != status:
            await asyncio.sleep(0.05)
    return told


def nodes_of(state: ControllerState, group: GroupName) -> list[int]:
    return [replica.node_id for replica in state.assignment(group).replicas]
