"""Client of all handlers of one broker that checks permissions, as a caller that a test chooses."""

from typing import Any

from raftlog.api.kafka.api import ApiKey, KafkaApi
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.listener import served_apis
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.api.kafka.wire import schemas
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import Caller
from raftlog.partitions.counters import KafkaCounters
from raftlog.partitions.deadline import deadline_in
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.security.permissions import CLUSTER_NAME, Acl, AclEffect, AclOperation, AclResourceType, PatternType
from tests.kafka.admin.conftest import make_message

ALICE = Caller("alice", "test", "10.1.2.3", "kafka")
ADMIN = Caller("admin", "test", "10.1.2.3", "kafka")


class Guarded:
    """Handlers of a broker that checks permissions."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        settings = KafkaSettings(auto_create_topics=True)
        context = KafkaContext(broker, "kafka", settings, MemoryBudget(1 << 20))
        self.apis: dict[ApiKey, KafkaApi] = {api.key: api for api in served_apis(context)}
        self.dispatcher = Dispatcher(list(self.apis.values()), KafkaCounters())

    async def call(self, key: ApiKey, caller: Caller = ALICE, /, version: int | None = None, **fields: Any) -> Any:
        """Send a request, whose structures are dicts; return the answer as the client decodes it."""
        api = self.apis[key]
        version = api.versions[1] if version is None else version
        body = memoryview(bytearray(make_nested(schemas.request_class(key), fields).encode(version=version)))
        pieces = await self.dispatcher.answer(self.dispatcher.route(key, version), body, caller)
        assert pieces is not None, f"{key.name} was not answered"
        return schemas.answer_class(key).decode(b"".join(bytes(piece) for piece in pieces), version=version)

    async def allow(
        self,
        operation: AclOperation,
        type_: AclResourceType = AclResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
        effect: AclEffect = AclEffect.ALLOW,
    ) -> None:
        """Add an entry for Alice."""
        acl = Acl(type_, PatternType.LITERAL, name, "User:alice", "*", operation, effect)
        await self.broker.security.acls.create([acl], caller=ADMIN, deadline=deadline_in(10_000))


def make_nested(kind: Any, fields: dict[str, Any]) -> Any:
    """Return a message of this class from fields whose nested structures are dicts."""
    return make_message(kind, fields)


def error_codes(answer: Any) -> list[int]:
    """Return all error codes in an answer, at any depth."""
    found: list[int] = []
    for name in type(answer)._struct.fields if hasattr(type(answer), "_struct") else ():
        value = getattr(answer, name, None)
        if name in ("error_code", "partition_error_code") and value is not None:
            found.append(int(value))
        elif isinstance(value, list):
            found += [code for each in value for code in error_codes(each)]
    return found
