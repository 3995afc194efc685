"""Operations on the assignment of replicas to brokers. Called by listeners, as `operations.partitions`.

A request becomes an assignment of the controller, by compare and set; the partitions' leaders follow it
(`placement.moves`). A move is cancelled by an assignment of the partition to its present voters."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from raftlog.errors import InvalidArgument, OutcomeUnknown, RequestError, Unavailable, VersionConflict
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import ControllerState, GroupName, ReplicaAssignment, SetAssignment
from raftlog.partitions.controller.machine.errors import check_version
from raftlog.partitions.controller.machine.schema import REPLICAS_MAX
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.operations.move_reports import MoveReporter, limit_moves, moves_of_node
from raftlog.partitions.operations.topic_listing import LeaderReports
from raftlog.partitions.routing.topics import Topics
from raftlog.raft import ReplicaId
from raftlog.types import NodeId
from raftlog.values.placement import CancelledReassignment, Reconfiguration

_logger = logging.getLogger(__name__)

_ATTEMPTS_MAX: Final = 5
"""Attempts at a request without a version when another change of the assignment came first."""
_CANCELLED_AT_ONCE: Final = 16


class PartitionOperations:
    """Reassignments of partitions for operators."""

    def __init__(
        self, metadata: ControllerHost, topics: Topics, leaders: LeaderReports, move_reporter: MoveReporter
    ) -> None:
        """Use `leaders` for the states of partitions, and `move_reporter` for their pending moves."""
        self._metadata, self._topics, self._leaders, self._move_reporter = metadata, topics, leaders, move_reporter

    async def set_replicas(
        self,
        topic: str,
        partition: int,
        node_ids: Sequence[int],
        *,
        expected_version: int | None = None,
        deadline: Deadline,
    ) -> int:
        """Assign a partition to brokers, the preferred leader first; return the assignment's version.

        Allowed are 1 to 15 brokers on distinct hosts, none of them draining or in maintenance unless it has a replica
        already. Another request for the same partition replaces it."""
        await self._metadata.barrier(deadline)
        for attempt in range(_ATTEMPTS_MAX):
            state = self._metadata.state
            current = _assignment(state, topic, partition)
            check_version(f"the assignment of {topic}/{current.partition}", current.version, expected_version)
            replicas = _replicas(state, topic, current, node_ids)
            try:
                return await self._assign(current, replicas, deadline)
            except VersionConflict:
                if expected_version is not None or attempt == _ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _assign(self, current: ReplicaAssignment, replicas: tuple[ReplicaId, ...], deadline: Deadline) -> int:
        """Submit an assignment, unless it is the present one; return its version."""
        if replicas == current.replicas:
            return current.version
        return await self._metadata.submit(SetAssignment(*current.group, replicas, current.version), deadline)

    async def reconfigurations(self, *, deadline: Deadline) -> list[Reconfiguration]:
        """Return the partitions with a pending reassignment, by topic and number; at most `MOVES_MAX`."""
        await self._metadata.barrier(deadline)
        return limit_moves((await self._move_reporter.collect_settled(deadline)).moves)

    # cancelling

    async def cancel_reconfiguration(self, topic: str, partition: int, *, deadline: Deadline) -> int:
        """Assign a partition to its present voters; return the assignment's version, the same if nothing moves.

        Raises `Unavailable` if no leader reports whether the partition moves."""
        await self._metadata.barrier(deadline)
        current = _assignment(self._metadata.state, topic, partition)
        reports = await self._move_reporter.collect_settled(deadline)
        for move in reports.moves:
            if (move.topic, move.partition) == (topic, partition):
                return await self._cancel(move, deadline)
        if not reports.is_complete:
            found = self._topics.find(topic)
            [described] = await self._leaders.describe_partitions(found, [found.partition(partition)], deadline)
            if described.leader is None or described.leader in reports.silent:
                raise Unavailable(
                    f"no leader reports whether {topic}/{partition} is moving; nothing was cancelled; try again"
                )
        return current.version

    async def cancel_moves(self, node_id: int | None = None, *, deadline: Deadline) -> list[CancelledReassignment]:
        """Cancel all moves that leaders report, or those from or to a broker; return the cancelled ones."""
        await self._metadata.barrier(deadline)
        if node_id is not None:
            self._metadata.state.broker(NodeId(node_id))
        moves = (await self._move_reporter.collect_settled(deadline)).moves
        chosen = moves if node_id is None else list(moves_of_node(moves, node_id))
        limit = asyncio.Semaphore(_CANCELLED_AT_ONCE)

        async def cancel_one(move: Reconfiguration) -> bool:
            """Cancel one move; return whether its assignment was changed."""
            async with limit:
                try:
                    return await self._cancel(move, deadline) != move.version
                except RequestError as error:  # a concurrent request, or impossible now
                    _logger.info("the move of %s/%s is not cancelled: %s", move.topic, move.partition, error)
                    return False

        ends = await asyncio.gather(*map(cancel_one, chosen), return_exceptions=True)
        done = [move for move, end in zip(chosen, ends, strict=True) if end is True]
        for error in ends:
            if isinstance(error, BaseException):
                if done and isinstance(error, Unavailable):
                    raise OutcomeUnknown(f"{len(done)} of {len(chosen)} moves were cancelled, then: {error}") from None
                raise error
        return [CancelledReassignment(topic=move.topic, partition=move.partition) for move in done]

    async def _cancel(self, move: Reconfiguration, deadline: Deadline) -> int:
        """Assign the present voters, in their assigned order; return the assignment's version.

        Without a present voter the assignment stays unchanged."""
        state = self._metadata.state
        current = _assignment(state, move.topic, move.partition)
        if current.version != move.version:
            raise VersionConflict(f"{move.topic}/{move.partition} has another assignment meanwhile")
        voters = {state.brokers[node].replica for node in move.from_nodes if node in state.brokers}
        kept = [replica for replica in current.replicas if replica in voters]
        replicas = (*kept, *sorted(voters - {*kept}))
        return await self._assign(current, replicas, deadline) if replicas else current.version


def _assignment(state: ControllerState, topic: str, partition: int) -> ReplicaAssignment:
    """Return the assignment of a partition. Raises `UnknownTopic` and `UnknownPartition`."""
    return state.assignment(GroupName(state.topic(topic).topic_id, partition))


def _replicas(
    state: ControllerState, topic: str, current: ReplicaAssignment, node_ids: Sequence[int]
) -> tuple[ReplicaId, ...]:
    """Return the replicas on these nodes. Raises `InvalidArgument` for an impossible assignment."""
    name = f"{topic}/{current.partition}"
    if not 1 <= len(node_ids) <= REPLICAS_MAX or len(set(node_ids)) != len(node_ids):
        raise InvalidArgument(
            f"{name} can have 1 to {REPLICAS_MAX} replicas, each on another broker; not {[*node_ids]}"
        )
    unknown = [node for node in node_ids if node not in state.brokers]
    if unknown:
        missing = ", ".join(map(str, unknown))
        known = ", ".join(str(broker.node_id) for broker in state.all_brokers())
        raise InvalidArgument(f"{name}: no brokers have the node ids {missing}; the brokers are {known}")
    brokers = [state.brokers[node] for node in node_ids]
    unfit = [
        broker.node_id
        for broker in brokers
        if state.is_excluded(broker.node_id) and broker.replica not in current.replicas
    ]
    if unfit:
        raise InvalidArgument(f"{name}: the brokers {unfit} are in maintenance or draining and get no new replicas")
    hosts = [broker.host for broker in brokers]
    if len(set(hosts)) != len(hosts):
        raise InvalidArgument(f"{name}: the replicas would be on {', '.join(hosts)}, and must be on different hosts")
    return tuple(broker.replica for broker in brokers)
