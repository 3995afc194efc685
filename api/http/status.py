"""For operators and their programs: readiness, health, the cluster's id, its members and its picture.

Members (as gossip has them) and the picture are answered from the state of this broker, without a request to another
one; the picture is cheap to poll, by `If-None-Match`. The rest is in `admin`.
"""

from aiohttp import web

from raftlog.api.http.server.answers import answer_with, value_answer
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.values.brokers import ClusterMembers, ClusterUuid, Readiness


class StatusHandlers:
    """GET /v1/status/ready, /v1/cluster/health_overview, /v1/cluster/uuid, /v1/cluster/members, /v1/cluster_view."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/status/ready", self.ready, query=None)
        router.add("GET", "/v1/cluster/health_overview", self.health, query=None)
        router.add("GET", "/v1/cluster/uuid", self.uuid, query=None)
        router.add("GET", "/v1/cluster/members", self.members, query=())
        router.add("GET", "/v1/cluster_view", self.view, query=())

    async def ready(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if not self._broker.is_ready:
            return value_answer(Readiness("booting"), status=503)
        shortage = self._broker.descriptor_shortage
        if shortage is not None:
            return value_answer(Readiness("no_file_descriptors", shortage), status=503)
        return value_answer(Readiness("ready", sync_method=self._broker.sync_method))

    async def health(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.health(deadline=target.deadline()))

    async def uuid(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(ClusterUuid(self._broker.cluster_id))

    async def members(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        address = self._broker.gossip_address
        return value_answer(ClusterMembers(self._broker.node_id, address, self._broker.members()))

    async def view(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        picture = await self._broker.cluster_view()
        tag = f'"{picture.tag}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if _matches(header(request, "If-None-Match") or "", tag):
            return web.Response(status=304, headers=headers)
        return answer_with(picture.body, JSON_TYPE, headers)


def _matches(known: str, tag: str) -> bool:
    """Return whether the `ETag` of the caller is the present one."""
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in known.split(","))
