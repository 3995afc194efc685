"""Permissions of real clients at a real broker: HTTP, and librdkafka by confluent-kafka."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from raftlog.partitions.caller import ANONYMOUS
from raftlog.testing.http import ask
from raftlog.testing.process import BrokerProcess

FLAGS = ("--kafka", "127.0.0.1:0", "--log-format", "json")


class GuardedBroker(NamedTuple):
    """Running broker that checks permissions of anonymous clients, with the topics `open` and `secret`."""

    http: str
    kafka: str
    process: BrokerProcess

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.process.log_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == name]


def allow(resource: str, name: str, *operations: str) -> list[dict[str, str]]:
    return [
        {
            "resource_type": resource,
            "resource_name": name,
            "principal": f"User:{ANONYMOUS}",
            "operation": operation,
            "permission": "ALLOW",
        }
        for operation in operations
    ]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[GuardedBroker]:
    """Broker with entries that were created before it checked permissions."""
    with BrokerProcess(str(tmp_path / "data"), *FLAGS) as process:
        http = process.start()["http"].removeprefix("http://")
        for topic in ("open", "secret"):
            assert ask(http, "/v3/clusters/-/topics", method="POST", body={"topic_name": topic})[0] == 201
        acls = [*allow("TOPIC", "open", "READ", "WRITE"), *allow("GROUP", "readers", "READ")]
        assert ask(http, "/v1/security/acls", method="POST", body={"acls": acls})[0] == 204
        assert process.stop() == 0
    with BrokerProcess(str(tmp_path / "data"), *FLAGS, "--authorization", "acl", "--superuser", "root") as process:
        ready = process.start()
        yield GuardedBroker(ready["http"].removeprefix("http://"), ready["kafka"], process)


def produce(kafka: str, topic: str, **settings: Any) -> KafkaError | None:
    """Produce a record; return the error of its delivery."""
    reported: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": kafka, "message.timeout.ms": 20_000, **settings})
    producer.produce(topic, b"value", on_delivery=lambda error, _: reported.append(error))
    assert producer.flush(30) == 0
    return reported[0]


def test_producers_and_consumers_use_what_is_allowed(broker: GuardedBroker) -> None:
    assert produce(broker.kafka, "open") is None
    assert produce(broker.kafka, "open", **{"enable.idempotence": True}) is None
    for topic in ("secret", "missing"):
        error = produce(broker.kafka, topic)
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    settings = {"bootstrap.servers": broker.kafka, "auto.offset.reset": "earliest"}
    reader = Consumer({**settings, "group.id": "readers"})
    reader.subscribe(["open"])
    found = [message.value() for _ in range(2) if (message := reader.poll(30)) is not None]
    reader.close()
    assert found == [b"value", b"value"]
    stranger = Consumer({**settings, "group.id": "others"})
    stranger.subscribe(["open"])
    message = stranger.poll(30)
    stranger.close()
    assert message is not None
    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    denials = {(each["operation"], each["resource"]) for each in broker.events("authorization_denied")}
    assert ("DESCRIBE", "secret") in denials
    assert {each["principal"] for each in broker.events("authorization_denied")} == {ANONYMOUS}


def test_administrators_need_permissions_on_the_cluster(broker: GuardedBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    assert set(admin.list_topics(timeout=30).topics) == {"open"}
    acl = AclBinding(
        ResourceType.TOPIC,
        "secret",
        ResourcePatternType.LITERAL,
        f"User:{ANONYMOUS}",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        admin.create_acls([acl])[acl].result(30)


def test_http_refuses_alike_whether_or_not_a_topic_exists(broker: GuardedBroker) -> None:
    body = {"records": [{"value": 1}]}
    assert ask(broker.http, "/topics/open", method="POST", body=body)[0] == 200
    answers = [ask(broker.http, f"/topics/{topic}", method="POST", body=body) for topic in ("secret", "missing")]
    assert [(status, refused["error_code"]) for status, refused in answers] == [(403, 40301)] * 2
    assert ask(broker.http, "/topics") == (200, ["open"])
    assert ask(broker.http, "/v1/brokers")[0] == 403
    assert ask(broker.http, "/v1/status/ready")[0] == 200
