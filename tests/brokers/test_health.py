"""Health of a cluster while partitions are without a leader: for an election's time nothing is wrong, then it is."""

import asyncio
from dataclasses import replace

from raftlog.partitions.broker import Broker
from raftlog.partitions.cluster_view import LEADERLESS_S
from raftlog.partitions.deadline import deadline_in
from raftlog.values.brokers import ClusterHealth


async def look(broker: Broker) -> ClusterHealth:
    return await broker.health(deadline=deadline_in(10_000))


def names_leaders(health: ClusterHealth) -> bool:
    return any("no leader" in reason for reason in health.unhealthy_reasons)


async def leave_alone(brokers, number: int) -> Broker:
    """Stop all other brokers, and return this one once it has no leader of `t/0` and of the controller."""
    await brokers.stop(*(other for other in tuple(brokers.running) if other != number))
    broker = brokers[number]
    cores = [group.core for group in broker.node.driver.groups.values()]
    async with asyncio.timeout(20):
        while any(core.leader is not None for core in cores):
            await asyncio.sleep(0.02)
    return broker


def at(broker: Broker, seconds: float) -> None:
    """Let the broker have known no leader for this time."""
    leader_statistics = broker.node.leader_statistics
    leader_statistics._leaderless = dict.fromkeys(leader_statistics._leaderless, 0.0)
    leader_statistics._clock = lambda: seconds


async def test_a_partition_without_a_leader_is_unhealthy_after_an_elections_time(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    whole = await look(brokers[1])
    assert (whole.leaderless_count, whole.electing_count) == (0, 0)
    broker = await leave_alone(brokers, await brokers.leader("t"))
    at(broker, LEADERLESS_S - 0.1)
    early = await look(broker)
    assert (list(early.electing_partitions), early.electing_count) == (["t/0"], 1)
    assert list(early.lagging_partitions) == ["t/0"], "what is stopped is decided by this"
    assert (list(early.leaderless_partitions), early.leaderless_count) == ([], 0)
    assert not names_leaders(early)
    at(broker, LEADERLESS_S + 0.1)
    late = await look(broker)
    assert (list(late.leaderless_partitions), late.leaderless_count) == (["t/0"], 1)
    reasons = " ".join(late.unhealthy_reasons)
    assert "1 partitions have no leader and cannot be written: t/0" in reasons
    assert "the controller has no leader" in reasons


async def test_a_lost_majority_is_shown_by_itself(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    (follower, _) = await brokers.followers("t")
    broker = await leave_alone(brokers, follower)
    async with asyncio.timeout(20):
        while not (await look(broker)).leaderless_count:
            await asyncio.sleep(0.05)


async def test_a_leader_that_is_known_and_not_asked_is_no_reason(brokers):
    """During a move the partition's leader need not be among its assigned brokers."""
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    leader = await brokers.leader("t")
    (follower, _) = await brokers.followers("t")
    partition = brokers[follower].parts.topics.find("t").partitions[0]
    partition.assigned = [each for each in partition.assigned if each.node_id != leader]
    health = await look(brokers[follower])
    assert (health.electing_count, health.leaderless_count) == (1, 0)
    assert not names_leaders(health)


async def test_a_new_topics_replicas_have_time_to_be_made(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    for broker in brokers.running.values():
        broker.parts.topics.find("t").partitions[0].replica = None
    node, row = brokers[1].node, brokers[1].parts.topics.find("t").row
    for age_ms, is_leaderless in ((100, False), (2_000, True), (-60_000, True)):
        node.environment = replace(node.environment, wall_ms=lambda age=age_ms: row.creation.created_ms + age)
        health = await look(brokers[1])
        assert health.electing_count == 1
        assert health.leaderless_count == is_leaderless
