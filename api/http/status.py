"""For operators and their programs: readiness, health, the cluster's id. The rest is in `admin`."""

from aiohttp import web

from raftlog.api.http.admin import shapes
from raftlog.api.http.admin.reading import deadline_of
from raftlog.api.http.server.answers import json_answer
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker


class StatusHandlers:
    """GET /v1/status/ready, /v1/cluster/health_overview, /v1/cluster/uuid."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/status/ready", self.ready)
        router.add("GET", "/v1/cluster/health_overview", self.health)
        router.add("GET", "/v1/cluster/uuid", self.uuid)

    async def ready(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if not self._broker.is_ready:
            return json_answer({"status": "booting"}, 503)
        shortage = self._broker.node.driver.descriptors.shortage
        if shortage is not None:
            return json_answer({"status": "no_file_descriptors", "reason": shortage}, 503)
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
                "lagging_partitions": list(health.lagging),
                "lagging_count": health.lagging_count,
                "electing_partitions": list(health.electing),
                "electing_count": health.electing_count,
            }
        )

    async def uuid(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return json_answer({"cluster_uuid": self._broker.cluster_id})
