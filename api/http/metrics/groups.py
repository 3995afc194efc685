"""Metrics of the groups that this broker coordinates, bounded like those of partitions.

series of lag ≤ series of committed offsets ≤ partitions_max
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.measuring import GroupFigures

_COUNTERS: Final = {
    "group_commits": "Offsets of groups that were committed at coordinators here.",
    "group_expired": "Committed offsets that were forgotten because their group was empty for so long.",
    "group_rebalances": "Generations with members that coordinators here made.",
}


def group_totals(broker: Broker) -> Iterator[Metric]:
    """What is counted as it happens, and the consumer instances."""
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(f"raftlog_{name}", text, value=getattr(broker.measuring.counters, name))
    instances = len(broker.consumers)
    yield GaugeMetricFamily("raftlog_consumer_instances", "Consumer instances that live here.", value=instances)


def group_families(figures: GroupFigures) -> Iterator[Metric]:
    """What the groups are now."""
    groups = GaugeMetricFamily("raftlog_groups", "Groups that are coordinated here, by state.", labels=["state"])
    for state, count in figures.by_state.items():
        groups.add_metric([state], count)
    yield groups
    yield GaugeMetricFamily("raftlog_group_members", "Their members.", value=figures.members)
    lag = GaugeMetricFamily(
        "raftlog_group_lag",
        "Records that a group coordinated here has not committed yet, as this broker knows the partition.",
        labels=["group", "topic", "partition"],
    )
    committed = GaugeMetricFamily(
        "raftlog_group_committed_offset",
        "The offset that a group coordinated here goes on from.",
        labels=["group", "topic", "partition"],
    )
    for each in figures.lags:
        labels = [each.group, each.topic, str(each.partition)]
        committed.add_metric(labels, each.committed)
        if each.records is not None:
            lag.add_metric(labels, each.records)
    yield lag
    yield committed
    yield GaugeMetricFamily(
        "raftlog_metrics_group_lags_left_out",
        "Groups' partitions without series of their own (--metrics-partitions-max).",
        value=figures.lags_left_out,
    )
