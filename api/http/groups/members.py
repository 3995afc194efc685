"""Who is up and what is where, for operators and for clients that find partitions themselves.

Answered from what this broker knows, without asking another one: the members as gossip has them, and a picture of the
cluster that is cheap to poll, by `If-None-Match`.
"""

from typing import Any

from aiohttp import web

from raftlog.api.http.server.answers import answer_with, json_answer
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.partitions.gossip.members import ClusterMember


class MemberHandlers:
    """GET /v1/cluster/members, /v1/cluster_view."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/cluster/members", self.members)
        router.add("GET", "/v1/cluster_view", self.view)

    async def members(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        members = self._broker.members()
        return json_answer(
            {
                "node_id": self._broker.node_id,
                "gossip_address": self._broker.gossip.address or None,
                "members": [_member(member) for member in members],
            }
        )

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


def _member(one: ClusterMember) -> dict[str, Any]:
    return {
        "node_id": one.node_id,
        "state": one.state,
        "state_s": None if one.state_s is None else round(one.state_s, 1),
        "is_registered": one.is_registered,
        "disk_uuid": one.disk_uuid,
        "incarnation": one.incarnation,
        "http_address": one.http or None,
        "rpc_address": one.rpc or None,
        "gossip_address": one.gossip or None,
        "host": one.host or None,
        "rack": one.rack or None,
        "version": one.version,
        "load": None if one.load is None else one.load._asdict(),
    }
