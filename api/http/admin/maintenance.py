"""/v1/brokers/{id}/maintenance, and /v1/maintenance of the broker that is asked."""

from aiohttp import web

from raftlog.api.http.admin.reading import expected_version, node_of
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.values.brokers import MaintenanceOrdered


class MaintenanceHandlers:
    """GET, PUT and DELETE of both."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        for pattern in ("/v1/brokers/{broker}/maintenance", "/v1/maintenance"):
            router.add("GET", pattern, self.status)
            router.add("PUT", pattern, self.begin, query=("expected_version", "timeout"), takes_body=False)
            router.add("DELETE", pattern, self.end, query=("expected_version", "timeout"))

    def _node(self, target: Target) -> int:
        return node_of(target) if target.args else self._broker.node_id

    async def status(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        found = await self._broker.operations.brokers.maintenance(self._node(target), deadline=target.deadline())
        return value_answer(found, version=found.version)

    async def begin(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return await self._set(request, target, is_on=True)

    async def end(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return await self._set(request, target, is_on=False)

    async def _set(self, request: web.BaseRequest, target: Target, *, is_on: bool) -> web.StreamResponse:
        node = self._node(target)
        version = await self._broker.operations.brokers.set_maintenance(
            node, is_on, expected_version=expected_version(request, target), deadline=target.deadline()
        )
        return value_answer(MaintenanceOrdered(node, is_on, version), version=version)
