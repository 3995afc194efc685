"""Health of a cluster with leaderless partitions: healthy for the time of an election, then unhealthy."""

from dataclasses import replace

from raftlog.partitions.broker import Broker
from raftlog.partitions.cluster_view import LEADERLESS_S
from raftlog.partitions.deadline import deadline_in
from raftlog.values.brokers import ClusterHealth
from tests.waiting import until, until_async


async def fetch_health(broker: Broker) -> ClusterHealth:
    return await broker.health(deadline=deadline_in(10_000))


def names_leaders(health: ClusterHealth) -> bool:
    return any("no leader" in reason for reason in health.unhealthy_reasons)


async def stop_all_but(brokers, number: int) -> Broker:
    """Stop all other brokers; return this one once it has no leader of `t/0` and of the controller."""
    await brokers.stop(*(other for other in tuple(brokers.running) if other != number))
    broker = brokers[number]
    cores = [group.core for group in broker.node.driver.groups.values()]
    await until(lambda: all(core.leader is None for core in cores))
    return broker


def pretend_leaderless_for(broker: Broker, seconds: float) -> None:
    """Set the broker's clock so that it has had no leader for this number of seconds."""
    leader_statistics = broker.node.leader_statistics
    leader_statistics._leaderless = dict.fromkeys(leader_statistics._leaderless, 0.0)
    leader_statistics._clock = lambda: seconds


async def test_a_leaderless_partition_is_unhealthy_after_the_time_of_an_election(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    whole = await fetch_health(brokers[1])
    assert (whole.leaderless_count, whole.electing_count) == (0, 0)
    broker = await stop_all_but(brokers, await brokers.leader("t"))
    pretend_leaderless_for(broker, LEADERLESS_S - 0.1)
    early = await fetch_health(broker)
    assert (list(early.electing_partitions), early.electing_count) == (["t/0"], 1)
    assert list(early.lagging_partitions) == ["t/0"], "what is stopped is decided by this"
    assert (list(early.leaderless_partitions), early.leaderless_count) == ([], 0)
    assert not names_leaders(early)
    pretend_leaderless_for(broker, LEADERLESS_S + 0.1)
    late = await fetch_health(broker)
    assert (list(late.leaderless_partitions), late.leaderless_count) == (["t/0"], 1)
    reasons = " ".join(late.unhealthy_reasons)
    assert "1 partitions have no leader and cannot be written: t/0" in reasons
    assert "the controller has no leader" in reasons


async def test_a_lost_majority_is_reported_without_other_brokers(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    (follower, _) = await brokers.followers("t")
    broker = await stop_all_but(brokers, follower)

    async def is_reported() -> bool:
        return (await fetch_health(broker)).leaderless_count > 0

    await until_async(is_reported)


async def test_a_known_leader_that_was_not_contacted_is_no_unhealthy_reason(brokers):
    """During a move the partition's leader is not always among its assigned brokers."""
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    leader = await brokers.leader("t")
    (follower, _) = await brokers.followers("t")
    partition = brokers[follower].parts.topics.find("t").partitions[0]
    partition.assigned = [each for each in partition.assigned if each.node_id != leader]
    health = await fetch_health(brokers[follower])
    assert (health.electing_count, health.leaderless_count) == (1, 0)
    assert not names_leaders(health)


async def test_a_new_topic_is_healthy_while_its_replicas_are_created(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    for broker in brokers.running.values():
        broker.parts.topics.find("t").partitions[0].replica = None
    node, row = brokers[1].node, brokers[1].parts.topics.find("t").row
    for age_ms, is_leaderless in ((100, False), (2_000, True), (-60_000, True)):
        node.environment = replace(node.environment, wall_ms=lambda age=age_ms: row.creation.created_ms + age)
        health = await fetch_health(brokers[1])
        assert health.electing_count == 1
        assert health.leaderless_count == is_leaderless
