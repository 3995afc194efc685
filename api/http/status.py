"""For operators and their programs: readiness, health, the cluster's id. The rest is in `admin`."""

from aiohttp import web

from raftlog.api.http.admin.reading import deadline_of
from raftlog.api.http.server.answers import json_answer, value_answer
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
        shortage = self._broker.descriptor_shortage
        if shortage is not None:
            return json_answer({"status": "no_file_descriptors", "reason": shortage}, 503)
        return json_answer({"status": "ready"})

    async def health(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.health(deadline=deadline_of(target)))

    async def uuid(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return json_answer({"cluster_uuid": self._broker.cluster_id})
