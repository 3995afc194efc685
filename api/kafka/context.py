"""Environment shared by the handlers of one Kafka listener."""

from typing import NamedTuple

from raftlog.api.kafka.settings import KafkaSettings
from raftlog.partitions.broker import Broker


class KafkaContext(NamedTuple):
    """Broker, name and settings of one listener.

    Addresses of brokers come from `Broker.kafka_addresses(listener)`: those of the listener that received the
    request."""

    broker: Broker
    listener: str
    settings: KafkaSettings
