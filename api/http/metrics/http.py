"""Metrics of the HTTP server's requests."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

from raftlog.api.http.metrics.families import counters, gauges
from raftlog.api.http.metrics.requests import RequestMetrics

_MEMORY: Final = (
    (gauges, "used_bytes", "Memory that connections hold, by share of the budget.", "used"),
    (gauges, "limit_bytes", "Size of the share.", "limit"),
    (gauges, "waiting", "Connections that wait for memory of the share.", "waiting_count"),
    (
        counters,
        "refused",
        "Refusals of memory: an answer became smaller, or a request was refused.",
        "refused",
    ),
)


def http_families(request_metrics: RequestMetrics) -> Iterator[Metric]:
    """Yield the metric families of requests, by status and by class of request."""
    responses = [([str(status)], count) for status, count in sorted(request_metrics.responses.items())]
    yield counters("http_responses", "Answers by HTTP status.", ["status"], responses)
    times = HistogramMetricFamily(
        "raftlog_http_request_seconds",
        "Time from the head of a request to its answer, by class of request; includes long polls.",
        labels=["class"],
    )
    for kind, histogram in sorted(request_metrics.times.items()):
        times.add_metric([kind], buckets=histogram.cumulative_buckets(), sum_value=histogram.sum_s)
    yield times
    yield from _memory_families(request_metrics)


def _memory_families(request_metrics: RequestMetrics) -> Iterator[Metric]:
    """Yield the metric families of memory, by share of the memory budget."""
    for family, name, text, field in _MEMORY:
        samples = [([share], getattr(budget, field)) for share, budget in request_metrics.memory.items()]
        yield family(f"memory_budget_{name}", text, ["share"], samples)
