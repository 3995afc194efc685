"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs at all versions."""

import logging
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.partitions.deadline import deadline_in
from tests.kafka.admin.conftest import Admin

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource_fields(kind: int, name: str, **fields: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, **fields}


async def describe(
    admin: Admin, kind: int, name: str, keys: list[str] | None = None, *, version: int | None = None
) -> Any:
    """Return the answer about the configurations of one resource."""
    fields: dict[str, Any] = {"include_synonyms": True}
    if version is None or version >= 3:
        fields["include_documentation"] = True
    resources = [resource_fields(kind, name, configuration_keys=keys)]
    answer = await admin.call(ApiKey.DESCRIBE_CONFIGS, version, resources=resources, **fields)
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def describe_values(admin: Admin, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    return {each.name: (each.value, each.config_source) for each in (await describe(admin, kind, name)).configs}


async def replace(admin: Admin, kind: int, name: str, *, version: int | None = None, **configs: str | None) -> Any:
    rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    resources = [resource_fields(kind, name, configs=rows)]
    answer = await admin.call(ApiKey.ALTER_CONFIGS, version, resources=resources, validate_only=False)
    (result,) = answer.responses
    return result


async def change(
    admin: Admin,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int | None = None,
    validate_only: bool = False,
) -> Any:
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resources = [resource_fields(kind, name, configs=rows)]
    answer = await admin.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources, validate_only=validate_only
    )
    (result,) = answer.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.fixture
async def admin(lone: Admin) -> Admin:
    config = {"retention.ms": "60000"}
    await lone.broker.create_topic("t", 1, config=config, deadline=deadline_in(5_000))
    return lone


async def test_topics_are_described_at_every_version(admin: Admin) -> None:
    for version in admin.versions(ApiKey.DESCRIBE_CONFIGS):
        result = await describe(admin, TOPIC, "t", version=version)
        rows = {each.name: each for each in result.configs}
        assert (result.error_code, len(rows)) == (0, 37)
        own, fixed = rows["retention.ms"], rows["compression.type"]
        assert (own.value, own.config_source, own.read_only, own.is_sensitive) == ("60000", 1, False, False)
        assert (fixed.value, fixed.config_source, fixed.read_only) == ("producer", 5, False)
        assert [(each.name, each.value, each.source) for each in own.synonyms] == [
            ("retention.ms", "60000", 1),
            ("log.retention.ms", "604800000", 5),
        ]
        if version >= 3:
            assert (own.config_type, rows["cleanup.policy"].config_type) == (5, 7)
            assert own.documentation.startswith("Age of the newest record")


async def test_only_requested_names_are_described(admin: Admin) -> None:
    result = await describe(admin, TOPIC, "t", ["retention.ms", "none", "compression.type"])
    assert [each.name for each in result.configs] == ["compression.type", "retention.ms"]


