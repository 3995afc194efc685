"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.settings import DEFAULTS
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.operations.cluster_settings import current_settings
from tests.brokers.conftest import Brokers
from tests.kafka.admin.conftest import Admin
from tests.operations.conftest import assigned_nodes, voters
from tests.waiting import until, until_async

UNCLEAN = 1


@pytest.fixture
async def unplanned(three: Brokers) -> Brokers:
    """Return three brokers with a topic and without balancing."""
    settings = {"balancer.mode": "off", "leaders.balance": False}
    await three[1].operations.cluster.alter_cluster_config(settings, deadline=deadline_in(10_000))
    await until(
        lambda: not any(current_settings(each.metadata.state).leaders_balance for each in three.running.values())
    )
    assignments = [[1, 2, 3]]
    await three[1].create_topic("t", 1, 3, assignments=assignments, deadline=deadline_in(10_000))
    return three


async def elect(admin: Admin, topics: Any, *, kind: int | None = 0, version: int | None = None) -> Any:
    fields = {} if kind is None else {"election_type": kind}
    answer = await admin.call(ApiKey.ELECT_LEADERS, version, topic_partitions=topics, timeout_ms=10_000, **fields)
    return [
        (topic.topic, each.partition_id, each.error_code)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]


async def reassign(admin: Admin, *orders: tuple[str, int, list[int] | None]) -> list[tuple[str, int, int]]:
    """Reassign partitions (topic, number, replicas); return their error codes."""
    topics = [
        {"name": name, "partitions": [{"partition_index": number, "replicas": replicas}]}
        for name, number, replicas in orders
    ]
    answer = await admin.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=topics, timeout_ms=10_000)
    assert (answer.error_code, answer.error_message) == (0, None)
    return [
        (topic.name, each.partition_index, each.error_code) for topic in answer.responses for each in topic.partitions
    ]


async def list_pending(
    admin: Admin, topics: Any = None
) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    """Return replicas, adding and removing ones of each reassignment that has not ended."""
    answer = await admin.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=topics, timeout_ms=10_000)
    assert (answer.error_code, answer.error_message) == (0, None)
    return {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    }


async def test_preferred_leaders_are_elected_at_every_version(unplanned: Brokers) -> None:
    admin = Admin(unplanned[3], DEFAULTS)
    for version in admin.versions(ApiKey.ELECT_LEADERS):
        leader = await unplanned.leader("t")
        preferred = next(node for node in (1, 2, 3) if node != leader)
        order = [preferred, *(node for node in (1, 2, 3) if node != preferred)]
        await unplanned[1].operations.partitions.set_replicas("t", 0, order, deadline=deadline_in(10_000))
        kind = None if version == 0 else 0
        topics = [{"topic": "t", "partitions": [0, 9]}, {"topic": "none", "partitions": [0]}]
        assert await elect(admin, topics, kind=kind, version=version) == [("t", 0, 0), ("t", 9, 3), ("none", 0, 3)]
        assert await unplanned.leader("t") == preferred
        not_needed = await elect(admin, topics[:1], kind=kind, version=version)
        assert not_needed == [("t", 0, ErrorCode.ELECTION_NOT_NEEDED), ("t", 9, 3)]
        assert await elect(admin, None, kind=kind, version=version) == []


async def test_no_unclean_leader_is_elected(unplanned: Brokers) -> None:
    admin = Admin(unplanned[1], DEFAULTS)
    topics = [{"topic": "t", "partitions": [0]}]
    assert await elect(admin, topics, kind=UNCLEAN) == [("t", 0, ErrorCode.ELECTION_NOT_NEEDED)]
    answer = await admin.call(ApiKey.ELECT_LEADERS, 2, topic_partitions=topics, timeout_ms=1_000, election_type=7)
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])
    await unplanned.leader("t")
    await unplanned.stop(2, 3)
    await until(lambda: unplanned[1].leader_of("t", 0) is None)
    assert await elect(admin, topics, kind=UNCLEAN) == [("t", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]


async def test_a_preferred_leader_that_is_down_is_not_elected(unplanned: Brokers) -> None:
    leader = await unplanned.leader("t")
    down = next(node for node in (2, 3) if node != leader)
    order = [down, *(node for node in (1, 2, 3) if node != down)]
    await unplanned[1].operations.partitions.set_replicas("t", 0, order, deadline=deadline_in(10_000))
    await unplanned.stop(down)
    topics = [{"topic": "t", "partitions": [0]}]
    result = await elect(Admin(unplanned[1], DEFAULTS), topics)
    assert result == [("t", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]


async def test_partitions_are_reassigned(unplanned: Brokers) -> None:
    admin = Admin(unplanned[2], DEFAULTS)
    assert await reassign(admin, ("t", 0, [2, 1])) == [("t", 0, 0)]
    assert assigned_nodes(unplanned[2], "t") == [2, 1]
    await until(lambda: voters(unplanned[2], "t") == {1, 2})

    async def is_applied() -> bool:
        """Return whether the leader has applied the last configuration."""
        return not await list_pending(admin)

    await until_async(is_applied)
    assert await reassign(admin, ("t", 0, None)) == [("t", 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)]


async def test_pending_reassignments_are_listed_and_cancelled(unplanned: Brokers) -> None:
    admin = Admin(unplanned[1], DEFAULTS)
    await reassign(admin, ("t", 0, [1, 2]))
    await until(lambda: voters(unplanned[1], "t") == {1, 2})
    await unplanned.stop(3)
    await until(lambda: not unplanned[1].node.is_alive(3))
    assert await reassign(admin, ("t", 0, [1, 3])) == [("t", 0, 0)]
    listed = {("t", 0): ([1, 3, 2], [3], [2])}
    assert await list_pending(admin) == listed
    assert await list_pending(admin, [{"name": "t", "partition_indexes": [0]}]) == listed
    assert await list_pending(admin, [{"name": "t", "partition_indexes": [1]}]) == {}
    assert await reassign(admin, ("t", 0, None)) == [("t", 0, 0)]
    assert assigned_nodes(unplanned[1], "t") == [1, 2]


BAD_ORDERS = [
    (("t", 0, [1, 9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (("t", 0, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (("t", 0, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (("t", 5, [1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (("t", 5, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (("none", 0, [1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (("none", 0, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (("t", 0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
]


async def test_invalid_reassignments_are_refused(unplanned: Brokers) -> None:
    admin = Admin(unplanned[1], DEFAULTS)
    for order, code in BAD_ORDERS:
        assert await reassign(admin, order) == [(*order[:2], code)]
    twice = await reassign(admin, ("t", 0, [1]), ("t", 0, [2]))
    assert twice == [("t", 0, ErrorCode.INVALID_REQUEST)] * 2
    assert assigned_nodes(unplanned[1], "t") == [1, 2, 3]
