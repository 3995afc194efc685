"""Parts of PromQL expressions that alerts and panels share."""

from typing import Final

JOB: Final = "raftlog"
"""Default name of the Prometheus job that scrapes the brokers."""
CONSUMER_LAG: Final = (
    "sum by (group, topic) (clamp_min("
    "max by (topic, partition) (raftlog_partition_high_watermark) - on (topic, partition) group_right "
    "max by (group, topic, partition) (raftlog_consumer_group_committed_offset), 0))"
)
"""Expression of the lag. Brokers lack `raftlog_consumer_group_lag_records` for partitions without a local replica."""


def rate(series: str, by: str | None = None) -> str:
    """Return the expression of a counter's rate per second; with `by`, its sum for each value of this label."""
    expression = f"rate({series}[$__rate_interval])"
    return expression if by is None else f"sum by ({by}) ({expression})"


def quantile(metric: str, by: str, selector: str = "") -> str:
    """Return the 99th percentile of a histogram for each value of the label `by`."""
    return f"histogram_quantile(0.99, sum by (le, {by}) ({rate(f'{metric}_bucket{selector}')}))"
