"""Declaration of one metric, with the name that Prometheus stores.

Names follow Prometheus: `raftlog_`, the subject, and its unit in the plural (base units: seconds, bytes) or what is
counted; `_total` for counters, `_info` for a constant 1 with labels, `_timestamp_seconds` for points in time (Unix
time). Labels come from small fixed sets, or are bounded by settings."""

from typing import Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram", "info"]
PREFIX: Final = "raftlog_"


class MetricDeclaration(NamedTuple):
    """Name without `raftlog_`, type, meaning, and names of the labels."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """Name of the series; of a histogram without `_bucket`, `_sum` and `_count`."""
        return PREFIX + self.name


def counter(name: str, meaning: str, *labels: str) -> MetricDeclaration:
    """Declare a number that only rises."""
    assert name.endswith("_total"), name
    return MetricDeclaration(name, "counter", meaning, labels)


def gauge(name: str, meaning: str, *labels: str) -> MetricDeclaration:
    """Declare a number that rises and falls."""
    return MetricDeclaration(name, "gauge", meaning, labels)


def histogram(name: str, meaning: str, *labels: str) -> MetricDeclaration:
    """Declare a distribution of durations."""
    assert name.endswith("_seconds"), name
    return MetricDeclaration(name, "histogram", meaning, labels)


def info(name: str, meaning: str, *labels: str) -> MetricDeclaration:
    """Declare a constant 1 whose labels are the information."""
    assert name.endswith("_info"), name
    return MetricDeclaration(name, "info", meaning, labels)
