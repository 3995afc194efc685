"""Reassignments and leadership transfers: replicas of partitions, pending reassignments, and cancellation."""

from aiohttp import web

from raftlog.api.codes import INVALID_JSON
from raftlog.api.http.admin.parameters import (
    expected_version,
    node_id,
    node_of,
    place_of,
)
from raftlog.api.http.requests import ReplicasBody
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.values.placement import LeaderNow, MovesPlanned, Ordered

_PARTITION = "/v1/partitions/{namespace}/{topic}/{partition}"


class MoveHandlers:
    """Handlers for reassignments and leadership transfers. Local replicas are those of the broker that answers."""

    def __init__(self, broker: Broker, bodies: BodyReader) -> None:
        self._broker, self._bodies = broker, bodies

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/v1/partitions", self.local_replicas)
        router.add("GET", "/v1/partitions/local_summary", self.local_summary)
        router.add("GET", "/v1/partitions/reconfigurations", self.reconfigurations)
        router.add("POST", "/v1/partitions/rebalance", self.rebalance, takes_body=False)
        router.add("POST", _PARTITION + "/replicas", self.set_replicas, query=("expected_version", "timeout"))
        router.add(
            "POST",
            _PARTITION + "/transfer_leadership",
            self.transfer_leadership,
            query=("target", "timeout"),
            takes_body=False,
        )
        router.add("POST", _PARTITION + "/cancel_reconfiguration", self.cancel_one, takes_body=False)
        router.add(
            "POST",
            "/v1/brokers/{broker}/cancel_partition_moves",
            self.cancel_of_broker,
            takes_body=False,
        )
        router.add("POST", "/v1/cluster/cancel_reconfigurations", self.cancel_all, takes_body=False)
        router.add("GET", "/v1/cluster/partition_balancer/status", self.balancer)

    async def local_replicas(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.operations.replicas.local_replicas(deadline=target.deadline()))

    async def local_summary(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.operations.replicas.local_summary(deadline=target.deadline()))

    async def reconfigurations(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.operations.partitions.reconfigurations(deadline=target.deadline()))

    async def rebalance(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(MovesPlanned(await self._broker.operations.balancing.rebalance(deadline=target.deadline())))

    async def set_replicas(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic, partition = place_of(target)
        expected, deadline = expected_version(request, target), target.deadline()
        rows = await self._bodies.read(request, ReplicasBody, beyond=INVALID_JSON)
        version = await self._broker.operations.partitions.set_replicas(
            topic, partition, [each.node_id for each in rows], expected_version=expected, deadline=deadline
        )
        return value_answer(Ordered(version), version=version)

    async def transfer_leadership(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic, partition = place_of(target)
        text = target.query.get("target")
        heir = None if text is None else node_id(text)
        leader = await self._broker.operations.leadership.transfer_leadership(
            topic, partition, heir, deadline=target.deadline()
        )
        return value_answer(LeaderNow(leader))

    async def cancel_one(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic, partition = place_of(target)
        version = await self._broker.operations.partitions.cancel_reconfiguration(
            topic, partition, deadline=target.deadline()
        )
        return value_answer(Ordered(version), version=version)

    async def cancel_of_broker(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(
            await self._broker.operations.partitions.cancel_moves(node_of(target), deadline=target.deadline())
        )

    async def cancel_all(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.operations.partitions.cancel_moves(deadline=target.deadline()))

    async def balancer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(await self._broker.operations.balancing.balancer_status(deadline=target.deadline()))
