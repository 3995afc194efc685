"""How results of operators' questions look as JSON."""

from collections.abc import Iterable, Sequence
from typing import Any

from raftlog.api.http.admin.reading import NAMESPACE
from raftlog.api.http.topics import NO_LEADER
from raftlog.partitions.operations.results import (
    BalancerStatus,
    BrokerConfig,
    ConfigEntry,
    Decommission,
    Levels,
    LocalReplica,
    Maintenance,
    Move,
)
from raftlog.types import TopicPartition

Json = dict[str, Any]
POLICY = "full_local_retention"
"""Everything that retention keeps is moved; there is no other way to move a replica."""


NO_MAINTENANCE: Json = {
    "draining": False,
    "finished": False,
    "errors": False,
    "partitions": 0,
    "eligible": 0,
    "transferring": 0,
    "failed": 0,
    "reasons": [],
}
"""Of a broker that is not in maintenance."""


def maintenance(found: Maintenance) -> Json:
    """Redpanda's members, and why it does not go on."""
    return {
        "draining": found.draining,
        "finished": found.finished,
        "errors": found.errors,
        "partitions": found.partitions,
        "eligible": found.eligible,
        "transferring": found.transferring,
        "failed": found.failed,
        "reasons": list(found.reasons),
    }


def decommission(found: Decommission) -> Json:
    return {
        "finished": found.finished,
        "replicas_left": found.replicas_left,
        "bytes_left": found.bytes_left,
        "allocation_failures": list(found.allocation_failures),
        "partitions": [_leaving(each, found.node_id) for each in found.partitions],
        "reason": found.reason,
    }


def _leaving(move: Move, node: int) -> Json:
    """A move away from a broker. `moving_to` is who is new; null while nobody is."""
    new = [each for each in move.to_nodes if each not in move.from_nodes]
    return {
        **_place(move.topic, move.partition),
        "moving_to": _replica(new[0]) if new and node not in move.to_nodes else None,
        "bytes_left_to_move": move.bytes_left,
        "bytes_moved": move.bytes_moved,
        "partition_size": move.partition_bytes,
        "bytes_per_s": move.bytes_per_s,
        "reconfiguration_policy": POLICY,
        "reason": move.reason,
    }


def reconfiguration(move: Move) -> Json:
    return {
        **_place(move.topic, move.partition),
        "previous_replicas": replicas(move.from_nodes),
        "current_replicas": replicas(move.to_nodes),
        "learners": list(move.learners),
        "bytes_left_to_move": move.bytes_left,
        "bytes_moved": move.bytes_moved,
        "partition_size": move.partition_bytes,
        "bytes_per_s": move.bytes_per_s,
        "reconfiguration_policy": POLICY,
        "reason": move.reason,
        "version": move.version,
    }


def cancelled(places: Iterable[TopicPartition]) -> list[Json]:
    """Redpanda's list of results; a move that could not be cancelled is an error of the whole call."""
    return [{**_place(place.topic, place.partition), "result": "success"} for place in places]


def local_replica(found: LocalReplica) -> Json:
    return {
        **_place(found.topic, found.partition),
        "core": 0,
        "leader_id": leader(found.leader),
        "is_leader": found.is_leader,
        "is_under_replicated": found.is_under_replicated,
        "replicas": replicas(found.replicas),
        "bytes": found.bytes,
        "status": found.status,
    }


def balancer(found: BalancerStatus) -> Json:
    last_s = found.seconds_since_last_tick
    return {
        "status": found.status,
        "mode": found.mode,
        "violations": {
            "unavailable_nodes": list(found.unavailable_nodes),
            "over_disk_limit_nodes": list(found.over_disk_limit_nodes),
        },
        "seconds_since_last_tick": None if last_s is None else round(last_s, 3),
        "current_reassignments_count": found.current_reassignments_count,
        "reasons": list(found.reasons),
    }


def property_of(entry: ConfigEntry) -> Json:
    """A setting in the schema."""
    return {
        "description": entry.doc,
        "type": entry.type,
        "default": entry.default,
        "allowed": entry.allowed,
        "nullable": False,
        "needs_restart": False,
    }


def applied(found: BrokerConfig) -> Json:
    """Nothing ever waits for a restart."""
    return {"node_id": found.node_id, "config_version": found.version, "restart": False}


def features(found: Levels) -> Json:
    return {
        "feature_level": found.feature_level,
        "highest_known_by_all": found.highest_known_by_all,
        "is_finished": found.feature_level >= found.highest_known_by_all,
        "brokers": [each._asdict() for each in found.brokers],
        "absent_seeds": list(found.absent_seeds),
    }


def leader(node: int | None) -> int:
    return NO_LEADER if node is None else node


def replicas(nodes: Sequence[int]) -> list[Json]:
    return [_replica(node) for node in nodes]


def _replica(node: int) -> Json:
    return {"node_id": node, "core": 0}


def _place(topic: str, partition: int) -> Json:
    return {"ns": NAMESPACE, "topic": topic, "partition": partition}
