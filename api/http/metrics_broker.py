"""Metrics of what a broker has and does: its records, its groups, its part in the cluster."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from raftlog.partitions.broker import Broker

_COUNTERS: Final = {
    "produces": "Produce calls that reached a partition.",
    "records_in": "Records appended.",
    "batches_in": "Record batches appended.",
    "bytes_in": "Bytes of the record batches appended.",
    "appends": "Appends to a log, each of which shares one sync.",
    "produce_failures": "Produce calls that failed after they were queued.",
    "produce_unknown": "Produce calls whose outcome is unknown.",
    "throttled": "Produce calls that had to wait for room.",
    "fetches": "Fetches.",
    "bytes_out": "Bytes of the record batches fetched.",
}
_GAUGES: Final = {
    "topics": "Topics.",
    "partitions": "Partitions with a replica here.",
    "partitions_unavailable": "Those whose replica here is damaged or stopped.",
    "partitions_quarantined": "Raft groups whose replica here is damaged and is being repaired.",
    "partitions_led": "Raft groups that this process leads, the controller's among them.",
    "partitions_leaderless": "Raft groups with a replica here and no known leader.",
    "log_bytes": "Bytes of all logs.",
    "pending_bytes": "Bytes of records that wait for their append or sync.",
    "metadata_applied_index": "Entry of the controller's log up to which it was applied here.",
}


def broker_families(broker: Broker) -> Iterator[Metric]:
    """Totals and gauges of the broker."""
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(f"raftlog_{name}", text, value=getattr(broker.counters, name))
    gauges = broker.metrics()
    for name, text in _GAUGES.items():
        yield GaugeMetricFamily(f"raftlog_{name}", text, value=gauges[name])
    caught_up = CounterMetricFamily(
        "raftlog_catch_up_bytes", "Bytes of batches that replicas fetched to catch up.", labels=["direction"]
    )
    for direction, size in zip(("in", "out"), broker.catch_up_bytes(), strict=True):
        caught_up.add_metric([direction], size)
    yield caught_up
    yield CounterMetricFamily(
        "raftlog_entries_repaired",
        "Damaged entries that other replicas gave back.",
        value=broker.node.driver.entries_repaired,
    )
