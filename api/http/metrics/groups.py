"""Metrics of the consumer groups that this broker coordinates, with a bounded number of series.

series of lag ≤ series of committed offsets ≤ partitions_max
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counter, gauge, gauges
from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.figures import GroupFigures

_COUNTERS: Final = {
    "group_commits": "Offsets committed at coordinators on this broker.",
    "group_expired": "Committed offsets that expired because their group was empty.",
    "group_rebalances": "Generations with members that coordinators here created.",
}
_LABELS: Final = ("group", "topic", "partition")


def group_totals(broker: Broker) -> Iterator[Metric]:
    """Yield the counters of consumer groups and of consumer instances."""
    for name, text in _COUNTERS.items():
        yield counter(name, text, getattr(broker.measuring.counters, name))
    yield gauge("consumer_instances", "Consumer instances on this broker.", len(broker.consumers))


def group_families(figures: GroupFigures) -> Iterator[Metric]:
    """Yield the gauges of the present state of consumer groups."""
    by_state = [([state], count) for state, count in figures.by_state.items()]
    yield gauges("groups", "Consumer groups coordinated here, by state.", ["state"], by_state)
    yield gauge("group_members", "Members of the consumer groups coordinated here.", figures.members)
    rows = [([each.group, each.topic, str(each.partition)], each) for each in figures.lags]
    yield gauges(
        "group_lag",
        "Lag of a group coordinated here: records after its committed offset, from this broker's copy.",
        _LABELS,
        [(labels, each.records) for labels, each in rows if each.records is not None],
    )
    yield gauges(
        "group_committed_offset",
        "Committed offset of a group coordinated here.",
        _LABELS,
        [(labels, each.committed) for labels, each in rows],
    )
    yield gauge(
        "metrics_group_lags_left_out",
        "Partitions of groups without series of their own (--metrics-partitions-max).",
        figures.lags_left_out,
    )
