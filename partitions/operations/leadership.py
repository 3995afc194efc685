"""Leadership transfer of one partition to another voter, requested by an operator.

    the broker with the request           the leader
    operations.transfer (group, target)   ──▶    transfers, and waits for success or abandonment
                                          ◀──    node id of the leader
    SetAssignment: the target first              so that the balance of leaders does not revert it

Only a voter that holds everything that its leader has is asked to campaign (`raft.transfer`), so a newly promoted one
that lacks something waits, or is refused. An abandoned transfer costs the partition's writes no more than an election
timeout. Called by listeners, as `operations.leadership`."""

import asyncio
import contextlib
from typing import Final

from raftlog.errors import (
    ChangeRefused,
    InvalidArgument,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    Unavailable,
    VersionConflict,
)
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import GroupName, SetAssignment
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topics
from raftlog.raft import ReplicaId, Role
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import NotConnected
from raftlog.types import NodeId

_TRANSFER: Final = "operations.transfer"
_ANY_VOTER: Final = -1
_NEAR_MS: Final = 2_000
"""Longest wait for a target that lags, before it is refused."""
_LOOK_MS: Final = 50
_GRACE_S: Final = 1.0
_ATTEMPTS_MAX: Final = 5
"""Attempts to change an assignment that others change at the same time."""


