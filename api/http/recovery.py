"""POST /v1/partitions/kafka/{topic}/{partition}/recover: what is left of a partition, and letting it go on."""

from typing import Any

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.admin.reading import deadline_of, place_of
from raftlog.api.http.json_fields import INT32_MAX, refuse_unknown
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.partitions.placement.recovery import Absent, Recovered, ReplicaStanding
from raftlog.values.placement import PartitionRecovery, RecoveredRange, RecoveryReplica, ReplacedDisk


class RecoveryHandlers:
    """One path."""

    def __init__(self, broker: Broker, bodies: BodyReader) -> None:
        self._broker, self._bodies = broker, bodies

    def add_to(self, router: HttpRouter) -> None:
        router.add("POST", "/v1/partitions/{namespace}/{topic}/{partition}/recover", self.recover, query=("timeout",))

    async def recover(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic, number = place_of(target)
        accept_loss, survivor = _options(await self._bodies.json_object(request))
        recovered = await self._broker.recover_partition(
            topic, number, accept_loss=accept_loss, survivor=survivor, deadline=deadline_of(target)
        )
        return value_answer(_recovered(topic, number, recovered))


def _options(body: dict[str, Any]) -> tuple[bool, int | None]:
    refuse_unknown(body, ("accept_loss", "survivor"))
    match body:
        case {"accept_loss": bool(accept_loss), "survivor": int(survivor)} if (
            type(survivor) is int and 0 <= survivor <= INT32_MAX
        ):
            return accept_loss, survivor
        case {"accept_loss": bool(accept_loss)} if body.get("survivor") is None:
            return accept_loss, None
    raise HttpProblem(
        BAD_REQUEST, 'the body has to be {"accept_loss": false} or true, with "survivor", a node id, if one is chosen'
    )


def _recovered(topic: str, number: int, recovered: Recovered) -> PartitionRecovery:
    plan = recovered.plan
    replicas = [_replica(node, standing) for node, standing in recovered.standings.items()]
    replicas += [RecoveryReplica(node_id=node, reachable=False) for node in recovered.unreachable]
    return PartitionRecovery(
        topic=topic,
        partition_id=number,
        replicas=sorted(replicas, key=lambda replica: replica.node_id),
        replaced_disks=[ReplacedDisk(each.node_id, str(each.disk_uuid)) for each in plan.gone],
        survivor=None if plan.survivor is None else plan.survivor.replica.node_id,
        refusal=plan.refusal,
        loss=plan.loss,
        done=recovered.is_done,
        lost_offsets=recovered.lost,
        kept_in=recovered.kept_in,
    )


def _replica(node: int, standing: ReplicaStanding | Absent) -> RecoveryReplica:
    if isinstance(standing, Absent):
        return RecoveryReplica(node_id=node, reachable=True, has_replica=False)
    return RecoveryReplica(
        node_id=node,
        reachable=True,
        has_replica=True,
        disk_uuid=str(standing.replica.disk_uuid),
        is_leader=standing.leads,
        term=standing.term,
        last_index=standing.last.index,
        last_term=standing.last.term,
        log_start_offset=standing.log_start,
        log_end_offset=standing.log_end,
        voters=[each.node_id for each in standing.voters],
        problem=standing.damage,
        damaged=[RecoveredRange(each.offset, each.end, each.problem) for each in standing.lost or ()],
    )
