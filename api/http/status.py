"""Handlers of the state of a broker and its cluster: readiness, health, cluster id, members, cluster view.

Members (this broker's view of gossip) and the cluster view are answered from memory, without a request to another
broker. Polls of the cluster view are cheap with `If-None-Match`. Other handlers for operators are in `admin`.
"""

from aiohttp import web

from raftlog.api.http.openapi.parts import string
from raftlog.api.http.server.answers import answer_with, value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint, parameter
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER, LISTED_TOPICS
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import Target
from raftlog.api.http.visible_answers import visible_health, visible_map
from raftlog.values.brokers import ClusterHealth, ClusterMembers, ClusterUuid, Readiness
from raftlog.values.cluster import ClusterView

_KNOWN = parameter("header", "If-None-Match", string(), "Tags of answers that the client has.")


class StatusHandlers(Handlers):
    """Handlers of /v1/status/ready and /v1/cluster/health_overview, /uuid and /members, and of /v1/cluster_view."""

    @HttpEndpoint(
        "GET /v1/status/ready",
        Readiness,
        (),
        text="It does.",
        fails=(),
        more={503: ("Starting, stopping, or out of file descriptors, with the `reason`.", Readiness)},
        is_open=True,
    )
    async def ready(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Check whether this broker is ready."""
        if not self._broker.is_ready:
            return value_answer(Readiness("booting"), status=503)
        shortage = self._broker.descriptor_shortage
        if shortage is not None:
            return value_answer(Readiness("no_file_descriptors", shortage), status=503)
        return value_answer(Readiness("ready", sync_method=self._broker.sync_method))

    @HttpEndpoint(
        "GET /v1/cluster/health_overview", ClusterHealth, is_open=True, permissions=(*DESCRIBE_CLUSTER, *LISTED_TOPICS)
    )
    async def health(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the health of the cluster."""
        found, visible = await self._broker.health(deadline=target.deadline()), self._visibility(request)
        return value_answer(visible_health(found, visible, self._broker.topics()) if visible.is_limited else found)

    @HttpEndpoint("GET /v1/cluster/uuid", ClusterUuid, (), is_open=True, permissions=DESCRIBE_CLUSTER)
    async def cluster_uuid(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the cluster's id."""
        return value_answer(ClusterUuid(self._broker.cluster_id))

    @HttpEndpoint(
        "GET /v1/cluster/members",
        ClusterMembers,
        (),
        text="Registered brokers, and others that gossip.",
        fails=(503,),
        permissions=DESCRIBE_CLUSTER,
    )
    async def members(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the brokers in this broker's view of gossip."""
        address = self._broker.gossip_address
        return value_answer(ClusterMembers(self._broker.node_id, address, self._broker.members()))

    @HttpEndpoint(
        "GET /v1/cluster_view",
        ClusterView,
        (_KNOWN,),
        text="The picture.",
        headers={"ETag": string("Tag of the answer's content.")},
        fails=(503,),
        more={304: ("Unchanged: the tag is in `If-None-Match`.", None)},
        permissions=LISTED_TOPICS,
    )
    async def cluster_view(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return this broker's view of brokers and partitions, at most a second old."""
        picture, visible = await self._broker.cluster_view(), self._visibility(request)
        if visible.is_limited:
            picture = await visible_map(picture, visible)
        tag = f'"{picture.tag}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if _has_tag(header(request, "If-None-Match") or "", tag):
            return web.Response(status=304, headers=headers)
        return answer_with(picture.body, JSON_TYPE, headers)


def _has_tag(known: str, tag: str) -> bool:
    """Return whether the header `If-None-Match` (`known`) contains the present `ETag`."""
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in known.split(","))
