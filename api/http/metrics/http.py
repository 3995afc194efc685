"""Metrics of the HTTP server's requests."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, times_by_label
from raftlog.api.http.metrics.requests import RequestMetrics

_MEMORY: Final = {
    "memory_budget_used_bytes": "used",
    "memory_budget_limit_bytes": "limit",
    "memory_budget_connections_waiting": "waiting_count",
    "memory_budget_refused_total": "refused",
}


def http_families(request_metrics: RequestMetrics) -> Iterator[Metric]:
    """Yield the metric families of requests, by status and by class of request."""
    responses = [([str(status)], count) for status, count in sorted(request_metrics.responses.items())]
    yield by_labels("http_responses_total", responses)
    yield times_by_label("http_request_seconds", dict(sorted(request_metrics.times.items())))
    for name, field in _MEMORY.items():
        samples = [([share], getattr(budget, field)) for share, budget in request_metrics.memory.items()]
        yield by_labels(name, samples)
