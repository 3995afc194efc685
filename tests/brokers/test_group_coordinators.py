"""State that coordinators hold and drop: static instances, expired offsets, compacted logs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import pytest

from raftlog.errors import FormatError, InvalidArgument, UnknownGroup
from raftlog.partitions.broker import Broker
from raftlog.partitions.coordinator.operation import CoordinatorOperation
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.service import OFFSETS_TOPIC
from raftlog.partitions.results import ALL
from raftlog.records import NewRecord, read_records
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.members import G, Member, commit, coordinator_node, fetch_committed, soon
from tests.waiting import until_async


@pytest.fixture
async def brokers(tmp_path) -> AsyncIterator[Brokers]:
    """Start brokers with one partition of groups, short retention and short logs."""
    settings: dict[str, Any] = {
        "offsets_partitions": 1,
        "metadata_growth_bytes_max": 16 * 1024,
        "retention_interval_s": 3_600,
    }
    async with brokers_in(tmp_path, **settings) as three:
        await three.start()
        await three[1].create_topic("t", 4, deadline=soon())
        yield three


def coordinator_at(broker: Broker) -> GroupCoordinator:
    """Return the group's coordinator at this broker; raise `CoordinatorLoading` while it loads."""
    found = broker.groups.coordinators.find(broker.groups.router.partition_of(G))
    found.check()
    return found


async def wait_for_coordinator(brokers: Brokers) -> GroupCoordinator:
    broker = brokers[await coordinator_node(brokers)]
    return coordinator_at(broker)


async def run_maintenance(brokers: Brokers) -> None:
    """Run the periodic maintenance of every broker to its end."""
    for broker in brokers.running.values():
        maintenance = broker.parts.housekeeping._coordinators
        maintenance.begin()
        await maintenance._task


class Noting:
    """Observer of coordinators that records when they begin and end."""

    def __init__(self) -> None:
        self.began: list[tuple[GroupCoordinator, Mapping[Any, Any]]] = []
        self.ended: list[GroupCoordinator] = []

    def coordinator_began(self, coordinator: GroupCoordinator) -> None:
        self.began.append((coordinator, dict(coordinator.instances)))

    def coordinator_ended(self, coordinator: GroupCoordinator) -> None:
        self.ended.append(coordinator)


async def test_static_instances_survive_a_change_of_the_coordinator(brokers):
    followers = {number: Noting() for number in brokers.running}
    for number, broker in brokers.running.items():
        broker.groups.coordinators.follow(followers[number])
    await commit(brokers[1], {0: 1})
    first = await wait_for_coordinator(brokers)
    await first.store_instance(G, "i", {"format": "binary", "raw": b"\0"}, deadline=soon())
    await first.store_instance(G, "j", {}, deadline=soon())
    await first.store_instance(G, "j", None, deadline=soon())
    assert dict(first.instances) == {(G, "i"): {"format": "binary", "raw": b"\0"}}
    with pytest.raises(InvalidArgument):
        await first.store_instance(G, "large", {"x": "y" * 70_000}, deadline=soon())
    gone = await coordinator_node(brokers)
    await brokers.stop(gone)
    await until_async(lambda: wait_for_coordinator(brokers))
    second = await coordinator_node(brokers)
    assert followers[gone].ended == [first]
    ((began, instances),) = followers[second].began
    assert instances == {(G, "i"): {"format": "binary", "raw": b"\0"}}
    assert began is coordinator_at(brokers[second])


class Asked(NamedTuple):
    """Arguments of the operation that the test registers."""

    group: str
    x: int


async def test_operations_of_other_modules_run_at_the_coordinator(brokers):
    async def answer(coordinator: GroupCoordinator, asked: Asked, deadline: float) -> tuple[str, int, bool]:
        return asked.group, asked.x, coordinator.replica.is_leader

    operation = CoordinatorOperation("consumers.test", answer, Asked, tuple[str, int, bool])
    for broker in brokers.running.values():
        broker.groups.router.register([operation])
    with pytest.raises(UnknownGroup):
        await brokers[1].groups.router.call(operation, G, Asked(G, 1), soon())
    for broker in brokers.running.values():
        assert await broker.groups.router.call(operation, G, Asked(G, 1), soon(), creates=True) == (G, 1, True)


def set_clock(brokers: Brokers, wall_ms: int) -> None:
    """Set the wall clock of commits and of the coordinators' maintenance."""
    for broker in brokers.running.values():
        object.__setattr__(broker.groups._environment, "wall_ms", lambda: wall_ms)


