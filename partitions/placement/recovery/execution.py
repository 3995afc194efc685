"""Execution of `partition recover`: ask every replica, plan, and if requested let one replica continue alone.

    claim the survivor → disks without a replica store that they never create a first one
    → all others set their copies aside, durably → the survivor leads alone, in a new term
    → the others return empty, as learners (`partitions.placement.moves`)

Any broker can do it; after a crash it is repeated from the beginning, and finds less to do. A claim
prevents that two operators choose different survivors: a claimed replica is not set aside. Called by the broker."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from raftlog.errors import ChangeRefused, InvalidArgument, RaftlogError, Unavailable
from raftlog.partitions.caller import Caller
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import GroupName
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node
from raftlog.partitions.node.requests import Request
from raftlog.partitions.placement.assignments.assignments import Assignments
from raftlog.partitions.placement.recovery.plan import KnownPlaces, Plan, involved_replicas, make_plan
from raftlog.partitions.placement.recovery.replica_status import (
    AbsentReplica,
    ReplicaStatus,
    pack_status,
    status_of,
    unpack_status,
)
from raftlog.partitions.routing.partition import Partition
from raftlog.runtime.process.abandonment import abandon_absent
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)
_LOOK: Final = "recover.look"
_CLAIM: Final = "recover.claim"
_GIVE_UP: Final = "recover.give_up"
_GO_ON: Final = "recover.go_on"
_LOOK_S: Final = 1.5
_CLAIM_S: Final = 60.0
"""Time after which an unused claim expires."""


class RecoveryResult(NamedTuple):
    """Reports of the replicas, plan and result of a recovery.

    `lost` are ranges of offsets, each with an exclusive end."""

    statuses: Mapping[NodeId, ReplicaStatus | AbsentReplica]
    unreachable: tuple[NodeId, ...]
    plan: Plan
    is_done: bool
    lost: tuple[tuple[int, int], ...]
    kept_in: tuple[str, ...]
    """Directories of copies and damaged bytes, with the node that keeps them."""


class RecoveryExecution:
    """Recoveries run by one process, and the server for the replicas here."""

    def __init__(self, node: Node, metadata: ControllerHost, assignments: Assignments) -> None:
        """Begin to answer requests of a recovery that another broker directs."""
        self._node, self._metadata, self._assignments = node, metadata, assignments
        self._me = node.identity.node_id
        self._claimed: dict[bytes, float] = {}
        """Groups whose replica here is claimed as survivor, with the end of the claim."""
        node.on_request(_LOOK, self._serve_status)
        node.on_request(_CLAIM, self._serve_claim)
        node.on_request(_GIVE_UP, self._serve_give_up)
        node.on_request(_GO_ON, self._serve_rebuild)

    # coordination

    async def recover(
        self, partition: Partition, caller: Caller, *, accept_loss: bool, survivor: NodeId | None, deadline: Deadline
    ) -> RecoveryResult:
        """Collect the replicas' reports and make a plan; with `accept_loss`, execute the plan too.

        Raises `Unavailable` and `OutcomeUnknown`; it can be repeated."""
        await self._metadata.barrier(deadline)  # retired disks decide
        key, places = partition.group_id.bytes, self._places(partition)
        statuses, unreachable = await self._ask_all(partition, places, deadline)
        plan = make_plan(statuses, places, survivor)
        if plan.survivor is None or not accept_loss:
            return RecoveryResult(statuses, unreachable, plan, False, (), ())
        node = plan.survivor.replica.node_id
        by = f"{caller.principal} at {caller.address}"
        _logger.warning("%s: node %s is to go on alone, by an order of %s", partition.name, node, by)
        await self._ask(node, _CLAIM, [key], deadline)
        kept = []
        for replica in (*plan.renouncing, *(each.replica for each in plan.giving_up)):
            answer = await self._ask(replica.node_id, _GIVE_UP, [key], deadline)
            kept += [f"node {replica.node_id}: {path}" for path in answer]
        term = max(each.term for each in statuses.values() if isinstance(each, ReplicaStatus))
        lost, bytes_in, *_ = await self._ask(node, _GO_ON, [key, term], deadline)
        kept += [f"node {node}: {path}" for path in bytes_in]
        ranges = tuple((int(first), int(end)) for first, end in lost)
        return RecoveryResult(statuses, unreachable, plan, True, ranges, tuple(kept))

    def _places(self, partition: Partition) -> KnownPlaces:
        """Return the partition's placement. Raises `UnknownTopic`."""
        state = self._metadata.state
        return KnownPlaces(
            state.topic_by_id(partition.topic_id).origin(partition.number).replicas,
            tuple(state.assignment(GroupName(partition.topic_id, partition.number)).replicas),
            tuple(broker.replica for broker in state.brokers),
            frozenset(row.disk_uuid for row in state.retired),
        )

    async def _ask_all(
        self, partition: Partition, places: KnownPlaces, deadline: Deadline
    ) -> tuple[dict[NodeId, ReplicaStatus | AbsentReplica], tuple[NodeId, ...]]:
        """Ask the nodes of first and assigned replicas, the members that they name, and all others involved.

        Return the reports by node, and the nodes that do not answer."""
        statuses: dict[NodeId, ReplicaStatus | AbsentReplica] = {}
        unreachable: dict[NodeId, None] = {}
        asked: set[NodeId] = set()
        wanted = {replica.node_id for replica in places.named if replica.disk_uuid not in places.retired}
        until = Deadline(min(deadline, self._node.loop.time() + _LOOK_S))
        while wanted - asked:
            nodes = sorted(wanted - asked)
            asked |= set(nodes)
            answers = await asyncio.gather(*(self._status(each, partition.group_id, until) for each in nodes))
            for node, answer in zip(nodes, answers, strict=True):
                if isinstance(answer, RaftlogError):
                    unreachable[node] = None
                    continue
                statuses[node] = answer
            still = involved_replicas(statuses, places)
            wanted = {replica.node_id for replica in still if replica.disk_uuid not in places.retired}
        return statuses, tuple(unreachable)

    async def _status(
        self, node: NodeId, group_id: UUID, until: Deadline
    ) -> ReplicaStatus | AbsentReplica | RaftlogError:
        """Return a node's report on its replica, or the error of the request."""
        try:
            return unpack_status(await self._ask(node, _LOOK, [group_id.bytes], until))
        except RaftlogError as error:
            return error

    async def _ask(self, node: NodeId, name: str, header: list[Any], deadline: Deadline) -> Any:
        """Send a request of the recovery to a node; return the value of the answer."""
        return (await self._node.ask(node, name, header, (), deadline)).value

    # requests to the replica here

    async def _serve_status(self, request: Request) -> Answer:
        """Report the replica here, or its absence."""
        key, driver, me = _read_key(request), self._node.driver, self._node.identity.replica
        group = driver.groups.get(key)
        if group is not None:
            return Answer(pack_status(status_of(me, group)))
        if driver.persister.is_leaving(key) or driver.creations.is_under_way(key):
            raise Unavailable(f"a replica of group {key.hex()} is being created or removed on node {self._me}; retry")
        return Answer(pack_status(AbsentReplica(me, driver.persister.checkpoints.was_removed(key))))

    async def _serve_claim(self, request: Request) -> Answer:
        """Claim the replica here as the survivor, for `_CLAIM_S`."""
        group = self._local_group(request)
        self._claimed[group.key] = self._node.loop.time() + _CLAIM_S
        return Answer(None)

    async def _serve_give_up(self, request: Request) -> Answer:
        """Set the replica here aside; without one, store that no first replica is ever created here."""
        key = _read_key(request)
        group = self._node.driver.groups.get(key)
        if group is None:
            await abandon_absent(self._node.driver, UUID(bytes=key))
            return Answer([])
        if self._is_claimed(key) or self._node.driver.catch_up.is_rebuilding(group):
            raise ChangeRefused(
                f"{group.name}: another recovery has just chosen the replica on node {self._me} as survivor; "
                "run the command again"
            )
        self._check_leaderless(group)
        return Answer([await self._assignments.set_aside(group)])

    async def _serve_rebuild(self, request: Request) -> Answer:
        """Rebuild the claimed replica here, so that it leads alone; answer with the losses."""
        group = self._local_group(request)
        if not self._is_claimed(group.key):
            raise ChangeRefused(
                f"{group.name}: the claim of the replica on node {self._me} has expired; run the command again"
            )
        self._check_leaderless(group)
        rebuilt = await self._node.driver.catch_up.rebuild(group, int(request.header[1]))
        self._claimed.pop(group.key, None)
        return Answer([[list(each) for each in rebuilt.lost], rebuilt.kept_in])

    def _is_claimed(self, key: bytes) -> bool:
        """Return whether the replica here is claimed as survivor now."""
        return self._claimed.get(key, 0.0) > self._node.loop.time()

    def _local_group(self, request: Request) -> PartitionReplica:
        """Return the replica here of the group in a request. Raises `Unavailable` without one."""
        group = self._node.driver.groups.get(_read_key(request))
        if group is None:
            raise Unavailable(f"node {self._me} has no replica of group {_read_key(request).hex()}")
        return group

    def _check_leaderless(self, group: PartitionReplica) -> None:
        """Raise `ChangeRefused` if the group has a leader."""
        leader = group.core.leader
        if leader is not None:
            raise ChangeRefused(f"{group.name}: node {leader.node_id} leads it; there is nothing to recover")


def _read_key(request: Request) -> bytes:
    """Return the group id in a request. Raises `InvalidArgument`."""
    match request.header:
        case [bytes(key), *_] if len(key) == 16:
            return key
    raise InvalidArgument("a recovery request cannot be read")
