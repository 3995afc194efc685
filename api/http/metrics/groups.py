"""Metrics of the groups that this broker coordinates, bounded like those of partitions.

series of lag ≤ series of committed offsets ≤ partitions_max
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counter, gauge, gauges
from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.measuring import GroupFigures

_COUNTERS: Final = {
    "group_commits": "Offsets of groups that were committed at coordinators here.",
    "group_expired": "Committed offsets that were forgotten because their group was empty for so long.",
    "group_rebalances": "Generations with members that coordinators here made.",
}
_LABELS: Final = ("group", "topic", "partition")


def group_totals(broker: Broker) -> Iterator[Metric]:
    """Yield the families of counters of consumer groups, and of consumer instances."""
    for name, text in _COUNTERS.items():
        yield counter(name, text, getattr(broker.measuring.counters, name))
    yield gauge("consumer_instances", "Consumer instances that live here.", len(broker.consumers))


def group_families(figures: GroupFigures) -> Iterator[Metric]:
    """Yield the families of the present state of consumer groups."""
    by_state = [([state], count) for state, count in figures.by_state.items()]
    yield gauges("groups", "Groups that are coordinated here, by state.", ["state"], by_state)
    yield gauge("group_members", "Their members.", figures.members)
    rows = [([each.group, each.topic, str(each.partition)], each) for each in figures.lags]
    yield gauges(
        "group_lag",
        "Records that a group coordinated here has not committed yet, as this broker knows the partition.",
        _LABELS,
        [(labels, each.records) for labels, each in rows if each.records is not None],
    )
    yield gauges(
        "group_committed_offset",
        "The offset that a group coordinated here goes on from.",
        _LABELS,
        [(labels, each.committed) for labels, each in rows],
    )
    yield gauge(
        "metrics_group_lags_left_out",
        "Groups' partitions without series of their own (--metrics-partitions-max).",
        figures.lags_left_out,
    )
