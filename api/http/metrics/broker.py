"""Metrics of what a broker has and does: its records, its groups, its part in the cluster.

Its groups are looked through beforehand (`Figures`); the rest is counted where it happens.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

import raftlog
from raftlog.partitions.broker import Broker
from raftlog.partitions.measuring import Figures

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
_NOBODY: Final = -1


def broker_families(broker: Broker) -> Iterator[Metric]:
    """Totals, and the broker's part in the cluster."""
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(f"raftlog_{name}", text, value=getattr(broker.measuring.counters, name))
    yield from _catch_up(broker)
    yield from _compaction(broker)
    yield from _elections(broker)
    yield from _cluster(broker)


def _compaction(broker: Broker) -> Iterator[Metric]:
    compacting = broker.measuring.driver.compacting
    yield CounterMetricFamily(
        "raftlog_compaction_bytes", "Bytes that compaction read and wrote.", value=compacting.bytes_done
    )
    yield GaugeMetricFamily(
        "raftlog_compaction_running",
        "1 while a log is being compacted here.",
        value=int(compacting.current is not None),
    )
    yield GaugeMetricFamily(
        "raftlog_compaction_saved_bytes",
        "By how much the last runs over the logs that are here made them smaller.",
        value=sum(each.bytes_before - each.bytes_after for each in compacting.done.values()),
    )


def _catch_up(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    family = CounterMetricFamily(
        "raftlog_catch_up_bytes", "Bytes of batches that replicas fetched to catch up.", labels=["direction"]
    )
    family.add_metric(["in"], driver.catch_up.bytes_fetched)
    family.add_metric(["out"], driver.supplying.bytes_supplied)
    yield family
    yield CounterMetricFamily(
        "raftlog_entries_repaired", "Damaged entries that other replicas gave back.", value=driver.entries_repaired
    )


def _elections(broker: Broker) -> Iterator[Metric]:
    turnover, leaders = broker.measuring.turnover, broker.measuring.leaders
    yield CounterMetricFamily(
        "raftlog_elections_started",
        "Elections in which a replica here stood for leader.",
        value=turnover.elections_started,
    )
    yield CounterMetricFamily("raftlog_elections_won", "Those that it won.", value=turnover.elections_won)
    yield CounterMetricFamily("raftlog_elections_lost", "Those that it lost.", value=turnover.elections_lost)
    yield CounterMetricFamily(
        "raftlog_leader_changes",
        "Groups with a replica here that got another leader than before.",
        value=turnover.leader_changes,
    )
    yield CounterMetricFamily(
        "raftlog_leadership_transfers",
        "Hand-overs of leaderships from here to other brokers that were begun.",
        value=leaders.transfers_begun,
    )
    yield CounterMetricFamily(
        "raftlog_leadership_transfers_failed",
        "Those that the other broker did not take in time.",
        value=leaders.transfers_failed,
    )


def _cluster(broker: Broker) -> Iterator[Metric]:
    state, leader = broker.measuring.metadata.state, broker.controller_id
    row = state.broker_of(broker.measuring.replica)
    yield InfoMetricFamily(
        "raftlog_build", "Release and node id.", {"version": raftlog.__version__, "node": str(broker.node_id)}
    )
    yield GaugeMetricFamily("raftlog_ready", "1 when the broker serves.", value=int(broker.is_ready))
    yield GaugeMetricFamily("raftlog_brokers", "Brokers that the controller knows.", value=len(state.brokers))
    yield GaugeMetricFamily("raftlog_topics", "Topics.", value=len(state.topics))
    yield GaugeMetricFamily(
        "raftlog_controller_leader",
        "Node id of the controller's leader, as far as it is known here; -1 for none.",
        value=_NOBODY if leader is None else leader,
    )
    yield GaugeMetricFamily(
        "raftlog_metadata_applied_index",
        "Entry of the controller's log up to which it was applied here.",
        value=state.applied_index,
    )
    yield GaugeMetricFamily("raftlog_feature_level", "Feature level of the cluster.", value=state.feature_level)
    yield GaugeMetricFamily(
        "raftlog_in_maintenance",
        "1 when this broker is in maintenance.",
        value=int(state.is_in_maintenance(broker.node_id)),
    )
    yield GaugeMetricFamily(
        "raftlog_draining",
        "1 when this broker's replicas are to move elsewhere.",
        value=int(row is not None and row.is_draining),
    )


_FIGURES: Final = {
    "partitions_led": ("Raft groups that this broker leads, the controller's among them.", "led"),
    "partitions_leaderless": ("Raft groups with a replica here and no known leader.", "leaderless"),
    "partitions_under_replicated": (
        "Raft groups led here with a voter that is away or not in sync.",
        "under_replicated",
    ),
    "partitions_moving": ("Raft groups led here that are getting other members.", "moving"),
    "partitions_asleep": ("Raft groups here without anything to do, which send no heartbeats.", "asleep"),
    "partitions_quarantined": ("Raft groups whose replica here is damaged and is being repaired.", "quarantined"),
    "partitions_unavailable": ("Partitions whose replica here is damaged or stopped.", "unavailable"),
    "pending_bytes": ("Bytes of records that wait for their append or sync.", "pending_bytes"),
    "waiting_fetches": ("Fetches that wait for records.", "waiting_fetches"),
    "forwards_waiting": ("Requests to leaders on other brokers that have no answer yet.", "forwarding"),
}


def figures_families(figures: Figures) -> Iterator[Metric]:
    """What was found when the groups were looked through."""
    for name, (text, field) in _FIGURES.items():
        yield GaugeMetricFamily(f"raftlog_{name}", text, value=getattr(figures, field))
    replicas = figures.replicas
    yield GaugeMetricFamily("raftlog_partitions", "Partitions with a replica here.", value=len(replicas))
    yield GaugeMetricFamily("raftlog_log_bytes", "Bytes of all logs.", value=sum(each.log_bytes for each in replicas))
    yield CounterMetricFamily("raftlog_forwards", "Requests to leaders on other brokers.", value=figures.forwarded)
