"""Catalogue of configurations: every name of Kafka is known, and described values can be set again."""

import pytest

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin.broker_config_names import BROKER_NAMES
from raftlog.api.kafka.handlers.admin.config_catalogue import LONG_MAX
from raftlog.api.kafka.handlers.admin.outcomes import AdminRefusal
from raftlog.api.kafka.handlers.admin.topic_config_names import (
    TOPIC_NAMES,
    from_kafka,
    parse_overrides,
    to_kafka,
    topic_name,
)
from raftlog.topic_config import TopicConfig

KAFKA_3_9 = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas
index.interval.bytes leader.replication.throttled.replicas local.retention.bytes local.retention.ms
max.compaction.lag.ms max.message.bytes message.downconversion.enable message.format.version
message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.difference.max.ms
message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable
"""
"""Names in Kafka's `TopicConfig` of release 3.9."""

READ_BY_TOOLS = """
auto.create.topics.enable broker.id connections.max.idle.ms default.replication.factor delete.topic.enable
group.initial.rebalance.delay.ms group.max.session.timeout.ms group.min.session.timeout.ms
inter.broker.protocol.version log.cleanup.policy log.dirs log.message.timestamp.type log.retention.bytes
log.retention.ms log.segment.bytes message.max.bytes min.insync.replicas num.partitions
offsets.retention.minutes offsets.topic.num.partitions offsets.topic.replication.factor
"""


def test_every_name_of_kafka_is_known() -> None:
    assert set(TOPIC_NAMES) == {*KAFKA_3_9.split(), "producer.id.expiration.ms"}
    assert set(READ_BY_TOOLS.split()) <= set(BROKER_NAMES)


def test_served_names_are_exactly_the_settings_of_topics() -> None:
    assert {name for name, known in TOPIC_NAMES.items() if known.is_served} == set(TopicConfig().as_strings())


def test_every_fixed_name_has_a_reason_for_its_refusal() -> None:
    for name, known in TOPIC_NAMES.items():
        if not known.is_served:
            known.check_fixed(known.fixed or "")
            with pytest.raises(AdminRefusal) as refused:
                known.check_fixed("something else")
            assert refused.value.part.code is ErrorCode.INVALID_CONFIG
            assert refused.value.part.message is not None
            assert name in refused.value.part.message
            assert known.reason == "" or known.reason in refused.value.part.message
            assert known.reason.endswith(".") or name == "message.downconversion.enable"


@pytest.mark.parametrize("config", [TopicConfig(), TopicConfig(flush_messages=1 << 40, flush_ms=7, retention_ms=None)])
def test_described_values_can_be_set_again(config: TopicConfig) -> None:
    described = {name: to_kafka(name, value) for name, value in config.as_strings().items()}
    described |= {name: known.fixed for name, known in TOPIC_NAMES.items() if known.fixed is not None}
    assert set(described) == set(TOPIC_NAMES)
    assert parse_overrides(described.items()) == config.as_strings()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("flush.messages", str(LONG_MAX), str(1 << 40)),
        ("flush.messages", "500", "500"),
        ("flush.ms", str(LONG_MAX), "-1"),
        ("max.compaction.lag.ms", str(LONG_MAX), "-1"),
        ("retention.ms", str(LONG_MAX), "-1"),
        ("retention.ms", "-1", "-1"),
        ("segment.ms", str(LONG_MAX), str(10 * 365 * 24 * 3600 * 1000)),
        ("segment.ms", str(LONG_MAX + 1), str(LONG_MAX + 1)),
        ("max.message.bytes", str(LONG_MAX), str(LONG_MAX)),
        ("cleanup.policy", " compact , delete,compact", "compact,delete"),
        ("retention.ms", "soon", "soon"),
    ],
)
def test_kafkas_values_are_converted_to_settings(name: str, value: str, text: str) -> None:
    assert from_kafka(name, value) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", " producer "),
        ("preallocate", "False"),
        ("segment.jitter.ms", "00"),
        ("file.delete.delay.ms", "60000"),
        ("index.interval.bytes", "4096"),
        ("message.format.version", "2.8-IV1"),
        ("message.downconversion.enable", "TRUE"),
        ("leader.replication.throttled.replicas", " , "),
    ],
)
def test_values_with_the_same_meaning_are_accepted(name: str, value: str) -> None:
    assert parse_overrides([(name, value)]) == {}


def test_the_error_for_an_unknown_name_has_the_nearest() -> None:
    with pytest.raises(AdminRefusal, match=r"did you mean 'min\.insync\.replicas'"):
        topic_name("min.insync.replica")
    with pytest.raises(AdminRefusal):
        topic_name("x" * 10_000)
