"""Handlers for reassignments and leadership transfers."""

from aiohttp import web

from raftlog.api.codes import INVALID_JSON
from raftlog.api.http.admin.parameters import (
    expected_version,
    node_id,
    node_of,
    place_of,
)
from raftlog.api.http.openapi.parts import NODE
from raftlog.api.http.requests import ReplicasBody
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import ORDERED, VERSIONED, HttpEndpoint, in_query
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import ALTER_CLUSTER, DESCRIBE_CLUSTER, LISTED_TOPICS
from raftlog.api.http.server.routing import Target
from raftlog.values.placement import (
    AssignmentVersion,
    BalancerStatus,
    CancelledReassignment,
    CurrentLeader,
    LocalReplica,
    LocalSummary,
    PlannedMoves,
    Reconfiguration,
)

_PARTITIONS = "/v1/partitions"
_PARTITION = _PARTITIONS + "/{namespace}/{topic}/{partition}"
_TARGET = in_query("target", NODE, "Node id of the next leader; without it, any that can lead.")


class MoveHandlers(Handlers):
    """Handlers for reassignments and leadership transfers; local replicas are those of the answering broker."""

    @HttpEndpoint(f"GET {_PARTITIONS}", list[LocalReplica], permissions=(*DESCRIBE_CLUSTER, *LISTED_TOPICS))
    async def local_replicas(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the replicas on this broker."""
        visible = self._visibility(request)
        replicas = await self._broker.operations.replicas.local_replicas(deadline=target.deadline())
        return value_answer([each for each in replicas if visible.has_topic(each.topic)])

    @HttpEndpoint(f"GET {_PARTITIONS}/local_summary", LocalSummary, permissions=DESCRIBE_CLUSTER)
    async def local_summary(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a summary of the replicas on this broker."""
        return value_answer(await self._broker.operations.replicas.local_summary(deadline=target.deadline()))

    @HttpEndpoint(
        f"GET {_PARTITIONS}/reconfigurations", list[Reconfiguration], permissions=(*DESCRIBE_CLUSTER, *LISTED_TOPICS)
    )
    async def reconfigurations(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the partitions with a pending reassignment."""
        visible = self._visibility(request)
        moves = await self._broker.operations.partitions.reconfigurations(deadline=target.deadline())
        return value_answer([each for each in moves if visible.has_topic(each.topic)])

    @HttpEndpoint(f"POST {_PARTITIONS}/rebalance", PlannedMoves, text=ORDERED, permissions=ALTER_CLUSTER)
    async def rebalance(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Spread replicas evenly now."""
        return value_answer(PlannedMoves(await self._broker.operations.balancing.rebalance(deadline=target.deadline())))

    @HttpEndpoint(
        f"POST {_PARTITION}/replicas", AssignmentVersion, VERSIONED, ReplicasBody, ORDERED, permissions=ALTER_CLUSTER
    )
    async def set_replicas(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Reassign the replicas of a partition, the preferred leader first."""
        topic, partition = place_of(target)
        expected, deadline = expected_version(request, target), target.deadline()
        rows = await self._bodies.read(request, ReplicasBody, beyond=INVALID_JSON)
        version = await self._broker.operations.partitions.set_replicas(
            topic, partition, [each.node_id for each in rows], expected_version=expected, deadline=deadline
        )
        return value_answer(AssignmentVersion(version), version=version)

    @HttpEndpoint(
        f"POST {_PARTITION}/transfer_leadership",
        CurrentLeader,
        (_TARGET, "timeout"),
        text=ORDERED,
        permissions=ALTER_CLUSTER,
    )
    async def transfer_leadership(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Transfer the leadership to another replica, which becomes the preferred leader."""
        topic, partition = place_of(target)
        text = target.query.get("target")
        target_node = None if text is None else node_id(text)
        leader = await self._broker.operations.leadership.transfer_leadership(
            topic, partition, target_node, deadline=target.deadline()
        )
        return value_answer(CurrentLeader(leader))

    @HttpEndpoint(
        f"POST {_PARTITION}/cancel_reconfiguration", AssignmentVersion, text=ORDERED, permissions=ALTER_CLUSTER
    )
    async def cancel_reconfiguration(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Cancel the pending reassignment of a partition."""
        topic, partition = place_of(target)
        version = await self._broker.operations.partitions.cancel_reconfiguration(
            topic, partition, deadline=target.deadline()
        )
        return value_answer(AssignmentVersion(version), version=version)

    @HttpEndpoint(
        "POST /v1/brokers/{broker}/cancel_partition_moves",
        list[CancelledReassignment],
        text=ORDERED,
        permissions=ALTER_CLUSTER,
    )
    async def cancel_partition_moves(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Cancel pending reassignments from or to a broker."""
        return value_answer(
            await self._broker.operations.partitions.cancel_moves(node_of(target), deadline=target.deadline())
        )

    @HttpEndpoint(
        "POST /v1/cluster/cancel_reconfigurations", list[CancelledReassignment], text=ORDERED, permissions=ALTER_CLUSTER
    )
    async def cancel_reconfigurations(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Cancel all pending reassignments."""
        return value_answer(await self._broker.operations.partitions.cancel_moves(deadline=target.deadline()))

    @HttpEndpoint("GET /v1/cluster/partition_balancer/status", BalancerStatus, permissions=DESCRIBE_CLUSTER)
    async def balancer_status(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the state of the balancer."""
        return value_answer(await self._broker.operations.balancing.balancer_status(deadline=target.deadline()))
