"""For operators and their programs: readiness, health, the cluster's id, metrics. The rest is in `admin`."""

import importlib
from typing import Any

from aiohttp import web

from raftlog.api.http.admin import shapes
from raftlog.api.http.admin.reading import deadline_of
from raftlog.api.http.answers import answer, json_answer
from raftlog.api.http.measured import HttpMeasured
from raftlog.api.http.routing import Router, Target
from raftlog.partitions.broker import Broker


class StatusHandlers:
    """GET /v1/status/ready, /v1/cluster/health_overview, /v1/cluster/uuid, /metrics."""

    def __init__(self, broker: Broker, measured: HttpMeasured) -> None:
        self._broker = broker
        self._measured = measured
        self._metrics: Any = None

    def add_to(self, router: Router) -> None:
        router.add("GET", "/v1/status/ready", self.ready)
        router.add("GET", "/v1/cluster/health_overview", self.health)
        router.add("GET", "/v1/cluster/uuid", self.uuid)
        router.add("GET", "/metrics", self.metrics)

    async def ready(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if not self._broker.is_ready:
            return json_answer({"status": "booting"}, 503)
        return json_answer({"status": "ready"})

    async def health(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        health = await self._broker.health(deadline=deadline_of(target))
        return json_answer(
            {
                "is_healthy": health.is_healthy,
                "unhealthy_reasons": list(health.reasons),
                "controller_id": shapes.leader(health.controller_id),
                "all_nodes": list(health.all_nodes),
                "nodes_down": list(health.nodes_down),
                "leaderless_partitions": list(health.leaderless),
                "leaderless_count": health.leaderless_count,
                "under_replicated_partitions": list(health.under_replicated),
                "under_replicated_count": health.under_replicated_count,
                "nodes_in_maintenance": list(health.nodes_in_maintenance),
                "nodes_draining": list(health.nodes_draining),
                "reconfigurations_count": health.reconfigurations_count,
            }
        )

    async def uuid(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return json_answer({"cluster_uuid": self._broker.cluster_id})

    async def metrics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if self._metrics is None:
            # prometheus_client takes 60 ms to import, which a start should not pay for.
            module = importlib.import_module("raftlog.api.http.metrics")
            self._metrics = module.Metrics(self._broker, self._measured)
        body, content_type = await self._metrics.render()
        return answer(body, content_type)
