"""For operators and their programs: readiness, health, the cluster's id. The rest is in `admin`."""

from aiohttp import web

from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.values.brokers import ClusterUuid, Readiness


class StatusHandlers:
    """GET /v1/status/ready, /v1/cluster/health_overview, /v1/cluster/uuid."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/status/ready", self.ready, query=None)
        router.add("GET", "/v1/cluster/health_overview", self.health, query=None)
        router.add("GET", "/v1/cluster/uuid", self.uuid, query=None)

    async def ready(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if not self._broker.is_ready:
            return value_answer(Readiness("booting"), status=503)
        shortage = self._broker.descriptor_shortage
        if shortage is not None:
            return value_answer(Readiness("no_file_descriptors", shortage), status=503)
        return value_answer(Readiness("ready"))

    async def health(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.health(deadline=target.deadline()))

    async def uuid(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(ClusterUuid(self._broker.cluster_id))
