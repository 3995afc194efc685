"""Metrics of all Kafka listeners of the process together; `partitions.counters` has the counters."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, single, times_by_label
from raftlog.partitions.broker import Broker


def kafka_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of requests, by Kafka's name of the API, and of connections."""
    kafka = broker.measuring.counters.kafka
    yield by_labels("kafka_requests_total", [([api], count) for api, count in sorted(kafka.requests.items())])
    yield by_labels("kafka_errors_total", [([api], count) for api, count in sorted(kafka.errors.items())])
    yield times_by_label("kafka_request_seconds", dict(sorted(kafka.times.items())))
    yield single("kafka_connections", kafka.connections)
    yield single("kafka_connections_accepted_total", kafka.connections_accepted)
    yield single("kafka_connections_refused_total", kafka.connections_refused)
    yield single("kafka_connections_closed_total", kafka.closed)
    yield single("kafka_fetch_sessions", kafka.fetch_sessions)
    yield single("kafka_fetch_session_partitions", kafka.fetch_session_partitions)
    yield single("kafka_fetch_sessions_evicted_total", kafka.fetch_sessions_evicted)
    yield by_labels("kafka_bytes_total", [(["in"], kafka.bytes_in), (["out"], kafka.bytes_out)])
