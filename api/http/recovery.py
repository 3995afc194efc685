"""Handler of POST …/{topic}/{partition}/recover: report of the remaining replicas, and unsafe recovery from one."""

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.admin.parameters import place_of
from raftlog.api.http.requests import RecoveryBody
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import ALTER_CLUSTER
from raftlog.api.http.server.routing import Target
from raftlog.partitions.placement.recovery import AbsentReplica, RecoveryResult, ReplicaStatus
from raftlog.values.placement import PartitionRecovery, RecoveredRange, RecoveryReplica, ReplacedDisk


class RecoveryHandlers(Handlers):
    """Handler of the recovery of a partition."""

    @HttpEndpoint(
        "POST /v1/partitions/{namespace}/{topic}/{partition}/recover",
        PartitionRecovery,
        body=RecoveryBody,
        text="State, plan and result.",
        permissions=ALTER_CLUSTER,
    )
    async def recover_partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Plan the recovery of a partition without a majority; with accept_loss, recover it."""
        topic, number = place_of(target)
        body = await self._bodies.read(request, RecoveryBody, mistyped=BAD_REQUEST)
        recovered = await self._broker.recover_partition(
            topic,
            number,
            caller_of(request),
            accept_loss=body.accept_loss,
            survivor=body.survivor,
            deadline=target.deadline(),
        )
        return value_answer(_describe_recovery(topic, number, recovered))


def _describe_recovery(topic: str, number: int, recovered: RecoveryResult) -> PartitionRecovery:
    """Return the plan or result of a partition's recovery, with its replicas ordered by node id."""
    plan = recovered.plan
    replicas = [_describe_replica(node, status) for node, status in recovered.statuses.items()]
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


def _describe_replica(node: int, status: ReplicaStatus | AbsentReplica) -> RecoveryReplica:
    """Return the state of a replica at a reachable node, which may have none."""
    if isinstance(status, AbsentReplica):
        return RecoveryReplica(node_id=node, reachable=True, has_replica=False)
    return RecoveryReplica(
        node_id=node,
        reachable=True,
        has_replica=True,
        disk_uuid=str(status.replica.disk_uuid),
        is_leader=status.leads,
        term=status.term,
        last_index=status.last.index,
        last_term=status.last.term,
        log_start_offset=status.log_start,
        log_end_offset=status.log_end,
        voters=[each.node_id for each in status.voters],
        problem=status.damage,
        damaged=[RecoveredRange(each.offset, each.end, each.problem) for each in status.lost or ()],
    )
