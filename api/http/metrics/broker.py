"""Metrics of a broker: its records, its replicas, and its state in the cluster.

Figures of replicas come from a pass over all of them (`Figures`); the rest is counted as it happens."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

import raftlog
from raftlog.api.http.metrics.families import by_labels, constant, single
from raftlog.partitions.broker import Broker
from raftlog.partitions.metric_sources import Figures
from raftlog.values.value import leader_number

_COUNTERS: Final = {
    "produce_calls_total": "produces",
    "appends_total": "appends",
    "appended_records_total": "records_in",
    "appended_batches_total": "batches_in",
    "appended_bytes_total": "bytes_in",
    "produce_failures_total": "produce_failures",
    "produce_unknown_outcomes_total": "produce_unknown",
    "produce_duplicates_total": "duplicates",
    "produce_throttled_total": "throttled",
    "fetches_total": "fetches",
    "fetched_bytes_total": "bytes_out",
}


def broker_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of totals, and of the broker's state in the cluster."""
    for name, field in _COUNTERS.items():
        yield single(name, getattr(broker.measuring.counters, field))
    yield from _catch_up_families(broker)
    yield from _compaction_families(broker)
    yield from _election_families(broker)
    yield from _cluster_families(broker)


def _compaction_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of compaction."""
    compacting = broker.measuring.driver.compactor
    saved = sum(each.bytes_before - each.bytes_after for each in compacting.done.values())
    yield single("compaction_bytes_total", compacting.bytes_done)
    yield single("compaction_running", compacting.current is not None)
    yield single("compaction_saved_bytes", saved)


def _catch_up_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of catch-up and repair."""
    driver = broker.measuring.driver
    ways = [(["in"], driver.catch_up.bytes_fetched), (["out"], driver.supplier.bytes_supplied)]
    yield by_labels("catch_up_bytes_total", ways)
    yield single("entries_repaired_total", driver.entries_repaired)


def _election_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of elections and leadership transfers."""
    for field in ("elections_started", "elections_won", "elections_lost", "leader_changes"):
        yield single(f"{field}_total", getattr(broker.measuring.leader_statistics, field))
    leaders = broker.measuring.leaders
    yield single("leadership_transfers_total", leaders.transfers_begun)
    yield single("leadership_transfers_failed_total", leaders.transfers_failed)


def _cluster_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of the cluster, and of this broker's state in it."""
    state, leader = broker.measuring.metadata.state, leader_number(broker.controller_id)
    row = state.broker_of(broker.measuring.replica)
    yield constant("build_info", (raftlog.__version__, str(broker.node_id)))
    yield single("ready", broker.is_ready)
    yield single("brokers", len(state.brokers))
    yield single("topics", len(state.topics))
    yield single("controller_leader_node_id", leader)
    yield single("metadata_applied_index", state.applied_index)
    yield single("feature_level", state.feature_level)
    yield single("in_maintenance", state.is_in_maintenance(broker.node_id))
    yield single("draining", row is not None and row.is_draining)


_FIGURES: Final = {
    "partitions_led": "led",
    "partitions_leaderless": "leaderless",
    "partitions_under_replicated": "under_replicated",
    "partitions_moving": "moving",
    "partitions_quiesced": "asleep",
    "partitions_quarantined": "quarantined",
    "partitions_unavailable": "unavailable",
    "append_pending_bytes": "pending_bytes",
    "fetches_waiting": "waiting_fetches",
    "forwards_waiting": "forwarding",
}


def figures_families(figures: Figures) -> Iterator[Metric]:
    """Yield the metric families whose values one pass over all Raft groups collects."""
    for name, field in _FIGURES.items():
        yield single(name, getattr(figures, field))
    replicas = figures.replicas
    yield single("partitions", len(replicas))
    yield single("log_bytes", sum(each.log_bytes for each in replicas))
    yield single("forwards_total", figures.forwarded)
