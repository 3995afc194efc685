"""Metrics of all Kafka listeners of the process together; `partitions.counters` has the counters."""

from collections.abc import Iterator

from prometheus_client.core import HistogramMetricFamily, Metric

from raftlog.api.http.metrics.families import counter, counters, gauge
from raftlog.partitions.broker import Broker


def kafka_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of requests, by Kafka's name of the API, and of connections."""
    kafka = broker.measuring.counters.kafka
    requests = [([api], count) for api, count in sorted(kafka.requests.items())]
    yield counters("kafka_requests", "Requests of Kafka clients.", ["api"], requests)
    errors = [([api], count) for api, count in sorted(kafka.errors.items())]
    yield counters("kafka_errors", "Requests of Kafka clients that failed as a whole.", ["api"], errors)
    times = HistogramMetricFamily(
        "raftlog_kafka_request_seconds",
        "Time from the arrival of a request to its answer; includes long polls.",
        labels=["api"],
    )
    for api, histogram in sorted(kafka.times.items()):
        times.add_metric([api], buckets=histogram.cumulative_buckets(), sum_value=histogram.sum_s)
    yield times
    yield gauge("kafka_connections", "Open connections of Kafka clients.", kafka.connections)
    text = "Connections of Kafka clients that were accepted."
    yield counter("kafka_connections_accepted", text, kafka.connections_accepted)
    text = "Connections that were closed at once because there were too many."
    yield counter("kafka_connections_refused", text, kafka.connections_refused)
    text = "Connections that were closed because of malformed or slow input, or unread answers."
    yield counter("kafka_connections_closed", text, kafka.closed)
    text = "Open fetch sessions of Kafka clients."
    yield gauge("kafka_fetch_sessions", text, kafka.fetch_sessions)
    text = "Partitions of all fetch sessions of Kafka clients."
    yield gauge("kafka_fetch_session_partitions", text, kafka.fetch_session_partitions)
    text = "Fetch sessions that were closed because of the bounds on their number and partitions."
    yield counter("kafka_fetch_sessions_evicted", text, kafka.fetch_sessions_evicted)
    text = "Bytes from and to Kafka clients."
    yield counters("kafka_bytes", text, ["direction"], [(["in"], kafka.bytes_in), (["out"], kafka.bytes_out)])
