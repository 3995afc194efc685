"""Counters as Prometheus metrics. They are plain integers until somebody scrapes; nothing is kept here."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from raftlog.partitions.broker import Broker

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
        requests = CounterMetricFamily("raftlog_http_responses", "Answers by HTTP status.", labels=["status"])
        for status, count in sorted(self._requests.items()):
            requests.add_metric([str(status)], count)
        yield requests
