"""Administrative changes through one broker, seen at once through every other; the wait for the others is bounded."""

import asyncio
import time
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.settings import DEFAULTS
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.operations.applied_changes import WAIT_MS
from raftlog.partitions.operations.cluster_settings import current_settings
from tests.brokers.conftest import Brokers
from tests.kafka.admin.conftest import Admin
from tests.kafka.admin.test_topics import create_partitions, create_topics, topic_fields
from tests.waiting import until

LATE_S = 0.3
TOPIC, CLUSTER = 2, 4
SET = 0


def delay_changes(broker: Broker, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the broker apply entries of the controller's log so much later."""
    copy, loop = broker.metadata._copy, asyncio.get_running_loop()
    apply_slice = copy._apply_slice
    monkeypatch.setattr(copy, "_apply_slice", lambda: loop.call_later(seconds, apply_slice))


async def alter_config(admin: Admin, kind: int, name: str, key: str, value: str) -> int:
    change = {"name": key, "config_operation": SET, "value": value}
    fields: Any = {"resources": [{"resource_type": kind, "resource_name": name, "configs": [change]}]}
    answer = await admin.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, validate_only=False, **fields)
    return answer.responses[0].error_code


async def test_every_live_broker_has_a_change_once_it_is_answered(
    three: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, others = Admin(three[1], DEFAULTS), [three[2], three[3]]
    for broker in others:
        delay_changes(broker, monkeypatch, LATE_S)
    began = time.monotonic()
    (row,) = await create_topics(first, topic_fields("t", 1, 1))
    assert row.error_code == 0
    assert [broker.topics() for broker in others] == [["t"], ["t"]]
    (row,) = await create_partitions(first, {"name": "t", "count": 3, "assignments": None})
    assert row.error_code == 0
    assert [len(broker.parts.topics.find("t").partitions) for broker in others] == [3, 3]
    assert await alter_config(first, TOPIC, "t", "retention.ms", "5000") == 0
    assert [broker.parts.topics.find("t").config.retention_ms for broker in others] == [5000, 5000]
    answer = await first.call(ApiKey.DELETE_TOPICS, topic_names=["t"], timeout_ms=10_000)
    assert [each.error_code for each in answer.responses] == [0]
    assert [broker.topics() for broker in others] == [[], []]
    assert await alter_config(first, CLUSTER, "", "leaders.balance", "false") == 0
    assert [current_settings(broker.metadata.state).leaders_balance for broker in others] == [False, False]
    assert time.monotonic() - began >= 5 * LATE_S, "the changes were not late"


async def test_a_broker_that_applies_nothing_delays_the_answer_by_a_second(
    three: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Admin(three[1], DEFAULTS)
    with monkeypatch.context() as patch:
        patch.setattr(three[3].metadata._copy, "follow", lambda: None)
        began = time.monotonic()
        (row,) = await create_topics(first, topic_fields("t", assignments={0: [1]}))
        assert (row.error_code, row.error_message) == (0, None)
        assert time.monotonic() - began >= WAIT_MS / 1000
        assert three[2].topics() == ["t"]
        assert three[3].topics() == []
        assert await three[1].operations.applied.wait_for_brokers(deadline_in(100)) == [3]
    three[3].metadata._copy.follow()
    assert await three[1].operations.applied.wait_for_brokers(deadline_in(10_000)) == []


async def test_a_stopped_broker_delays_nothing(three: Brokers) -> None:
    first = Admin(three[1], DEFAULTS)
    await three.stop(3)
    await until(lambda: not three[1].node.is_connected(3))
    asked = three[1].operations.applied
    assert await asked.wait_for_brokers(deadline_in(10_000)) == []
    (row,) = await create_topics(first, topic_fields("t", assignments={0: [1]}))
    assert row.error_code == 0
    assert three[2].topics() == ["t"]


async def test_a_refused_change_asks_no_broker(three: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Admin(three[1], DEFAULTS)
    monkeypatch.setattr(three[1].operations.applied, "wait_for_brokers", None)
    (row,) = await create_topics(first, topic_fields("not a name"))
    assert row.error_code != 0
    (row,) = await create_topics(first, topic_fields("t", 1, 1), validate_only=True)
    assert row.error_code == 0
