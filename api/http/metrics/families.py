"""Constructors of metric families; names get the prefix `raftlog_`."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from raftlog.runtime.histogram import Histogram

Samples: TypeAlias = Iterable[tuple[Sequence[str], float]]
"""Values of the labels, and the number."""


def counter(name: str, text: str, value: float) -> Metric:
    """Return a family with one counter."""
    return CounterMetricFamily(f"raftlog_{name}", text, value=value)


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a family with one gauge."""
    return GaugeMetricFamily(f"raftlog_{name}", text, value=value)


def counters(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    """Return a family of counters, by labels."""
    family = CounterMetricFamily(f"raftlog_{name}", text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def gauges(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    """Return a family of gauges, by labels."""
    family = GaugeMetricFamily(f"raftlog_{name}", text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def histogram(name: str, text: str, times: Histogram) -> Metric:
    """Return a family with one histogram of times, in seconds."""
    return HistogramMetricFamily(f"raftlog_{name}", text, buckets=times.cumulative_buckets(), sum_value=times.sum_s)
