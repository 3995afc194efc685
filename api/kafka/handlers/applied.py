"""Answers of administrative changes that wait until the live brokers have applied the change.

So a client that creates a topic through one broker finds it through another one, as with Kafka's controller. The wait
is bounded (`operations.applied`); there is none if the request changed nothing."""

from collections.abc import Iterable
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, Handler, KafkaApi, KafkaRequest
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in

_CHANGES: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    )
)
"""Requests that change the controller's state."""


def with_applied_changes(broker: Broker, apis: Iterable[KafkaApi]) -> list[KafkaApi]:
    """Return the APIs; those that change the controller's state answer after the live brokers applied the change."""
    return [api._replace(handle=_wait_after(broker, api.handle)) if api.key in _CHANGES else api for api in apis]


def _wait_after(broker: Broker, handle: Handler) -> Handler:
    """Return a handler that calls `handle`, and then waits until the live brokers have applied its change."""

    async def handle_and_wait(request: KafkaRequest) -> Any:
        """Handle a request; if it changed metadata, wait until the brokers have applied the change."""
        applied = broker.operations.applied
        before = applied.index
        answer = await handle(request)
        if applied.index != before:
            await applied.wait_for_brokers(deadline_in(NO_DEADLINE_MS))
        return answer

    return handle_and_wait
