"""CreateTopics, DeleteTopics and CreatePartitions at all versions, and refused requests."""

from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.settings import DEFAULTS
from raftlog.partitions.deadline import deadline_in
from tests.brokers.conftest import Brokers
from tests.kafka.admin.conftest import Admin


def topic_fields(
    name: str, partitions: int = -1, factor: int = -1, assignments: Any = (), **configs: str | None
) -> Any:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [
            {"partition_index": number, "broker_ids": list(brokers)} for number, brokers in dict(assignments).items()
        ],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }


async def create_topics(
    admin: Admin, *topics: Any, version: int | None = None, validate_only: bool = False
) -> list[Any]:
    fields = {"topics": list(topics), "timeout_ms": 10_000, "validate_only": validate_only}
    answer = await admin.call(ApiKey.CREATE_TOPICS, version, **fields)
    return list(answer.topics)


async def create_partitions(
    admin: Admin, *topics: Any, version: int | None = None, validate_only: bool = False
) -> list[Any]:
    fields = {"topics": list(topics), "timeout_ms": 10_000, "validate_only": validate_only}
    return list((await admin.call(ApiKey.CREATE_PARTITIONS, version, **fields)).results)


async def test_topics_are_created_and_deleted_at_every_version(lone: Admin) -> None:
    for version in lone.versions(ApiKey.CREATE_TOPICS):
        (row,) = await create_topics(lone, topic_fields(f"t{version}", 2, 1, retention_ms="60000"), version=version)
        assert (row.name, row.error_code, row.error_message) == (f"t{version}", 0, None)
        if version >= 5:
            values = {each.name: (each.value, each.config_source) for each in row.configs}
            assert (row.num_partitions, row.replication_factor) == (2, 1)
            assert values["retention.ms"] == ("60000", 1)
            assert values["compression.type"] == ("producer", 5)
    assert lone.broker.topics() == [f"t{version}" for version in lone.versions(ApiKey.CREATE_TOPICS)]
    for version in lone.versions(ApiKey.DELETE_TOPICS):
        names = [f"t{version}", "none"] if version > 1 else []
        answer = await lone.call(ApiKey.DELETE_TOPICS, version, topic_names=names, timeout_ms=10_000)
        assert [(row.name, row.error_code) for row in answer.responses] == list(zip(names, [0, 3], strict=False))
        if version >= 5:
            assert answer.responses[1].error_message == "topic 'none' does not exist; create it first"
    assert lone.broker.topics() == ["t6"]


async def test_minus_one_means_the_default(three: Brokers) -> None:
    (row,) = await create_topics(Admin(three[1], DEFAULTS), topic_fields("t"))
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 1, 3)


async def test_assigned_replicas_are_on_the_named_brokers(three: Brokers) -> None:
    admin = Admin(three[2], DEFAULTS)
    (row,) = await create_topics(admin, topic_fields("t", assignments={0: [2, 3], 1: [3, 1]}))
    assert (row.error_code, row.error_message, row.num_partitions, row.replication_factor) == (0, None, 2, 2)
    topic = await three[2].describe_topic("t", deadline=deadline_in(5_000))
    assert [list(each.replicas) for each in topic.partitions] == [[2, 3], [3, 1]]
    grown = await create_partitions(admin, {"name": "t", "count": 3, "assignments": [{"broker_ids": [1, 2]}]})
    assert [(each.error_code, each.error_message) for each in grown] == [(0, None)]
    topic = await three[2].describe_topic("t", deadline=deadline_in(5_000))
    assert list(topic.partitions[2].replicas) == [1, 2]


async def test_validation_creates_nothing(lone: Admin) -> None:
    (row,) = await create_topics(lone, topic_fields("t", 3), validate_only=True)
    assert (row.error_code, row.num_partitions) == (0, 3)
    assert lone.broker.topics() == []


async def test_an_invalid_topic_does_not_stop_the_others(lone: Admin) -> None:
    rows = await create_topics(
        lone, topic_fields("a"), topic_fields("a/b"), topic_fields("c"), topic_fields("c"), topic_fields("d")
    )
    codes = {row.name: row.error_code for row in rows}
    assert codes == {"a": 0, "a/b": 17, "c": 42, "d": 0}
    assert lone.broker.topics() == ["a", "d"]


