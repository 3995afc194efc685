"""Metrics of the HTTP server's requests."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from raftlog.api.http.metrics.measured import HttpMeasured


def http_families(measured: HttpMeasured) -> Iterator[Metric]:
    """By status, and by class of request."""
    responses = CounterMetricFamily("raftlog_http_responses", "Answers by HTTP status.", labels=["status"])
    for status, count in sorted(measured.responses.items()):
        responses.add_metric([str(status)], count)
    yield responses
    times = HistogramMetricFamily(
        "raftlog_http_request_seconds",
        "From the head of a request to its answer, by what was asked for; long polls wait in it.",
        labels=["class"],
    )
    for kind, histogram in sorted(measured.times.items()):
        times.add_metric([kind], buckets=histogram.cumulative(), sum_value=histogram.sum_s)
    yield times
    yield from _memory_families(measured)


def _memory_families(measured: HttpMeasured) -> Iterator[Metric]:
    """By share of the memory budget."""
    used = GaugeMetricFamily(
        "raftlog_memory_budget_used_bytes", "Memory that connections hold, by share of the budget.", labels=["share"]
    )
    limit = GaugeMetricFamily("raftlog_memory_budget_limit_bytes", "The size of the share.", labels=["share"])
    waiting = GaugeMetricFamily(
        "raftlog_memory_budget_waiting", "Connections that wait for memory of the share.", labels=["share"]
    )
    refused = CounterMetricFamily(
        "raftlog_memory_budget_refused",
        "How often memory was not given: an answer became smaller, or a request was refused.",
        labels=["share"],
    )
    for share, budget in measured.memory.items():
        used.add_metric([share], budget.used)
        limit.add_metric([share], budget.limit)
        waiting.add_metric([share], budget.waiting_count)
        refused.add_metric([share], budget.refused)
    yield from (used, limit, waiting, refused)
