"""Metrics of the consumer groups that this broker coordinates, with a bounded number of series.

series of lag ≤ series of committed offsets ≤ partitions_max
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, single
from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.figures import GroupFigures

_COUNTERS: Final = {
    "consumer_group_offset_commits_total": "group_commits",
    "consumer_group_offsets_expired_total": "group_expired",
    "consumer_group_rebalances_total": "group_rebalances",
}


def group_totals(broker: Broker) -> Iterator[Metric]:
    """Yield the counters of consumer groups and of consumer instances."""
    for name, field in _COUNTERS.items():
        yield single(name, getattr(broker.measuring.counters, field))
    yield single("consumer_instances", len(broker.consumers))


def group_families(figures: GroupFigures) -> Iterator[Metric]:
    """Yield the gauges of the present state of consumer groups."""
    yield by_labels("consumer_groups", [([state], count) for state, count in figures.by_state.items()])
    yield single("consumer_group_members", figures.members)
    rows = [([each.group, each.topic, str(each.partition)], each) for each in figures.lags]
    lags = [(labels, each.records) for labels, each in rows if each.records is not None]
    yield by_labels("consumer_group_lag_records", lags)
    yield by_labels("consumer_group_committed_offset", [(labels, each.committed) for labels, each in rows])
    yield single("metrics_consumer_group_partitions_left_out", figures.lags_left_out)
