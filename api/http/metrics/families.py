"""Constructors of metric families; type, text and labels come from the declarations.

`name` is the declared one, without the prefix `raftlog_`. An undeclared name is a `KeyError`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from raftlog.api.http.metrics.declared import DECLARED
from raftlog.api.http.metrics.declared.declaration import PREFIX
from raftlog.runtime.histogram import Histogram

Samples: TypeAlias = Iterable[tuple[Sequence[str], float]]
"""Rows of a metric family: values of the labels, and the value of the sample."""
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def single(name: str, value: float) -> Metric:
    """Return the metric family of a counter or gauge without labels."""
    return by_labels(name, [((), value)])


def by_labels(name: str, samples: Samples) -> Metric:
    """Return the metric family of a counter or gauge with one sample for each value of its labels."""
    declared = DECLARED[name]
    assert declared.kind in ("counter", "gauge"), name
    family_type = CounterMetricFamily if declared.kind == "counter" else GaugeMetricFamily
    family = family_type(PREFIX + name, _help_text(declared.meaning), labels=declared.labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def constant(name: str, values: Sequence[str]) -> Metric:
    """Return the family of an `_info` metric: always 1, with these values of the labels."""
    declared = DECLARED[name]
    assert declared.kind == "info", name
    labels = dict(zip(declared.labels, values, strict=True))
    return InfoMetricFamily(PREFIX + name.removesuffix("_info"), _help_text(declared.meaning), labels)


def times(name: str, histogram: Histogram) -> Metric:
    """Return the metric family of a histogram of durations without labels."""
    return times_by_label(name, {None: histogram})


def times_by_label(name: str, histograms: Mapping[str | None, Histogram]) -> Metric:
    """Return the metric family of histograms of durations, by the value of their only label."""
    declared = DECLARED[name]
    assert declared.kind == "histogram", name
    family = HistogramMetricFamily(PREFIX + name, _help_text(declared.meaning), labels=declared.labels)
    for value, histogram in histograms.items():
        labels = [] if value is None else [value]
        family.add_metric(labels, buckets=histogram.cumulative_buckets(), sum_value=histogram.sum_s)
    return family


def _help_text(meaning: str) -> str:
    """Return the description of a metric as a sentence without Markdown's marks."""
    plain = _LINK.sub(r"\1", meaning).replace("`", "")
    return f"{plain[0].upper()}{plain[1:]}."
