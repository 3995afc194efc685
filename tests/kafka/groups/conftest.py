"""Fixtures: handlers of groups at one or three real brokers; each request and answer passes as Kafka's bytes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers.groups import apis
from raftlog.api.kafka.settings import DEFAULTS
from raftlog.api.kafka.wire import schemas
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import ANONYMOUS, Caller
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.members import soon

LISTENER = "kafka"


class GroupHandlers:
    """Handlers of one broker, called with the bytes of a client."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.stopping = asyncio.get_running_loop().create_future()
        context = KafkaContext(broker, LISTENER, DEFAULTS, stopping=self.stopping)
        self.apis: dict[ApiKey, KafkaApi] = {each.key: each for each in apis(context)}

    async def call(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request of this version; return the answer. Both pass through the wire format."""
        request = schemas.request_class(key)(version=version, **fields)
        message = schemas.decode(key, body=memoryview(bytes(request.encode(version=version))), version=version)
        caller = Caller(ANONYMOUS, "client-7", "192.0.2.7", LISTENER)
        answer = await self.apis[key].handle(KafkaRequest(key, version, message, caller))
        data = b"".join(schemas.encode(answer, version))
        return schemas.answer_class(key).decode(memoryview(data), version=version)


@pytest.fixture(autouse=True)
def addresses(monkeypatch) -> None:
    """Give each node an address as its Kafka listener would."""

    def kafka_addresses(broker: Broker, listener: str) -> list[tuple[int, str, int, str | None]]:
        assert listener == LISTENER
        return [(int(node), f"host-{node}", 9092 + int(node), None) for node in broker.broker_ids()]

    monkeypatch.setattr(Broker, "kafka_addresses", kafka_addresses, raising=False)


@pytest.fixture
async def handlers(tmp_path) -> AsyncIterator[GroupHandlers]:
    """Start a single broker, with topic `t` of four partitions."""
    async with brokers_in(tmp_path, 1, offsets_partitions=2) as one:
        await one.start()
        await one[1].create_topic("t", 4, deadline=soon())
        await one[1].groups.coordinator("readers", deadline=soon())
        yield GroupHandlers(one[1])


@pytest.fixture
async def three(tmp_path) -> AsyncIterator[Brokers]:
    """Start three brokers, with topic `t` of four partitions, each with three replicas."""
    async with brokers_in(tmp_path, offsets_partitions=1) as brokers:
        await brokers.start()
        await brokers[1].create_topic("t", 4, 3, deadline=soon())
        yield brokers