BAD_TOPICS = [
    (topic_fields("taken"), ErrorCode.TOPIC_ALREADY_EXISTS, "exists already"),
    (topic_fields("__t"), ErrorCode.INVALID_TOPIC_EXCEPTION, "internal"),
    (topic_fields(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "cannot be used"),
    (topic_fields("t", 0), ErrorCode.INVALID_PARTITIONS, "set 1 to"),
    (topic_fields("t", -2), ErrorCode.INVALID_PARTITIONS, "set 1 to"),
    (topic_fields("t", 10_001), ErrorCode.INVALID_PARTITIONS, "set 1 to 10000"),
    (topic_fields("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "at least 1"),
    (topic_fields("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "start brokers"),
    (topic_fields("t", 1, -1, {0: [1]}), ErrorCode.INVALID_REQUEST, "leave out the assignments"),
    (topic_fields("t", -1, 1, {0: [1]}), ErrorCode.INVALID_REQUEST, "leave out the assignments"),
    (topic_fields("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "from 0 on"),
    (topic_fields("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no broker"),
    (topic_fields("t", assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "node id 9"),
    (topic_fields("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "each once"),
    (topic_fields("t", assignments={0: [1], 1: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "needs 1 brokers"),
    (topic_fields("t", retention_mss="1"), ErrorCode.INVALID_CONFIG, "did you mean 'retention.ms'"),
    (topic_fields("t", retention_ms="soon"), ErrorCode.INVALID_CONFIG, "not a whole number"),
    (topic_fields("t", retention_ms="-2"), ErrorCode.INVALID_CONFIG, "out of range"),
    (topic_fields("t", retention_ms=None), ErrorCode.INVALID_CONFIG, "leave it out"),
    (topic_fields("t", cleanup_policy="shred"), ErrorCode.INVALID_CONFIG, "it can be delete"),
    (topic_fields("t", compression_type="lz4"), ErrorCode.INVALID_CONFIG, "in the producer"),
    (topic_fields("t", message_timestamp_type="LogAppendTime"), ErrorCode.INVALID_CONFIG, "CreateTime"),
    (topic_fields("t", min_insync_replicas="2"), ErrorCode.INVALID_CONFIG, "can never be met"),
]


async def test_invalid_topics_are_refused_with_the_reason(lone: Admin) -> None:
    await create_topics(lone, topic_fields("taken"))
    for topic, code, message in BAD_TOPICS:
        for validate_only in (True, False):
            (row,) = await create_topics(lone, topic, validate_only=validate_only)
            assert (row.error_code, topic) == (code, topic)
            assert message in row.error_message
            assert (row.num_partitions, row.replication_factor, row.configs) == (-1, -1, None)
    assert lone.broker.topics() == ["taken"]


async def test_partitions_are_added_at_every_version(lone: Admin) -> None:
    await create_topics(lone, topic_fields("t", 1))
    for version in lone.versions(ApiKey.CREATE_PARTITIONS):
        topic = {"name": "t", "count": version + 2, "assignments": None}
        validated = await create_partitions(lone, topic, version=version, validate_only=True)
        (row,) = await create_partitions(lone, topic, version=version)
        assert [each.error_code for each in (*validated, row)] == [0, 0], row.error_message
        assert len((await lone.broker.describe_topic("t", deadline=deadline_in(5_000))).partitions) == version + 2


BAD_GROWTHS = [
    ({"name": "t", "count": 2, "assignments": None}, ErrorCode.INVALID_PARTITIONS, "only be added"),
    ({"name": "t", "count": 1, "assignments": None}, ErrorCode.INVALID_PARTITIONS, "only be added"),
    ({"name": "t", "count": -1, "assignments": None}, ErrorCode.INVALID_PARTITIONS, "only be added"),
    ({"name": "t", "count": 10_001, "assignments": None}, ErrorCode.INVALID_PARTITIONS, "set 3 to"),
    ({"name": "none", "count": 5, "assignments": None}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
    (
        {"name": "t", "count": 4, "assignments": [{"broker_ids": [1]}]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "1 assignments",
    ),
    (
        {"name": "t", "count": 3, "assignments": [{"broker_ids": [7]}]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "node id 7",
    ),
]


@pytest.mark.parametrize(("growth", "code", "message"), BAD_GROWTHS)
async def test_invalid_additions_are_refused_with_the_reason(
    lone: Admin, growth: Any, code: ErrorCode, message: str
) -> None:
    await create_topics(lone, topic_fields("t", 2), topic_fields("other", 1))
    rows = await create_partitions(lone, growth, {"name": "other", "count": 2, "assignments": None})
    assert [row.error_code for row in rows] == [code, 0]
    assert message in rows[0].error_message


async def test_a_topic_named_twice_gets_no_partitions(lone: Admin) -> None:
    await create_topics(lone, topic_fields("t", 1))
    (row,) = await create_partitions(lone, *({"name": "t", "count": count, "assignments": None} for count in (2, 3)))
    assert (row.error_code, row.error_message) == (42, "The request names this topic twice; name it once")
