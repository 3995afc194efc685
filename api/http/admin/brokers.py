"""Handlers for brokers: state, decommission, recommission and maintenance mode."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from aiohttp import web

from raftlog.api.http.admin.parameters import expected_version, node_of
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import ETAG, ORDERED, VERSIONED, HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import ALTER_CLUSTER, DESCRIBE_CLUSTER
from raftlog.api.http.server.routing import Target
from raftlog.api.http.visible_answers import visible_brokers
from raftlog.errors import RaftlogError, UnknownBroker
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.values.brokers import (
    BrokerDescription,
    BrokerReference,
    BrokerUuid,
    Decommission,
    Maintenance,
    MaintenanceStatus,
    RequestedMaintenance,
)

_BROKER: Final = "/v1/brokers/{broker}"
_OWN: Final = "the broker that is asked"
_ORDER: Final = partial(
    HttpEndpoint, found=RequestedMaintenance, query=VERSIONED, text=ORDERED, permissions=ALTER_CLUSTER
)
_PROGRESS: Final = partial(HttpEndpoint, found=Maintenance, headers=ETAG, permissions=DESCRIBE_CLUSTER)
_ASK_MS: Final = 1_500
"""Milliseconds that the description of a broker waits for the progress of a maintenance."""


class BrokerHandlers(Handlers):
    """Handlers for the state of brokers, their disks, decommission and maintenance mode."""

    @HttpEndpoint("GET /v1/brokers", list[BrokerDescription], permissions=DESCRIBE_CLUSTER)
    async def brokers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the state of all brokers."""
        deadline = target.deadline()
        found = await self._brokers(request, deadline)
        return value_answer(
            await asyncio.gather(*(with_maintenance_status(self._broker, each, deadline) for each in found))
        )

    @HttpEndpoint(f"GET {_BROKER}", BrokerDescription, permissions=DESCRIBE_CLUSTER)
    async def broker(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the state of one broker."""
        number, deadline = node_of(target), target.deadline()
        for one in await self._brokers(request, deadline):
            if one.node_id == number:
                return value_answer(await with_maintenance_status(self._broker, one, deadline))
        raise UnknownBroker(f"there is no broker {number}")

    @HttpEndpoint("GET /v1/broker_uuids", list[BrokerUuid], permissions=DESCRIBE_CLUSTER)
    async def broker_uuids(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the disk ids of all brokers."""
        found = await self._broker.brokers(deadline=target.deadline())
        return value_answer([BrokerUuid(each.node_id, each.disk_uuid) for each in found])

    @HttpEndpoint(f"GET {_BROKER}/decommission", Decommission, permissions=DESCRIBE_CLUSTER)
    async def decommission_status(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the progress of a broker's decommission."""
        node = node_of(target)
        return value_answer(await self._broker.operations.brokers.decommission_status(node, deadline=target.deadline()))

    @HttpEndpoint(f"PUT {_BROKER}/decommission", BrokerReference, text=ORDERED, permissions=ALTER_CLUSTER)
    async def decommission(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Move all replicas of a broker to others, then remove it permanently."""
        node = node_of(target)
        await self._broker.operations.brokers.decommission(node, deadline=target.deadline())
        return value_answer(BrokerReference(node))

    @HttpEndpoint(f"PUT {_BROKER}/recommission", BrokerReference, text=ORDERED, permissions=ALTER_CLUSTER)
    async def recommission(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Cancel the decommission of a broker."""
        node = node_of(target)
        await self._broker.operations.brokers.recommission(node, deadline=target.deadline())
        return value_answer(BrokerReference(node))

    @_PROGRESS(
        "GET /v1/maintenance", name="ownMaintenance", summary=f"Return the progress of the maintenance of {_OWN}."
    )
    @_PROGRESS(f"GET {_BROKER}/maintenance")
    async def maintenance(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the progress of a broker's maintenance mode."""
        found = await self._broker.operations.brokers.maintenance(
            self._node_of_path(target), deadline=target.deadline()
        )
        return value_answer(found, version=found.version)

    @_ORDER("PUT /v1/maintenance", name="ownMaintenanceBegin", summary=f"Begin the maintenance of {_OWN}.")
    @_ORDER(f"PUT {_BROKER}/maintenance")
    async def maintenance_begin(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Put a broker into maintenance mode."""
        return await self._set_maintenance(request, target, is_on=True)

    @_ORDER("DELETE /v1/maintenance", name="ownMaintenanceEnd", summary=f"End the maintenance of {_OWN}.")
    @_ORDER(f"DELETE {_BROKER}/maintenance")
    async def maintenance_end(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """End the maintenance mode of a broker."""
        return await self._set_maintenance(request, target, is_on=False)

    async def _set_maintenance(self, request: web.BaseRequest, target: Target, *, is_on: bool) -> web.StreamResponse:
        """Set or end the maintenance mode of the broker in the path; answer with the new version."""
        node = self._node_of_path(target)
        version = await self._broker.operations.brokers.set_maintenance(
            node, is_on, expected_version=expected_version(request, target), deadline=target.deadline()
        )
        return value_answer(RequestedMaintenance(node, is_on, version), version=version)

    def _node_of_path(self, target: Target) -> int:
        """Return the node id in the path, or that of this broker if the path has none."""
        return node_of(target) if target.args else self._broker.node_id

    async def _brokers(self, request: web.BaseRequest, deadline: Deadline) -> Sequence[BrokerDescription]:
        """Return all brokers, without problems of partitions that the caller may not describe."""
        found, visible = await self._broker.brokers(deadline=deadline), self._visibility(request)
        return visible_brokers(found, visible, self._broker.topics()) if visible.is_limited else found


async def with_maintenance_status(
    broker: Broker, description: BrokerDescription, deadline: Deadline
) -> BrokerDescription:
    """Return the description of a broker; if it is in maintenance mode, with the progress of the maintenance.

    If the progress cannot be read within `_ASK_MS`, the status has the error as its reason."""
    if not description.in_maintenance:
        return description
    deadline = Deadline(min(deadline, deadline_in(_ASK_MS)))
    try:
        status = (await broker.operations.brokers.maintenance(description.node_id, deadline=deadline)).status
    except RaftlogError as error:
        status = MaintenanceStatus(draining=True, errors=True, reasons=[str(error)])
    return description.copy_with(maintenance_status=status)
