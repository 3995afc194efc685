"""Metrics of the traffic between this broker and the others."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counter, counters, gauges
from raftlog.partitions.broker import Broker

_CONNECTIONS: Final = (
    (gauges, "connected", "1 while there is a connection to that broker.", "is_connected"),
    (counters, "connections", "Connections made; all but the first one are reconnects.", "connections_made"),
    (gauges, "queued_bytes", "Bytes that wait to be sent.", "queued_bytes"),
    (counters, "messages_dropped", "Raft messages that were dropped without a connection.", "messages_dropped"),
)


def rpc_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of RPC; labels are fixed words (kind, channel, direction) and node ids of peers."""
    yield from _traffic_families(broker)
    yield from _connection_families(broker)
    transport, driver = broker.measuring.transport, broker.measuring.driver
    yield counter(
        "rpc_complaints", "Connections to the RPC port that were refused in the handshake.", transport.protocol_errors
    )
    yield counter(
        "rpc_messages_refused", "Refused Raft messages: unknown group, invalid, or no room.", driver.messages_refused
    )
    text = "Dropped Raft messages of processes that are not in the cluster."
    yield counter("rpc_messages_from_outsiders", text, transport.messages_from_outsiders)


def _traffic_families(broker: Broker) -> Iterator[Metric]:
    totals = broker.measuring.transport.traffic()
    messages = (("in", totals.messages_in), ("out", totals.messages_out))
    sizes = (("in", totals.bytes_in), ("out", totals.bytes_out))
    yield counters(
        "rpc_messages",
        "Logical messages between brokers.",
        ["direction", "kind"],
        [([way, kind], count) for way, by_kind in messages for kind, count in sorted(by_kind.items())],
    )
    yield counters(
        "rpc_bytes",
        "Bytes between brokers.",
        ["direction", "channel"],
        [([way, channel], size) for way, by_channel in sizes for channel, size in by_channel.items()],
    )
    writes = [([channel], count) for channel, count in totals.writes.items()]
    yield counters("rpc_writes", "Writes to sockets of other brokers.", ["channel"], writes)


def _connection_families(broker: Broker) -> Iterator[Metric]:
    channels = [
        ([str(peer.node), channel], status)
        for peer in broker.measuring.transport.peers()
        for channel, status in (("raft", peer.raft), ("bulk", peer.bulk))
    ]
    for family, name, text, field in _CONNECTIONS:
        samples = [(labels, getattr(status, field)) for labels, status in channels]
        yield family(f"rpc_{name}", text, ["node", "channel"], samples)
