"""Metrics of a broker: its records, its replicas, and its state in the cluster.

Figures of replicas come from a pass over all of them (`Figures`); the rest is counted as it happens."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import InfoMetricFamily, Metric

import raftlog
from raftlog.api.http.metrics.families import counter, counters, gauge
from raftlog.partitions.broker import Broker
from raftlog.partitions.metric_sources import Figures
from raftlog.values.value import leader_number

_COUNTERS: Final = {
    "produces": "Produce calls that reached a partition.",
    "records_in": "Records appended.",
    "batches_in": "Record batches appended.",
    "bytes_in": "Bytes of the record batches appended.",
    "appends": "Appends to a log, each of which shares one sync.",
    "produce_failures": "Produce calls that failed after they were queued.",
    "produce_unknown": "Produce calls whose outcome is unknown.",
    "duplicates": "Produce calls of idempotent producers that were appended before.",
    "throttled": "Produce calls that had to wait for room.",
    "fetches": "Fetches.",
    "bytes_out": "Bytes of the record batches fetched.",
}


def broker_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of totals, and of the broker's state in the cluster."""
    for name, text in _COUNTERS.items():
        yield counter(name, text, getattr(broker.measuring.counters, name))
    yield from _catch_up_families(broker)
    yield from _compaction_families(broker)
    yield from _election_families(broker)
    yield from _cluster_families(broker)


def _compaction_families(broker: Broker) -> Iterator[Metric]:
    compacting = broker.measuring.driver.compactor
    saved = sum(each.bytes_before - each.bytes_after for each in compacting.done.values())
    yield counter("compaction_bytes", "Bytes that compaction read and wrote.", compacting.bytes_done)
    yield gauge("compaction_running", "1 while a log is being compacted here.", compacting.current is not None)
    yield gauge("compaction_saved_bytes", "Bytes saved by the last compaction of each log of this broker.", saved)


def _catch_up_families(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    yield counters(
        "catch_up_bytes",
        "Bytes of batches that replicas fetched to catch up.",
        ["direction"],
        [(["in"], driver.catch_up.bytes_fetched), (["out"], driver.supplier.bytes_supplied)],
    )
    yield counter("entries_repaired", "Damaged entries repaired from other replicas.", driver.entries_repaired)


_ELECTIONS: Final = {
    "elections_started": "Elections with a replica of this broker as candidate.",
    "elections_won": "Elections that a replica of this broker won.",
    "elections_lost": "Elections that a replica of this broker lost.",
    "leader_changes": "Leader changes of Raft groups with a replica here.",
}


def _election_families(broker: Broker) -> Iterator[Metric]:
    for name, text in _ELECTIONS.items():
        yield counter(name, text, getattr(broker.measuring.leader_statistics, name))
    leaders = broker.measuring.leaders
    text = "Leadership transfers from this broker to others that were started."
    yield counter("leadership_transfers", text, leaders.transfers_begun)
    text = "Leadership transfers that the other broker did not take over in time."
    yield counter("leadership_transfers_failed", text, leaders.transfers_failed)


def _cluster_families(broker: Broker) -> Iterator[Metric]:
    state, leader = broker.measuring.metadata.state, leader_number(broker.controller_id)
    row = state.broker_of(broker.measuring.replica)
    yield InfoMetricFamily(
        "raftlog_build", "Release and node id.", {"version": raftlog.__version__, "node": str(broker.node_id)}
    )
    yield gauge("ready", "1 when the broker serves.", broker.is_ready)
    yield gauge("brokers", "Brokers registered at the controller.", len(state.brokers))
    yield gauge("topics", "Topics.", len(state.topics))
    text = "Node id of the controller's leader; -1 when this broker has no leader for it."
    yield gauge("controller_leader", text, leader)
    text = "Index of the last entry of the controller's log that is applied here."
    yield gauge("metadata_applied_index", text, state.applied_index)
    yield gauge("feature_level", "Feature level of the cluster.", state.feature_level)
    is_in_maintenance, is_draining = state.is_in_maintenance(broker.node_id), row is not None and row.is_draining
    yield gauge("in_maintenance", "1 when this broker is in maintenance.", is_in_maintenance)
    yield gauge("draining", "1 when this broker's replicas are to move elsewhere.", is_draining)


_FIGURES: Final = {
    "partitions_led": ("Raft groups that this broker leads, the controller's among them.", "led"),
    "partitions_leaderless": ("Raft groups with a replica here and no known leader.", "leaderless"),
    "partitions_under_replicated": (
        "Raft groups led here with a voter that is unreachable or not in sync.",
        "under_replicated",
    ),
    "partitions_moving": ("Raft groups led here with a reassignment pending.", "moving"),
    "partitions_quiesced": ("Quiesced Raft groups: idle, without heartbeats.", "asleep"),
    "partitions_quarantined": ("Raft groups whose replica here is damaged and is being repaired.", "quarantined"),
    "partitions_unavailable": ("Partitions whose replica here is damaged or stopped.", "unavailable"),
    "pending_bytes": ("Bytes of records that wait for their append or sync.", "pending_bytes"),
    "waiting_fetches": ("Fetches that wait for records.", "waiting_fetches"),
    "forwards_waiting": ("Requests to leaders on other brokers that have no answer yet.", "forwarding"),
}


def figures_families(figures: Figures) -> Iterator[Metric]:
    """Yield the metric families of figures that one pass over all Raft groups collects."""
    for name, (text, field) in _FIGURES.items():
        yield gauge(name, text, getattr(figures, field))
    replicas = figures.replicas
    yield gauge("partitions", "Partitions with a replica here.", len(replicas))
    yield gauge("log_bytes", "Bytes of all logs.", sum(each.log_bytes for each in replicas))
    yield counter("forwards", "Requests to leaders on other brokers.", figures.forwarded)
