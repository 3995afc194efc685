"""For operators, in the shapes of Redpanda's admin API: readiness, brokers, partitions, health, metrics."""

import importlib
from typing import Any

from aiohttp import web

from raftlog.api.codes import NOT_FOUND
from raftlog.api.http.answers import answer, json_answer
from raftlog.api.http.measured import HttpMeasured
from raftlog.api.http.problems import HttpProblem
from raftlog.api.http.records_produce import timeout_ms
from raftlog.api.http.routing import Router, Target, partition_number, whole_number
from raftlog.api.http.topics import NO_LEADER, find_partition
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.results import BrokerDescription, PartitionDescription

_NAMESPACE = "kafka"


class StatusHandlers:
    """GET /v1/status/ready, /v1/brokers, /v1/partitions, /v1/cluster/…, /metrics."""

    def __init__(self, broker: Broker, measured: HttpMeasured) -> None:
        self._broker = broker
        self._measured = measured
        self._metrics: Any = None

    def add_to(self, router: Router) -> None:
        router.add("GET", "/v1/status/ready", self.ready)
        router.add("GET", "/v1/brokers", self.brokers)
        router.add("GET", "/v1/brokers/{broker}", self.broker)
        router.add("GET", "/v1/cluster/health_overview", self.health)
        router.add("GET", "/v1/cluster/uuid", self.uuid)
        router.add("GET", "/v1/partitions/{namespace}/{topic}", self.partitions)
        router.add("GET", "/v1/partitions/{namespace}/{topic}/{partition}", self.partition)
        router.add("GET", "/metrics", self.metrics)

    async def ready(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if not self._broker.is_ready:
            return json_answer({"status": "booting"}, 503)
        return json_answer({"status": "ready"})

    async def brokers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return json_answer([_broker(one) for one in await self._broker.brokers(deadline=deadline_of(target))])

    async def broker(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        number = whole_number(target.args[0], "the broker", 0, (1 << 31) - 1)
        for one in await self._broker.brokers(deadline=deadline_of(target)):
            if one.node_id == number:
                return json_answer(_broker(one))
        raise HttpProblem(NOT_FOUND, f"there is no broker {number}")

    async def health(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        health = await self._broker.health(deadline=deadline_of(target))
        return json_answer(
            {
                "is_healthy": health.is_healthy,
                "unhealthy_reasons": list(health.reasons),
                "controller_id": NO_LEADER if health.controller_id is None else health.controller_id,
                "all_nodes": list(health.all_nodes),
                "nodes_down": list(health.nodes_down),
                "leaderless_partitions": list(health.leaderless),
                "leaderless_count": health.leaderless_count,
                "under_replicated_partitions": list(health.under_replicated),
                "under_replicated_count": health.under_replicated_count,
            }
        )

    async def uuid(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return json_answer({"cluster_uuid": self._broker.cluster_id})

    async def partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic = topic_in_namespace(target)
        described = await self._broker.describe_topic(topic, deadline=deadline_of(target))
        return json_answer([_partition(topic, one) for one in described.partitions])

    async def partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic = topic_in_namespace(target)
        number = str(partition_number(target.args[2]))
        return json_answer(_partition(topic, await find_partition(self._broker, topic, number, deadline_of(target))))

    async def metrics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if self._metrics is None:
            # prometheus_client takes 60 ms to import, which a start should not pay for.
            module = importlib.import_module("raftlog.api.http.metrics")
            self._metrics = module.Metrics(self._broker, self._measured)
        body, content_type = await self._metrics.render()
        return answer(body, content_type)


def deadline_of(target: Target) -> Deadline:
    return deadline_in(timeout_ms(target))


def topic_in_namespace(target: Target) -> str:
    """The topic of a path that begins with a namespace; there is one namespace."""
    namespace, topic = target.args[:2]
    if namespace != _NAMESPACE:
        raise HttpProblem(NOT_FOUND, f"there is no namespace {namespace!r}; topics are in {_NAMESPACE!r}")
    return topic


def _broker(one: BrokerDescription) -> dict[str, Any]:
    host, _, port = one.rpc.rpartition(":")
    return {
        "node_id": one.node_id,
        "host": one.host,
        "http_address": one.http or None,
        "internal_rpc_address": host.strip("[]") or None,
        "internal_rpc_port": int(port) if port else None,
        "version": one.version,
        "membership_status": "active",
        "disk_uuid": one.disk_uuid,
        "is_alive": one.is_alive,
        "disk_space": [one.disk] if one.disk is not None else [],
        "problem": one.problem,
    }


def _replica(node: int, one: PartitionDescription) -> dict[str, Any]:
    """What it lacks is null where the leader does not know it."""
    is_in_sync = node in one.in_sync
    lag = next((each for each in one.behind if each.node_id == node), None)
    unknown = 0 if is_in_sync else None
    return {
        "node_id": node,
        "core": 0,
        "in_sync": is_in_sync,
        "entries_behind": lag.entries if lag else unknown,
        "bytes_behind": lag.bytes if lag else unknown,
        "catch_up_bytes_per_s": lag.bytes_per_s if lag else 0,
        "problem": one.damaged.get(node),
    }


def _partition(topic: str, one: PartitionDescription) -> dict[str, Any]:
    return {
        "ns": _NAMESPACE,
        "topic": topic,
        "partition_id": one.partition,
        "status": "done" if one.problem is None else "failed",
        "leader_id": NO_LEADER if one.leader is None else one.leader,
        "replicas": [_replica(node, one) for node in one.replicas],
        "leader_epoch": one.leader_epoch,
        "high_watermark": one.high_watermark,
        "log_start_offset": one.log_start_offset,
        "problem": one.problem,
    }
