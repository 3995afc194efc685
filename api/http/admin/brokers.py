"""Brokers: their state; decommission, recommission, and maintenance, also of the broker that is asked."""

import asyncio
from typing import Final

from aiohttp import web

from raftlog.api.http.admin.parameters import expected_version, node_of
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.errors import RaftlogError, UnknownBroker
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.values.brokers import BrokerDescription, BrokerNamed, BrokerUuid, MaintenanceOrdered, MaintenanceStatus

_ASK_MS: Final = 1_500
"""Time that a row waits for the progress of a maintenance."""


class BrokerHandlers:
    """Brokers, their disks, decommission and maintenance."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/brokers", self.brokers)
        router.add("GET", "/v1/broker_uuids", self.uuids)
        router.add("GET", "/v1/brokers/{broker}", self.broker)
        router.add("GET", "/v1/brokers/{broker}/decommission", self.decommission_status)
        router.add("PUT", "/v1/brokers/{broker}/decommission", self.decommission, takes_body=False)
        router.add("PUT", "/v1/brokers/{broker}/recommission", self.recommission, takes_body=False)
        for pattern in ("/v1/brokers/{broker}/maintenance", "/v1/maintenance"):
            router.add("GET", pattern, self.maintenance)
            router.add("PUT", pattern, self.begin_maintenance, query=("expected_version", "timeout"), takes_body=False)
            router.add("DELETE", pattern, self.end_maintenance, query=("expected_version", "timeout"))

    async def brokers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        deadline = target.deadline()
        found = await self._broker.brokers(deadline=deadline)
        return value_answer(await asyncio.gather(*(self._shown(each, deadline) for each in found)))

    async def broker(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        number, deadline = node_of(target), target.deadline()
        for one in await self._broker.brokers(deadline=deadline):
            if one.node_id == number:
                return value_answer(await self._shown(one, deadline))
        raise UnknownBroker(f"there is no broker {number}")

    async def uuids(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        found = await self._broker.brokers(deadline=target.deadline())
        return value_answer([BrokerUuid(each.node_id, each.disk_uuid) for each in found])

    async def decommission_status(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        node = node_of(target)
        return value_answer(await self._broker.operations.brokers.decommission_status(node, deadline=target.deadline()))

    async def decommission(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        node = node_of(target)
        await self._broker.operations.brokers.decommission(node, deadline=target.deadline())
        return value_answer(BrokerNamed(node))

    async def recommission(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        node = node_of(target)
        await self._broker.operations.brokers.recommission(node, deadline=target.deadline())
        return value_answer(BrokerNamed(node))

    async def maintenance(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        found = await self._broker.operations.brokers.maintenance(self._node(target), deadline=target.deadline())
        return value_answer(found, version=found.version)

    async def begin_maintenance(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return await self._set_maintenance(request, target, is_on=True)

    async def end_maintenance(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return await self._set_maintenance(request, target, is_on=False)

    async def _set_maintenance(self, request: web.BaseRequest, target: Target, *, is_on: bool) -> web.StreamResponse:
        node = self._node(target)
        version = await self._broker.operations.brokers.set_maintenance(
            node, is_on, expected_version=expected_version(request, target), deadline=target.deadline()
        )
        return value_answer(MaintenanceOrdered(node, is_on, version), version=version)

    def _node(self, target: Target) -> int:
        """Return the broker of the path, or this one."""
        return node_of(target) if target.args else self._broker.node_id

    async def _shown(self, one: BrokerDescription, deadline: Deadline) -> BrokerDescription:
        """Ask a broker in maintenance for its progress, which must not hide the row."""
        if not one.in_maintenance:
            return one
        deadline = Deadline(min(deadline, deadline_in(_ASK_MS)))
        try:
            status = (await self._broker.operations.brokers.maintenance(one.node_id, deadline=deadline)).status
        except RaftlogError as error:
            status = MaintenanceStatus(draining=True, errors=True, reasons=[str(error)])
        return one.replaced(maintenance_status=status)
