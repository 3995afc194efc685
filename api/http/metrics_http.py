"""Metrics of the HTTP server's requests."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from raftlog.api.http.measured import HttpMeasured


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
