"""Metrics of what goes between this broker and the others."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from raftlog.partitions.broker import Broker


def rpc_families(broker: Broker) -> Iterator[Metric]:
    """Labels are a few fixed words: kinds of messages, channels, directions."""
    totals = broker.traffic()
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
