"""Environment that all handlers of one Kafka listener share."""

import asyncio
from typing import NamedTuple

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.partitions.broker import Broker
from raftlog.runtime.memory_budget import MemoryBudget


class KafkaContext(NamedTuple):
    """Broker, name and settings of one listener.

    Addresses of brokers come from `Broker.kafka_addresses(listener)`: those of the listener that received the
    request."""

    broker: Broker
    listener: str
    settings: KafkaSettings
    answers: MemoryBudget | None = None
    """Share of the memory budget for answers: a fetch returns less while little of it is free."""
    authentication: ListenerAuthentication | None = None
    """Login that the listener requires; None for none."""
    stopping: "asyncio.Future[None] | None" = None
    """Done when the listener begins to stop: requests that wait for other clients end."""
