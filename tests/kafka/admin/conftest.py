"""Handlers of administrative requests on real brokers; messages pass through kafka-python's codec both ways."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers import admin, security
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.api.kafka.wire import schemas
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.runtime.memory_budget import MemoryBudget
from tests.brokers.conftest import Brokers, brokers_in

CALLER = Caller(ANONYMOUS, "test", "127.0.0.1", "kafka")


class Admin:
    """Client of the administrative handlers of one broker."""

    def __init__(self, broker: Broker, settings: KafkaSettings) -> None:
        self.broker = broker
        context = KafkaContext(broker, "kafka", settings, MemoryBudget(1 << 20))
        self.apis = {api.key: api for api in (*admin.apis(context), *security.apis(context))}

    def versions(self, key: ApiKey) -> range:
        first, last = self.apis[key].versions
        return range(first, last + 1)

    async def call(self, key: ApiKey, version: int | None = None, **fields: Any) -> Any:
        """Send a request, whose structures are dicts; return the answer as the client decodes it."""
        api = self.apis[key]
        version = api.versions[1] if version is None else version
        body = make_message(schemas.request_class(key), fields).encode(version=version)
        message = schemas.decode(key=key, version=version, body=memoryview(body))
        answer = await api.handle(KafkaRequest(key, version, message, CALLER))
        encoded = b"".join(schemas.encode(answer, version))
        return schemas.answer_class(key).decode(encoded, version=version)


def make_message(kind: Any, fields: dict[str, Any]) -> Any:
    """Return a message of this class from fields whose nested structures are dicts."""
    values = {}
    for name, value in fields.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner = kind._struct.fields[name].array_of.data_class
            values[name] = [make_message(inner, each) for each in value]
        else:
            values[name] = value
    return kind(**values)


@pytest.fixture
async def lone(tmp_path: Path) -> AsyncIterator[Admin]:
    """Return the handlers of a single broker."""
    async with brokers_in(tmp_path, 1) as brokers:
        await brokers.start()
        yield Admin(brokers[1], KafkaSettings(auto_create_topics=True))


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Return three brokers of one cluster."""
    async with brokers_in(tmp_path) as brokers:
        await brokers.start()
        yield brokers
