"""Metadata: brokers, topics and leaders; creation of topics by a request."""

import pytest

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from tests.kafka.data.conftest import ADDRESS
from tests.kafka.data.requests import Handlers
from tests.small_journal import SMALL_JOURNAL


@pytest.mark.parametrize("version", range(10))
async def test_every_version_describes_brokers_and_topics(lone, version):
    answer = await lone.metadata([] if version == 0 else None, version=version)
    [broker] = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", 9092)
    [topic] = answer.topics
    assert (topic.name, topic.error_code) == ("t", 0)
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    assert [(row.partition_index, row.leader_id, row.replica_nodes, row.isr_nodes) for row in rows] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == lone.broker.cluster_id
    if version >= 5:
        assert [row.offline_replicas for row in rows] == [[], []]
    if version >= 7:
        assert all(row.leader_epoch >= 1 for row in rows)


@pytest.mark.parametrize("version", range(1, 10))
async def test_an_empty_list_requests_no_topics(lone, version):
    assert (await lone.metadata([], version=version)).topics == []


async def test_topics_are_described_by_name_in_the_order_of_the_request(lone):
    answer = await lone.metadata(["none", "t", "a b", "t"])
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


async def test_internal_topics_are_marked(lone):
    await lone.broker.parts.changes.ensure_internal("__x", 1, {}, deadline_in(10_000))
    answer = await lone.metadata(["__x", "t"])
    assert [topic.is_internal for topic in answer.topics] == [True, False]


@pytest.mark.parametrize(("setting", "may_create", "code"), [(True, True, 0), (True, False, 3), (False, True, 3)])
async def test_topics_are_created_if_setting_and_request_allow_it(lone, setting, may_create, code):
    handlers = Handlers(lone.broker, KafkaSettings(auto_create_topics=setting))
    answer = await handlers.metadata(["new", "__hidden"], may_create=may_create)
    assert [topic.error_code for topic in answer.topics] == [code, 3]
    if code == 0:
        assert [row.leader_id for row in answer.topics[0].partitions] == [1]


async def test_created_topics_have_the_default_number_of_partitions(tmp_path):
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), default_partitions=3, driver=SMALL_JOURNAL))
    await broker.start("127.0.0.1:1", ADDRESS)
    handlers = Handlers(broker, KafkaSettings(auto_create_topics=True))
    answer = await handlers.metadata(["new"], may_create=True)
    assert [row.leader_id for row in answer.topics[0].partitions] == [1, 1, 1]
    await broker.close()


async def test_a_partition_without_a_leader_has_no_epoch(lone, monkeypatch):
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    monkeypatch.setattr("raftlog.api.kafka.handlers.data.metadata.HOLD_MS", 0)
    monkeypatch.setattr(lone.broker.node, "campaign", lambda groups: None)
    replica.group.core.quarantine()
    while replica.is_leader:
        replica.group.step_down("test")
    answer = await lone.metadata(["t"])
    rows = {row.partition_index: row for row in answer.topics[0].partitions}
    assert (rows[0].error_code, rows[0].leader_id, rows[0].leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1)
    assert (rows[1].error_code, rows[1].leader_id) == (0, 1)


async def test_an_answer_waits_for_the_election_of_a_leader(lone, monkeypatch):
    monkeypatch.setattr("raftlog.api.kafka.handlers.data.metadata.HOLD_MS", 20_000)  # a busy machine elects slowly
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    term = replica.group.core.term
    replica.group.step_down("test")
    assert not replica.is_leader
    answer = await lone.metadata(["t"])
    row = next(row for row in answer.topics[0].partitions if row.partition_index == 0)
    assert (row.error_code, row.leader_id) == (0, 1)
    assert row.leader_epoch > term
