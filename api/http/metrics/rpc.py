"""Metrics of what goes between this broker and the others."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from raftlog.partitions.broker import Broker


def rpc_families(broker: Broker) -> Iterator[Metric]:
    """Labels are a few fixed words (kinds of messages, channels, directions), and the other brokers' node ids."""
    yield from _traffic(broker)
    yield from _connections(broker)
    source = broker.measuring
    yield CounterMetricFamily(
        "raftlog_rpc_complaints",
        "Connections to the RPC port that ended because somebody did not belong here.",
        value=source.transport.complaints,
    )
    yield CounterMetricFamily(
        "raftlog_rpc_messages_refused",
        "Raft messages that were of no group here, unsound, or for which there was no room.",
        value=source.driver.messages_refused,
    )
    yield CounterMetricFamily(
        "raftlog_rpc_messages_from_outsiders",
        "Raft messages of processes that the cluster does not know as members; they are dropped.",
        value=source.transport.messages_from_outsiders,
    )


def _traffic(broker: Broker) -> Iterator[Metric]:
    totals = broker.measuring.transport.traffic()
    messages = CounterMetricFamily(
        "raftlog_rpc_messages", "Logical messages between brokers.", labels=["direction", "kind"]
    )
    sizes = CounterMetricFamily("raftlog_rpc_bytes", "Bytes between brokers.", labels=["direction", "channel"])
    for direction, by_kind, by_channel in (
        ("in", totals.messages_in, totals.bytes_in),
        ("out", totals.messages_out, totals.bytes_out),
    ):
        for kind, count in sorted(by_kind.items()):
            messages.add_metric([direction, kind], count)
        for channel, size in by_channel.items():
            sizes.add_metric([direction, channel], size)
    writes = CounterMetricFamily("raftlog_rpc_writes", "Writes to sockets of other brokers.", labels=["channel"])
    for channel, count in totals.writes.items():
        writes.add_metric([channel], count)
    yield from (messages, sizes, writes)


def _connections(broker: Broker) -> Iterator[Metric]:
    labels = ["node", "channel"]
    connected = GaugeMetricFamily(
        "raftlog_rpc_connected", "1 while there is a connection to that broker.", labels=labels
    )
    made = CounterMetricFamily(
        "raftlog_rpc_connections", "Connections made; all but the first one are reconnects.", labels=labels
    )
    queued = GaugeMetricFamily("raftlog_rpc_queued_bytes", "Bytes that wait to be sent.", labels=labels)
    dropped = CounterMetricFamily(
        "raftlog_rpc_messages_dropped", "Raft messages that were lost for want of a connection.", labels=labels
    )
    for peer in broker.measuring.transport.peers():
        for channel, status in (("raft", peer.raft), ("bulk", peer.bulk)):
            values = [str(peer.node), channel]
            connected.add_metric(values, int(status.is_connected))
            made.add_metric(values, status.connections_made)
            queued.add_metric(values, status.queued_bytes)
            dropped.add_metric(values, status.messages_dropped)
    yield from (connected, made, queued, dropped)