async def test_brokers_are_described(admin: Admin) -> None:
    described = (await describe(admin, BROKER, "1")).configs
    assert {each.name for each in described if not each.read_only} == set(await describe_values(admin, BROKER, ""))
    found = await describe_values(admin, BROKER, "1")
    assert found["num.partitions"] == ("1", 5)
    assert found["default.replication.factor"] == ("1", 5)
    assert found["auto.create.topics.enable"] == ("true", 4)
    assert found["inter.broker.protocol.version"] == ("3.9-IV0", 5)
    assert found["broker.rack"] == (None, 5)
    assert found["log.dirs"][1] == 4
    assert found["balancer.mode"] == ("continuous", 5)
    assert set(await describe_values(admin, BROKER, "")) == {
        "balancer.mode",
        "balancer.moves.max",
        "catch.up.bytes.per.s",
        "leaders.balance",
        "replicas.repair.after.ms",
    }


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (16, "metrics", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_unknown_resources_are_refused(admin: Admin, kind: int, name: str, code: ErrorCode) -> None:
    for result in (
        await describe(admin, kind, name),
        await replace(admin, kind, name, retention_ms="1"),
        await change(admin, kind, name, ("retention.ms", SET, "1")),
    ):
        assert (result.error_code, bool(result.error_message)) == (code, True)


async def test_described_configurations_can_be_set_again(admin: Admin) -> None:
    for kind, name in ((TOPIC, "t"), (BROKER, "1"), (BROKER, "")):
        before = await describe_values(admin, kind, name)
        known = {key: value for key, (value, _) in before.items() if value is not None}
        result = await replace(admin, kind, name, **known)
        assert (result.error_code, result.error_message) == (0, None)
        result = await change(admin, kind, name, *((key, SET, value) for key, value in known.items()))
        assert (result.error_code, result.error_message) == (0, None)
        after = await describe_values(admin, kind, name)
        assert {key: value for key, (value, _) in after.items()} == {key: value for key, (value, _) in before.items()}
        result = await change(admin, kind, name, *((key, DELETE, None) for key in before))
        assert (result.error_code, result.error_message) == (0, None)
    assert (await describe_values(admin, TOPIC, "t"))["retention.ms"] == ("604800000", 5)


async def test_a_replacement_unsets_the_other_settings(admin: Admin) -> None:
    for version in admin.versions(ApiKey.ALTER_CONFIGS):
        result = await replace(admin, TOPIC, "t", version=version, segment_ms=str(1000 + version))
        assert (result.error_code, result.error_message) == (0, None)
        found = await describe_values(admin, TOPIC, "t")
        assert (found["segment.ms"], found["retention.ms"]) == ((str(1000 + version), 1), ("604800000", 5))
    assert (await replace(admin, TOPIC, "t")).error_code == 0
    assert (await describe_values(admin, TOPIC, "t"))["segment.ms"] == ("604800000", 5)


async def test_changes_set_delete_append_and_subtract(admin: Admin) -> None:
    for version in admin.versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
        result = await change(
            admin,
            TOPIC,
            "t",
            ("segment.ms", SET, "5000"),
            ("retention.ms", DELETE, None),
            ("cleanup.policy", APPEND, "compact"),
            version=version,
        )
        assert (result.error_code, result.error_message) == (0, None)
        found = await describe_values(admin, TOPIC, "t")
        assert (found["segment.ms"], found["retention.ms"]) == (("5000", 1), ("604800000", 5))
        assert found["cleanup.policy"] == ("delete,compact", 1)
        result = await change(admin, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete, none"), version=version)
        assert (await describe_values(admin, TOPIC, "t"))["cleanup.policy"] == ("compact", 1)
        await change(admin, TOPIC, "t", ("cleanup.policy", DELETE, None))


async def test_validation_changes_nothing(admin: Admin) -> None:
    before = await describe_values(admin, TOPIC, "t")
    result = await change(admin, TOPIC, "t", ("retention.ms", SET, "7"), validate_only=True)
    assert result.error_code == 0
    result = await change(admin, BROKER, "", ("leaders.balance", SET, "false"), validate_only=True)
    assert result.error_code == 0
    assert await describe_values(admin, TOPIC, "t") == before
    assert (await describe_values(admin, BROKER, ""))["leaders.balance"] == ("true", 5)


BAD_CHANGES = [
    (TOPIC, "t", ("retention.mss", SET, "1"), ErrorCode.INVALID_CONFIG, "did you mean 'retention.ms'"),
    (TOPIC, "t", ("retention.mss", DELETE, None), ErrorCode.INVALID_CONFIG, "did you mean 'retention.ms'"),
    (TOPIC, "t", ("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG, "not a whole number"),
    (TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "delete it"),
    (TOPIC, "t", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "not a list"),
    (TOPIC, "t", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "operation 9"),
    (TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"), ErrorCode.INVALID_CONFIG, "it can be delete"),
    (TOPIC, "t", ("preallocate", SET, "true"), ErrorCode.INVALID_CONFIG, "journal is preallocated"),
    (TOPIC, "t", ("min.insync.replicas", SET, "2"), ErrorCode.INVALID_CONFIG, "can never be met"),
    (TOPIC, "__consumer_offsets", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
    (BROKER, "1", ("num.partitions", SET, "3"), ErrorCode.INVALID_CONFIG, "--default-partitions"),
    (BROKER, "1", ("log.retention.ms", SET, "3"), ErrorCode.INVALID_CONFIG, "--topic-config retention.ms="),
    (BROKER, "1", ("leaders.balance", SET, "false"), ErrorCode.INVALID_REQUEST, "all brokers"),
    (BROKER, "", ("leaders.balance", SET, "maybe"), ErrorCode.INVALID_CONFIG, "true or false"),
    (BROKER, "", ("leaders.balances", SET, "true"), ErrorCode.INVALID_CONFIG, "did you mean 'leaders.balance'"),
    (LOGGER, "1", ("raftlog", SET, "LOUD"), ErrorCode.INVALID_CONFIG, "the levels are"),
    (LOGGER, "1", ("raftlog", DELETE, None), ErrorCode.INVALID_REQUEST, "no parent"),
    (LOGGER, "1", ("raftlog", APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "not a list"),
    (LOGGER, "1", ("kafka", SET, "INFO"), ErrorCode.INVALID_CONFIG, "no logger"),
]


async def test_invalid_changes_are_refused_and_change_nothing(admin: Admin) -> None:
    before = (
        await describe_values(admin, TOPIC, "t"),
        await describe_values(admin, BROKER, ""),
        logging.getLogger("raftlog").level,
    )
    for kind, name, bad, code, message in BAD_CHANGES:
        good = {TOPIC: ("segment.ms", SET, "5"), BROKER: ("balancer.moves.max", SET, "16"), LOGGER: None}[kind]
        result = await change(admin, kind, name, *([] if good is None else [good]), bad)
        assert (result.error_code, bad) == (code, bad)
        assert message in result.error_message
    twice = await change(admin, TOPIC, "t", ("segment.ms", SET, "5"), ("segment.ms", DELETE, None))
    assert (twice.error_code, twice.error_message) == (42, "segment.ms is given twice; change it once")
    after = (
        await describe_values(admin, TOPIC, "t"),
        await describe_values(admin, BROKER, ""),
        logging.getLogger("raftlog").level,
    )
    assert after == before


async def test_a_resource_named_twice_is_not_changed(admin: Admin) -> None:
    rows = [{"name": "retention.ms", "config_operation": SET, "value": "5"}]
    resources = [resource_fields(TOPIC, "t", configs=rows), resource_fields(TOPIC, "t", configs=rows)]
    answer = await admin.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=False)
    assert [each.error_code for each in answer.responses] == [42, 42]
    assert (await describe_values(admin, TOPIC, "t"))["retention.ms"] == ("60000", 1)


async def test_settings_of_the_cluster_are_altered(admin: Admin) -> None:
    result = await change(admin, BROKER, "", ("leaders.balance", SET, "false"), ("balancer.moves.max", SET, "3"))
    assert (result.error_code, result.error_message) == (0, None)
    described = {each.name: each for each in (await describe(admin, BROKER, "")).configs}
    row = described["leaders.balance"]
    assert (row.value, row.config_source, row.read_only, row.config_type) == ("false", 3, False, 1)
    assert [(each.value, each.source) for each in row.synonyms] == [("false", 3), ("true", 5)]
    result = await replace(admin, BROKER, "", balancer_moves_max="4")
    assert (result.error_code, result.error_message) == (0, None)
    found = await describe_values(admin, BROKER, "")
    assert (found["leaders.balance"], found["balancer.moves.max"]) == (("true", 5), ("4", 3))


async def test_levels_of_loggers_are_described_and_changed(admin: Admin) -> None:
    name = "raftlog.api.kafka.handlers.admin.loggers"
    before = await describe_values(admin, LOGGER, "1")
    assert before[name][1] == 6
    try:
        assert (await change(admin, LOGGER, "1", (name, SET, "error"))).error_code == 0
        assert (await describe_values(admin, LOGGER, "1"))[name] == ("ERROR", 6)
        assert logging.getLogger(name).level == logging.ERROR
    finally:
        assert (await change(admin, LOGGER, "1", (name, DELETE, None))).error_code == 0
    assert await describe_values(admin, LOGGER, "1") == before
