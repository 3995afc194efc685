"""Report of each broker on its remaining leaderships and replicas, for the progress of operations.

Fetched with one request; None: the broker is unreachable, or runs an older release. Called by the operations."""

import asyncio
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.errors import RaftlogError
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.runtime.rpc.calls import Answer, row_of
from raftlog.types import NodeId

_BROKER: Final = "operations.broker"
_ASK_MS: Final = 1_500
_SLICE: Final = 256
_NAMES_MAX: Final = 5
_CONTROLLER: Final = "the controller"


class BrokerReport(NamedTuple):
    """Report of a broker on itself; the fields are in wire order.

    `config_version` and `is_excluded` are from its copy of the controller's state. `stuck` names some of the groups
    that have other voters, but none that can lead. `assigned_bytes` counts the replicas that are assigned to
    this broker, `unassigned` the other replicas on its disk."""

    config_version: int
    is_excluded: bool
    led: int
    eligible: int
    transferring: int
    failed: int
    stuck_count: int
    stuck: list[str]
    assigned_bytes: int
    unassigned: int


_TYPES: Final = (int, bool, int, int, int, int, int, list, int, int)


class BrokerReporter:
    """Requests between brokers for reports on their settings, leaderships and replicas."""

    def __init__(self, node: Node, metadata: ControllerHost) -> None:
        self._node, self._metadata = node, metadata
        node.on_request(_BROKER, self._serve)

    async def ask(self, node: NodeId, deadline: Deadline) -> BrokerReport | None:
        """Return the report of this broker; None if it does not answer in time or cannot be decoded."""
        try:
            until = Deadline(min(deadline, deadline_in(_ASK_MS)))
            answer = (await self._node.ask(node, _BROKER, None, (), until)).value
        except RaftlogError:
            return None
        if type(answer) is not list or tuple(map(type, answer[: len(_TYPES)])) != _TYPES:
            return None
        return row_of(BrokerReport, answer)

    async def _serve(self, request: Request) -> Answer:
        """Answer another broker's request for the report of this one."""
        return Answer(list(await self._report()))

    async def _report(self) -> BrokerReport:
        """Return this broker's report on its settings, leaderships and replicas."""
        state, node = self._metadata.state, self._node
        remaining = await node.leaders.remaining_leaderships()
        assigned_bytes, unassigned = await self._count_replicas()
        return BrokerReport(
            state.settings.first().version if len(state.settings) else 0,
            state.is_excluded(node.identity.node_id),
            remaining.led,
            remaining.eligible,
            remaining.transferring,
            remaining.failed,
            len(remaining.stuck),
            [self._group_name(group_id) for group_id in remaining.stuck[:_NAMES_MAX]],
            assigned_bytes,
            unassigned,
        )

    async def _count_replicas(self) -> tuple[int, int]:
        """Return the bytes of the assigned replicas here, and the number of other replicas.

        Replicas of unknown topics are not counted."""
        size = others = 0
        me = self._node.identity.replica
        for number, group in enumerate(list(self._node.driver.groups.values()), 1):
            state = self._metadata.state
            name = state.group(group.group_id)
            if name is not None and me in state.assignment(name).replicas:
                size += group.log.segments.size_bytes
            elif name is not None:
                others += 1
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return size, others

    def _group_name(self, group_id: UUID) -> str:
        """Return the name of a Raft group: topic and partition, or that of the controller."""
        state = self._metadata.state
        name = state.group(group_id)
        return _CONTROLLER if name is None else f"{state.topic_by_id(name.topic_id).name}/{name.partition}"
