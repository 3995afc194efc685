"""Counters as Prometheus metrics. They are plain integers until somebody scrapes; nothing is kept here."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from raftlog.partitions.broker import Broker
from raftlog.runtime.rpc import TrafficTotals

_COUNTERS = {
    "produces": "Produce calls that reached a partition.",
    "records_in": "Records appended.",
    "batches_in": "Record batches appended.",
    "bytes_in": "Bytes of the record batches appended.",
    "appends": "Appends to a log, each of which shares one sync.",
    "produce_failures": "Produce calls that failed after they were queued.",
    "produce_unknown": "Produce calls whose outcome is unknown.",
    "throttled": "Produce calls that had to wait for room.",
    "fetches": "Fetches.",
    "bytes_out": "Bytes of the record batches fetched.",
}
_GAUGES = {
    "topics": "Topics.",
    "partitions": "Partitions with a replica here.",
    "partitions_unavailable": "Those whose replica here is damaged or stopped.",
    "partitions_quarantined": "Raft groups whose replica here is damaged and is being repaired.",
    "partitions_led": "Raft groups that this process leads, the controller's among them.",
    "partitions_leaderless": "Raft groups with a replica here and no known leader.",
    "log_bytes": "Bytes of all logs.",
    "pending_bytes": "Bytes of records that wait for their append or sync.",
    "metadata_applied_index": "Entry of the controller's log up to which it was applied here.",
}


class Metrics(Collector):
    """Its own registry: nothing of the process's other users of prometheus_client is shown."""

    def __init__(self, broker: Broker, requests: Mapping[int, int]) -> None:
        self._broker = broker
        self._requests = requests
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> tuple[bytes, str]:
        """The text and its content type."""
        return generate_latest(self._registry), "text/plain"

    def collect(self) -> Iterator[Metric]:
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"raftlog_{name}", text, value=getattr(self._broker.counters, name))
        gauges = self._broker.metrics()
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(f"raftlog_{name}", text, value=gauges[name])
        yield from _traffic_metrics(self._broker.traffic())
        caught_up = CounterMetricFamily(
            "raftlog_catch_up_bytes", "Bytes of batches that replicas fetched to catch up.", labels=["direction"]
        )
        for direction, size in zip(("in", "out"), self._broker.catch_up_bytes(), strict=True):
            caught_up.add_metric([direction], size)
        yield caught_up
        yield CounterMetricFamily(
            "raftlog_entries_repaired",
            "Damaged entries that other replicas gave back.",
            value=self._broker.node.driver.entries_repaired,
        )
        requests = CounterMetricFamily("raftlog_http_responses", "Answers by HTTP status.", labels=["status"])
        for status, count in sorted(self._requests.items()):
            requests.add_metric([str(status)], count)
        yield requests


def _traffic_metrics(totals: TrafficTotals) -> Iterator[Metric]:
    """Labels are a few fixed words: kinds of messages, channels, directions."""
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
