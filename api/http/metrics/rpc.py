"""Metrics of the traffic between this broker and the others."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, single
from raftlog.partitions.broker import Broker

_CONNECTIONS: Final = {
    "rpc_connected": "is_connected",
    "rpc_connections_total": "connections_made",
    "rpc_queued_bytes": "queued_bytes",
    "rpc_messages_dropped_total": "messages_dropped",
}


def rpc_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of RPC; labels are fixed words (kind, channel, direction) and node ids of peers."""
    yield from _traffic_families(broker)
    yield from _connection_families(broker)
    transport, driver = broker.measuring.transport, broker.measuring.driver
    yield single("rpc_handshakes_refused_total", transport.protocol_errors)
    yield single("rpc_messages_refused_total", driver.messages_refused)
    yield single("rpc_messages_from_outsiders_total", transport.messages_from_outsiders)


def _traffic_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of messages, bytes and writes between brokers, by direction."""
    totals = broker.measuring.transport.traffic()
    messages = (("in", totals.messages_in), ("out", totals.messages_out))
    sizes = (("in", totals.bytes_in), ("out", totals.bytes_out))
    yield by_labels(
        "rpc_messages_total",
        [([way, kind], count) for way, by_kind in messages for kind, count in sorted(by_kind.items())],
    )
    yield by_labels(
        "rpc_bytes_total",
        [([way, channel], size) for way, by_channel in sizes for channel, size in by_channel.items()],
    )
    yield by_labels("rpc_writes_total", [([channel], count) for channel, count in totals.writes.items()])


def _connection_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of connections to other brokers, by node and channel."""
    channels = [
        ([str(peer.node), channel], status)
        for peer in broker.measuring.transport.peers()
        for channel, status in (("raft", peer.raft), ("bulk", peer.bulk))
    ]
    for name, field in _CONNECTIONS.items():
        yield by_labels(name, [(labels, getattr(status, field)) for labels, status in channels])
