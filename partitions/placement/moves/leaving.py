"""Replicas here that the controller does not want any more: each goes once its group has let it go.

    not assigned here ∧ a leader's committed configuration lacks this very replica   ⇒   removed

The replica's own log cannot say that: nobody sends it the entry that removes it. So the group's leader is asked, and
while it is asked for the last time the replica neither hears nor says anything: nothing that it acknowledged can count
for a later membership of the same replica. Where nobody leads it stays. Called by the broker.
"""

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
from raftlog.runtime.replica.group import Group
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

MEMBERSHIP: Final = "moves.membership"
LOOK_S: Final = 0.1
"""Between two looks while some could not go, and others go; doubled up to `LOOK_S_MAX` while none does."""
LOOK_S_MAX: Final = 1.0
_ASK_MS: Final = 1_500
_SLICE: Final = 256
UUID_BYTES: Final = 16


class Leaving(BackgroundLoop):
    """Runs from `start` to `stop`; `remove` takes a replica away for good."""

    purpose = "leaving groups"

    def __init__(self, node: Node, metadata: ControllerHost, remove: Callable[[Group, str], None]) -> None:
        self._node, self._metadata, self._remove = node, metadata, remove
        self._changed = asyncio.Event()
        self._compared = b""
        node.on_request(MEMBERSHIP, self._serve)

    def state_changed(self) -> None:
        """The controller's state is another one."""
        if self._compared != self._metadata.state.moved.digest:
            self._changed.set()

    def look_soon(self) -> None:
        """Replicas were made here that may be unwanted already."""
        self._changed.set()

    async def _run(self) -> None:
        pause_s, before = LOOK_S, 0
        while True:
            self._changed.clear()
            self._compared = self._metadata.state.moved.digest
            left = 0
            for group in await self._unwanted():
                left += not await self._leave(group)
            pause_s = min(2 * pause_s, LOOK_S_MAX) if left == before else LOOK_S
            before = left
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s if left else None):
                    await self._changed.wait()

    async def _unwanted(self) -> list[Group]:
        found = []
        for number, group in enumerate(list(self._node.driver.groups.values()), 1):
            if self._is_unwanted(group):
                found.append(group)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return found

    def _is_unwanted(self, group: Group) -> bool:
        state = self._metadata.state
        name = state.group(group.group_id)
        return name is not None and self._node.identity.replica not in state.assignment(name).replicas

    async def _leave(self, group: Group) -> bool:
        """Whether it is gone."""
        if group.core.role is Role.LEADER or group.is_deaf or not await self._is_let_go(group):
            return group.is_closed
        group.is_leaving = True
        try:
            while group.parts and not group.is_closed:  # what is on its way to the disk will be acknowledged
                await self._node.pause(deadline_in(self._node.settings.driver.tick_ms))
            if group.is_closed or group.is_deaf or not self._is_unwanted(group) or not await self._is_let_go(group):
                return group.is_closed
            self._remove(group, "it was moved to others")
            return True
        finally:
            group.is_leaving = False
            if not group.is_closed:
                self._node.driver.mark_dirty(group)

    async def _is_let_go(self, group: Group) -> bool:
        """Whether a leader says that its committed configuration lacks this replica."""
        for node in self._asked(group):
            try:
                header = [group.key, self._node.identity.disk_uuid.bytes]
                answer = await self._node.ask(node, MEMBERSHIP, header, (), deadline_in(_ASK_MS))
            except RaftlogError as error:
                _logger.debug("node %s does not say who belongs to %s: %s", node, group.path, error)
                continue
            return answer.value is False
        return False

    def _asked(self, group: Group) -> list[NodeId]:
        """Who may lead: whom the replica took for the leader, then those that shall have the group."""
        state, me, leader = self._metadata.state, self._node.identity.node_id, group.core.leader
        name = state.group(group.group_id)
        assigned = [] if name is None else [replica.node_id for replica in state.assignment(name).replicas]
        nodes = dict.fromkeys([*([] if leader is None else [leader.node_id]), *assigned])
        return [node for node in nodes if node != me and self._node.is_connected(node)]

    async def _serve(self, request: Request) -> Answer:
        """Whether the asking node's disk belongs to a group that is led here, now and by what is committed."""
        match request.header:
            case [bytes(key), bytes(disk)] if len(key) == len(disk) == UUID_BYTES:
                asker = ReplicaId(request.node, UUID(bytes=disk))
            case _:
                raise InvalidArgument(f"a request {MEMBERSHIP!r} of node {request.node} that cannot be read")
        group = self._node.driver.groups.get(key)
        if group is None or not group.core.has_own_term_commit:
            raise NotLeader(f"node {self._node.identity.node_id} does not lead the group {key.hex()}")
        await group.read_index()  # a leader that was deposed may not know it yet
        configuration = group.core.configuration
        if not group.core.has_own_term_commit or configuration.index > group.core.committed_index:
            raise NotLeader(f"{group.path}: its members are being changed")
        return Answer(configuration.is_joint or configuration.has_member(asker))
