"""Who is up and what is where, for operators and for clients that find partitions themselves.

Answered from what this broker knows, without asking another one: the members as gossip has them, and a picture of the
cluster that is cheap to poll, by `If-None-Match`.
"""

from aiohttp import web

from raftlog.api.http.server.answers import answer_with, value_answer
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.values.brokers import ClusterMembers


class MemberHandlers:
    """GET /v1/cluster/members, /v1/cluster_view."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/cluster/members", self.members, query=())
        router.add("GET", "/v1/cluster_view", self.view, query=())

    async def members(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        address = self._broker.gossip_address
        return value_answer(ClusterMembers(self._broker.node_id, address, self._broker.members()))

    async def view(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        picture = await self._broker.cluster_view()
        tag = f'"{picture.tag}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if _has(header(request, "If-None-Match") or "", tag):
            return web.Response(status=304, headers=headers)
        return answer_with(picture.body, JSON_TYPE, headers)


def _has(known: str, tag: str) -> bool:
    """Whether the caller says that it has this already."""
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in known.split(","))
