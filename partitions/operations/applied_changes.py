"""Wait until the live brokers have applied a change of the controller's state, so that clients see it at each of them.

    the broker with the change            each live broker
    operations.applied (index)     ──▶    waits until its copy of the state has the entry at this index
                                   ◀──    its applied index

The change is committed before, so safety does not depend on the wait: a broker that stalls, or runs an older release,
ends it after `WAIT_MS` or at once, and applies the change later. Called by listeners, as `operations.applied`."""

import asyncio
from typing import Final

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import Index, NodeId

_APPLIED: Final = "operations.applied"
WAIT_MS: Final = 1_000
"""Longest wait for the brokers, whatever the deadline of the request is."""


class AppliedChanges:
    """Requests between brokers for the index of the controller's log that each has applied."""

    def __init__(self, node: Node, metadata: ControllerHost) -> None:
        self._node, self._metadata = node, metadata
        node.on_request(_APPLIED, self._serve)

    @property
    def index(self) -> Index:
        """Index of the last entry that is applied here."""
        return self._metadata.state.applied_index

    async def wait_for_brokers(self, deadline: Deadline) -> list[NodeId]:
        """Wait until the live brokers have applied everything that is applied here.

        Return those that did not answer so in time; brokers that are not connected or send no heartbeats are skipped.
        """
        index, me = self.index, self._node.identity.node_id
        others = [broker.node_id for broker in self._metadata.state.all_brokers() if broker.node_id != me]
        alive = [node for node in others if self._node.is_alive(node)]
        if not alive:
            return []
        until = Deadline(min(deadline, deadline_in(WAIT_MS)))
        reached = await asyncio.gather(*(self._has_applied(node, index, until) for node in alive))
        return [node for node, is_there in zip(alive, reached, strict=True) if not is_there]

    async def _has_applied(self, node: NodeId, index: Index, until: Deadline) -> bool:
        """Return whether the broker answers in time that it has applied this index."""
        try:
            answer = await self._node.ask(node, _APPLIED, [index], (), until)
        except RaftlogError:
            return False
        return type(answer.value) is int and answer.value >= index

    async def _serve(self, request: Request) -> Answer:
        """Answer with the index applied here, once it has reached the requested one or at the deadline."""
        match request.header:
            case [int(index)]:
                await self._metadata.wait_for_index(Index(index), request.deadline)
                return Answer(int(self.index))
        raise InvalidArgument(f"request {_APPLIED!r} of node {request.node} cannot be decoded")