async def test_old_offsets_of_an_empty_group_expire(brokers):
    now_ms, week_ms = brokers[1].groups._environment.wall_ms(), brokers[1].settings.offsets_retention_ms
    member = Member(brokers[1])
    await member.begin()
    set_clock(brokers, now_ms - 2 * week_ms)
    await member.commit(3)
    await commit(brokers[2], {1: 4}, "simple")

    async def groups_at(wall_ms: int) -> list[str]:
        set_clock(brokers, wall_ms)
        await run_maintenance(brokers)
        return await brokers[3].groups.names(deadline=soon())

    assert await groups_at(now_ms - 9 * week_ms) == [G, "simple"]  # the clock of this leader is behind
    assert await groups_at(now_ms - week_ms - 60_000) == [G, "simple"]
    assert await groups_at(now_ms - week_ms + 60_000) == [G]  # that one has a member
    await member.leave()
    assert await groups_at(now_ms + week_ms - 60_000) == [G]  # and had one until now
    assert await fetch_committed(brokers[2]) == {("t", 0): 3}
    assert await groups_at(now_ms + week_ms + 60_000) == []
    assert await fetch_committed(brokers[2]) == {}
    assert sum(broker.parts.counters.group_expired for broker in brokers.running.values()) == 2


async def test_offsets_of_deleted_topics_are_deleted(brokers):
    await brokers[1].create_topic("gone", 1, deadline=soon())
    await commit(brokers[1], {0: 1}, topic="gone")
    await commit(brokers[1], {0: 2})
    await brokers[1].delete_topic("gone", deadline=soon())
    for broker in brokers.running.values():
        await broker.metadata.barrier(soon())
    await run_maintenance(brokers)
    assert len((await wait_for_coordinator(brokers)).folded.offsets[G]) == 1


async def read_log_start(brokers: Brokers) -> int:
    partition = brokers[1].parts.topics.find(OFFSETS_TOPIC).partitions[0]
    return int(partition.replica.group.log_start_offset)  # type: ignore[union-attr]


async def compact_log(brokers: Brokers) -> int:
    """Run the maintenance of all coordinators; return the start of the coordinator's log.

    A leader that two others confirmed may still have to write the entries that made the log long."""
    await run_maintenance(brokers)
    return await read_log_start(brokers)


async def test_compaction_of_a_grown_log_keeps_the_state(brokers):
    member = Member(brokers[1])
    await member.begin()
    for offset in range(0, 160, 4):
        await asyncio.gather(*(member.commit(offset, number, "some words" * 10) for number in range(4)))
    await commit(brokers[2], {0: 7}, "simple")
    await (await wait_for_coordinator(brokers)).store_instance(G, "i", {"x": 1}, deadline=soon())
    before = await brokers[1].groups.committed(G, deadline=soon())
    await until_async(lambda: compact_log(brokers))
    assert await read_log_start(brokers) > 150
    assert await brokers[2].groups.committed(G, deadline=soon()) == before
    await brokers.stop(await coordinator_node(brokers))
    survivor = next(iter(brokers.running.values()))
    assert await survivor.groups.committed(G, deadline=soon()) == before
    assert await fetch_committed(survivor, "simple") == {("t", 0): 7}
    again = await wait_for_coordinator(brokers)
    assert dict(again.instances) == {(G, "i"): {"x": 1}}
    member.broker = survivor
    await member.heartbeat()
    await member.commit(1_000)


async def read_log_records(brokers: Brokers) -> list[tuple[bytes | None, bytes | None]]:
    first, _ = await brokers[1].offsets(OFFSETS_TOPIC, 0, deadline=soon())
    found = await brokers[1].fetch(OFFSETS_TOPIC, 0, first, max_bytes=1 << 20, min_bytes=0, deadline=soon())
    return [(record.key, record.value) for batch in found.batches for record in read_records(batch)]


async def test_figures_of_groups_are_bounded(brokers):
    member = Member(brokers[1])
    await member.begin()
    await brokers[1].produce_records("t", 0, [NewRecord(b"x")] * 5, deadline=soon())
    await member.commit(2)
    for number in range(3):
        await commit(brokers[2], {0: 1, 1: 0}, f"simple-{number}")
    node = await coordinator_node(brokers)

    async def has_lag() -> bool:  # a follower hears of the last commit a little later
        return (await brokers[node].groups.local_figures(100)).lags[:1] == [(G, "t", 0, 3, 2)]

    await until_async(has_lag)
    figures = await brokers[node].groups.local_figures(100)
    assert (figures.by_state["Stable"], figures.by_state["Empty"], figures.members) == (1, 3, 1)
    assert (len(figures.lags), figures.lags_left_out) == (7, 0)
    figures = await brokers[node].groups.local_figures(4)
    assert (len(figures.lags), figures.lags_left_out) == (4, 3)
    elsewhere = await brokers[1 + node % 3].groups.local_figures(100)
    assert (sum(elsewhere.by_state.values()), elsewhere.lags) == (0, [])


async def test_a_log_of_a_later_release_is_refused(brokers):
    await commit(brokers[1], {0: 1})
    node = await coordinator_node(brokers)
    partition = await brokers[1].groups.router.partition_for(G, soon())
    future = await partition.enqueue_records([NewRecord(b"?", b"\0\x7f?")], ALL, soon())
    assert future is not None
    await future
    await brokers.stop(node)
    survivor = next(iter(brokers.running.values()))
    for asked in (lambda: fetch_committed(survivor), lambda: commit(survivor, {0: 2}), Member(survivor).join):
        with pytest.raises(FormatError):
            await asked()
    health = await survivor.health(deadline=soon())
    assert any("1 replicas are not applied: __consumer_offsets/0" in reason for reason in health.unhealthy_reasons)