class LeadershipOperations:
    """Leadership transfers for operators: requests to the leaders, and their execution at this leader."""

    def __init__(self, node: Node, metadata: ControllerHost, topics: Topics, router: PartitionRouter) -> None:
        self._node, self._metadata, self._topics, self._router = node, metadata, topics, router
        self._me = node.identity.node_id
        node.on_request(_TRANSFER, self._serve)

    async def refresh(self, *, deadline: Deadline) -> None:
        """Update the assignments known here. Raises `NoLeader`."""
        await self._metadata.barrier(deadline)

    async def transfer_leadership(
        self, topic: str, number: int, target: int | None = None, *, deadline: Deadline
    ) -> int:
        """Transfer the leadership and make the new leader the preferred one; return its node id.

        `target` None: any other fit voter. Raises `InvalidArgument` for a node without a vote, `ChangeRefused` when the
        target did not take over in time (then the former leader continues), `NoLeader`, `OutcomeUnknown`."""
        await self._metadata.barrier(deadline)
        partition = self._topics.find(topic).partition(number)
        if target is not None and target not in self._metadata.state.brokers:
            raise InvalidArgument(f"broker {target} does not exist and cannot lead {partition.name}")
        wanted = NodeId(_ANY_VOTER if target is None else target)
        if self._metadata.state.is_excluded(wanted):
            raise ChangeRefused(f"{partition.name}: node {target} is in maintenance or draining: it leads nothing")
        leader = await self._ask_leader(partition, wanted, deadline)
        if target is not None and leader != target:
            raise ChangeRefused(f"{partition.name}: node {leader} leads now, and not node {target}; try again")
        try:
            await self._make_preferred(partition, leader, deadline)
        except Unavailable as error:
            raise OutcomeUnknown(
                f"{partition.name}: node {leader} leads now, but may lose the leadership again: it did not become the "
                f"preferred one ({error}); try again"
            ) from None
        return leader

    async def _ask_leader(self, partition: Partition, target: NodeId, deadline: Deadline) -> NodeId:
        """Send the request to the current leader, with retries.

        A request with a named target is also repeated after an unknown outcome."""
        loop = asyncio.get_running_loop()
        why: object = "none is known"
        is_unknown = False
        while True:
            leader = self._router.leader_of(partition)
            try:
                if leader == self._me:
                    return await self._hand_over(partition.group_id.bytes, target, deadline)
                if leader is not None:
                    until = Deadline(deadline + _GRACE_S)
                    header = [partition.group_id.bytes, target, int(max(0.0, deadline - loop.time()) * 1000)]
                    return _read_node(await self._node.ask(leader, _TRANSFER, header, (), until))
            except (NotLeader, NotConnected, OutcomeUnknown) as error:
                if isinstance(error, OutcomeUnknown) and target == _ANY_VOTER:
                    raise
                why, is_unknown = error, is_unknown or isinstance(error, OutcomeUnknown)
                if isinstance(error, NotLeader) and isinstance(error.leader, ReplicaId) and partition.replica is None:
                    partition.hint = error.leader.node_id
            if loop.time() >= deadline:
                kind = OutcomeUnknown if is_unknown else NoLeader
                raise kind(f"{partition.name} has no leader that could transfer the leadership: {why}")
            await self._router.wait_for_leader_change(partition, deadline)

    async def _make_preferred(self, partition: Partition, leader: NodeId, deadline: Deadline) -> None:
        """Put the leader first in the assignment, unless a concurrent change replaced the assignment."""
        group = GroupName(partition.topic_id, partition.number)
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            assignment = self._metadata.state.assignment(group)
            first = next((replica for replica in assignment.replicas if replica.node_id == leader), None)
            if first is None or assignment.replicas[0] == first:
                return
            others = (replica for replica in assignment.replicas if replica != first)
            command = SetAssignment(*group, (first, *others), assignment.version)
            try:
                await self._metadata.submit(command, deadline)
            except VersionConflict:
                if attempt == _ATTEMPTS_MAX:
                    raise
            else:
                return

    # the leader's side

    async def _serve(self, request: Request) -> Answer:
        """Serve a transfer request of another broker, after an update of the controller's state."""
        match request.header:
            case [bytes(key), int(target), int(left_ms)] if len(key) == 16:
                until = Deadline(min(request.deadline, deadline_in(left_ms)))
                await self._metadata.barrier(until)  # maintenance or draining may have begun just before
                return Answer(await self._hand_over(key, NodeId(target), until))
        raise InvalidArgument(f"request {_TRANSFER!r} of node {request.node} cannot be decoded")

    async def _hand_over(self, key: bytes, target: NodeId, deadline: Deadline) -> NodeId:
        """Transfer the leadership of a Raft group led here; return the new leader's node id. Raises `NotLeader`."""
        group = self._node.driver.groups.get(key)
        if group is None or not group.core.has_own_term_commit:
            raise NotLeader(f"node {self._me} does not lead it", None if group is None else group.core.leader)
        if target == self._me:
            return target
        voter = self._find_voter(group, target)
        await self._begin(group, voter, Deadline(min(deadline, deadline_in(_NEAR_MS))))
        return await self._wait_for_leader(group, voter, deadline)

    def _find_voter(self, group: PartitionReplica, target: NodeId) -> ReplicaId:
        """Return the voter on this node, or the best target. Raises `InvalidArgument` and `ChangeRefused`."""
        if target == _ANY_VOTER:
            best = self._node.leaders.find_fit_target(group)
            if best is None:
                raise ChangeRefused(f"{group.name}: no other voter is connected, holds everything and may lead now")
            return best
        voter = next((each for each in group.core.configuration.voters if each.node_id == target), None)
        if voter is None:
            voters = ", ".join(str(each.node_id) for each in group.core.configuration.voters)
            raise InvalidArgument(f"{group.name}: node {target} does not vote in it; its voters are {voters}")
        return voter

    async def _begin(self, group: PartitionReplica, voter: ReplicaId, until: Deadline) -> None:
        """Begin the transfer once the target has nearly all entries."""
        while True:
            try:
                group.transfer_leadership(voter)
                return
            except Overloaded as error:
                if self._node.loop.time() >= until:
                    raise ChangeRefused(f"node {voter.node_id} cannot take over now: {error}") from None
            await self._node.pause(Deadline(min(until, deadline_in(_LOOK_MS))))

    async def _wait_for_leader(self, group: PartitionReplica, voter: ReplicaId, deadline: Deadline) -> NodeId:
        """Wait until another replica leads, and return its node id."""
        until = Deadline(min(deadline, deadline_in(2_000 * self._node.leaders.transfer_timeout_s)))
        while True:
            core = group.core
            if core.leader is not None and core.role is not Role.LEADER:
                return core.leader.node_id
            if self._node.loop.time() >= until or group.is_closed:
                break
            with contextlib.suppress(TimeoutError):
                await self._node.leader_changed(group.group_id, until)
        if core.role is Role.LEADER:
            raise ChangeRefused(
                f"{group.name}: node {voter.node_id} did not take over in time; node {self._me} still leads"
            )
        raise OutcomeUnknown(
            f"{group.name}: node {self._me} transferred the leadership, and no new leader is known yet; ask again"
        )


def _read_node(answer: Answer) -> NodeId:
    """Return the node id in the answer. Raises `NoLeader` if it has none."""
    if type(answer.value) is not int:
        raise NoLeader("the leader's answer cannot be decoded; it may run another release")
    return NodeId(answer.value)
