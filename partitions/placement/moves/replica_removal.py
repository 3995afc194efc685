"""Removal of unassigned replicas of this node, after their groups have removed them from the configuration.

    not assigned here ∧ a leader's committed configuration lacks this very replica   ⇒   removed

The replica's own log cannot show that: it does not receive the entry that removes it. So the group's leader is
asked, and during the last request the replica neither receives nor sends: no acknowledgement of it can count for a
later configuration with the same replica. Without a leader it stays. Called by the broker."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from raftlog.errors import InvalidArgument, NotLeader, RaftlogError
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import BackgroundLoop, Node, Request
from raftlog.raft import ReplicaId, Role
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

MEMBERSHIP: Final = "moves.membership"
LOOK_S: Final = 0.1
"""Interval of attempts while replicas are removed; doubled up to `LOOK_S_MAX` while none could be."""
LOOK_S_MAX: Final = 1.0
_ASK_MS: Final = 1_500
_SLICE: Final = 256
UUID_BYTES: Final = 16


class ReplicaRemoval(BackgroundLoop):
    """Background task that removes replicas that are no longer assigned to this broker.

    `remove` deletes a replica permanently."""

    purpose = "leaving groups"

    def __init__(self, node: Node, metadata: ControllerHost, remove: Callable[[PartitionReplica, str], None]) -> None:
        """Begin to answer whether replicas are members; `remove` removes a replica for a reason."""
        self._node, self._metadata, self._remove = node, metadata, remove
        self._changed = asyncio.Event()
        self._compared = b""
        node.on_request(MEMBERSHIP, self._serve)

    def state_changed(self) -> None:
        """Compare the replicas again, because the controller's state changed."""
        if self._compared != self._metadata.state.moved.digest:
            self._changed.set()

    def run_soon(self) -> None:
        """Compare the replicas again, because new ones may be unassigned already."""
        self._changed.set()

    async def _run(self) -> None:
        """Remove unassigned replicas; look less often while none can be removed."""
        pause_s, before = LOOK_S, 0
        while True:
            self._changed.clear()
            self._compared = self._metadata.state.moved.digest
            left = 0
            for group in await self._unassigned_replicas():
                left += not await self._try_to_remove(group)
            pause_s = min(2 * pause_s, LOOK_S_MAX) if left == before else LOOK_S
            before = left
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s if left else None):
                    await self._changed.wait()

    async def _unassigned_replicas(self) -> list[PartitionReplica]:
        """Return the replicas here that are not assigned to this broker; yields to the loop in between."""
        found = []
        for number, group in enumerate(list(self._node.driver.groups.values()), 1):
            if self._is_unassigned(group):
                found.append(group)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return found

    def _is_unassigned(self, group: PartitionReplica) -> bool:
        """Return whether the partition exists, and its assignment does not name this broker's replica."""
        state = self._metadata.state
        name = state.group(group.group_id)
        return name is not None and self._node.identity.replica not in state.assignment(name).replicas

    async def _try_to_remove(self, group: PartitionReplica) -> bool:
        """Try to remove the replica; return whether it was removed."""
        if group.core.role is Role.LEADER or group.is_frozen or not await self._is_removed_by_leader(group):
            return group.is_closed
        group.is_leaving = True
        try:
            while group.parts and not group.is_closed:  # pending writes will be acknowledged
                await self._node.pause(deadline_in(self._node.settings.driver.tick_ms))
            if (
                group.is_closed
                or group.is_frozen
                or not self._is_unassigned(group)
                or not await self._is_removed_by_leader(group)
            ):
                return group.is_closed
            self._remove(group, "it was moved to others")
            return True
        finally:
            group.is_leaving = False
            if not group.is_closed:
                self._node.driver.mark_dirty(group)

    async def _is_removed_by_leader(self, group: PartitionReplica) -> bool:
        """Return whether a leader reports that its committed configuration lacks this replica."""
        for node in self._possible_leaders(group):
            try:
                header = [group.key, self._node.identity.disk_uuid.bytes]
                answer = await self._node.ask(node, MEMBERSHIP, header, (), deadline_in(_ASK_MS))
            except RaftlogError as error:
                _logger.debug("node %s did not report the members of %s: %s", node, group.path, error)
                continue
            return answer.value is False
        return False

    def _possible_leaders(self, group: PartitionReplica) -> list[NodeId]:
        """Return the nodes that may lead: the last known leader, then those of the assignment."""
        state, me, leader = self._metadata.state, self._node.identity.node_id, group.core.leader
        name = state.group(group.group_id)
        assigned = [] if name is None else [replica.node_id for replica in state.assignment(name).replicas]
        nodes = dict.fromkeys([*([] if leader is None else [leader.node_id]), *assigned])
        return [node for node in nodes if node != me and self._node.is_connected(node)]

    async def _serve(self, request: Request) -> Answer:
        """Answer whether the requesting disk is in the committed configuration of a group led here."""
        match request.header:
            case [bytes(key), bytes(disk)] if len(key) == len(disk) == UUID_BYTES:
                asker = ReplicaId(request.node, UUID(bytes=disk))
            case _:
                raise InvalidArgument(f"a request {MEMBERSHIP!r} of node {request.node} cannot be read")
        group = self._node.driver.groups.get(key)
        if group is None or not group.core.has_own_term_commit:
            raise NotLeader(f"node {self._node.identity.node_id} does not lead the group {key.hex()}")
        await group.read_index()  # a deposed leader may not have noticed it yet
        configuration = group.core.configuration
        if not group.core.has_own_term_commit or configuration.index > group.core.committed_index:
            raise NotLeader(f"{group.path}: its members are being changed")
        return Answer(configuration.is_joint or configuration.has_member(asker))
