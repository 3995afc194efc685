"""Brokers: who they are and how they are; taking one out of the cluster, and keeping it after all."""

import asyncio
from typing import Any, Final

from aiohttp import web

from raftlog.api.http.admin import shapes
from raftlog.api.http.admin.reading import deadline_of, node_of
from raftlog.api.http.server.answers import json_answer
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.errors import RaftlogError, UnknownBroker
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.results import BrokerDescription

_ASK_MS: Final = 1_500
"""For so long a row waits to say how far a maintenance is."""


class BrokerHandlers:
    """/v1/brokers, /v1/broker_uuids, /v1/brokers/{id} and …/decommission, …/recommission."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/brokers", self.brokers, query=("timeout",))
        router.add("GET", "/v1/broker_uuids", self.uuids, query=("timeout",))
        router.add("GET", "/v1/brokers/{broker}", self.broker, query=("timeout",))
        router.add("GET", "/v1/brokers/{broker}/decommission", self.decommission_status, query=("timeout",))
        router.add("PUT", "/v1/brokers/{broker}/decommission", self.decommission, query=("timeout",), takes_body=False)
        router.add("PUT", "/v1/brokers/{broker}/recommission", self.recommission, query=("timeout",), takes_body=False)

    async def brokers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        deadline = deadline_of(target)
        found = await self._broker.brokers(deadline=deadline)
        return json_answer(await asyncio.gather(*(self._shown(each, deadline) for each in found)))

    async def broker(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        number, deadline = node_of(target), deadline_of(target)
        for one in await self._broker.brokers(deadline=deadline):
            if one.node_id == number:
                return json_answer(await self._shown(one, deadline))
        raise UnknownBroker(f"there is no broker {number}")

    async def uuids(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        found = await self._broker.brokers(deadline=deadline_of(target))
        return json_answer([{"node_id": each.node_id, "uuid": each.disk_uuid} for each in found])

    async def decommission_status(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        found = await self._broker.operations.decommission_status(node_of(target), deadline=deadline_of(target))
        return json_answer(shapes.decommission(found))

    async def decommission(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        node = node_of(target)
        await self._broker.operations.decommission(node, deadline=deadline_of(target))
        return json_answer({"node_id": node})

    async def recommission(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        node = node_of(target)
        await self._broker.operations.recommission(node, deadline=deadline_of(target))
        return json_answer({"node_id": node})

    async def _shown(self, one: BrokerDescription, deadline: Deadline) -> dict[str, Any]:
        """How far a maintenance is is asked only of who is in maintenance; it must not hide the row."""
        status = shapes.NO_MAINTENANCE
        deadline = Deadline(min(deadline, deadline_in(_ASK_MS)))
        if one.in_maintenance:
            try:
                status = shapes.maintenance(await self._broker.operations.maintenance(one.node_id, deadline=deadline))
            except RaftlogError as error:
                status = shapes.NO_MAINTENANCE | {"draining": True, "errors": True, "reasons": [str(error)]}
        return {**_broker(one), "maintenance_status": status}


def _broker(one: BrokerDescription) -> dict[str, Any]:
    host, _, port = one.rpc.rpartition(":")
    level_min, level_max = one.feature_levels
    return {
        "node_id": one.node_id,
        "host": one.host,
        "rack": one.rack,
        "http_address": one.http or None,
        "internal_rpc_address": host.strip("[]") or None,
        "internal_rpc_port": int(port) if port else None,
        "version": one.version,
        "membership_status": "draining" if one.is_draining else "active",
        "disk_uuid": one.disk_uuid,
        "is_alive": one.is_alive,
        "disk_space": [one.disk] if one.disk is not None else [],
        "boot_epoch": one.boot_epoch,
        "uptime_s": one.uptime_s,
        "feature_levels": {"min": level_min, "max": level_max},
        "row_version": one.version_of_row,
        "problem": one.problem,
    }
