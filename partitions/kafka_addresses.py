"""Addresses of brokers for clients of one Kafka listener, from the controller's state. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftlog.partitions.addresses import parse_address_or_none
from raftlog.partitions.controller.machine import RegisteredBroker
from raftlog.types import NodeId


class KafkaAddress(NamedTuple):
    """Address of one broker; an IPv6 `host` has no brackets. `rack` is None if it is unknown."""

    node_id: NodeId
    host: str
    port: int
    rack: str | None


def kafka_addresses(
    brokers: Iterable[RegisteredBroker], listener: str, racks: Mapping[NodeId, str]
) -> list[KafkaAddress]:
    """Return the addresses of the brokers for clients of this listener, by node id.

    A broker that does not have this listener, and has exactly one other, is reached through the other one."""
    found = []
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        served = dict(broker.addresses.kafka)
        address = parse_address_or_none(
            served.get(listener) or (next(iter(served.values())) if len(served) == 1 else "")
        )
        if address is not None:
            found.append(KafkaAddress(broker.node_id, *address, racks.get(broker.node_id) or None))
    return found


def kafka_listener_warning(brokers: Iterable[RegisteredBroker]) -> str | None:
    """Return a warning if some but not all brokers of the cluster serve Kafka; otherwise None."""
    rows = list(brokers)
    missing = [broker.node_id for broker in rows if not broker.addresses.kafka]
    if not missing or len(missing) == len(rows):
        return None
    return (
        f"the nodes {missing} do not serve Kafka, and the others do: clients of the Kafka protocol cannot use "
        "partitions that they lead; restart them with --kafka HOST:PORT"
    )
