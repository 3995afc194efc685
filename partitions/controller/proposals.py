"""Commands on their way into the log of group 0, from any node, each done once.

    here                   the leader of group 0
    submit  ── control.submit ──▶  proposes the request, waits until it has applied it
            ◀── index, answer ──

The request id stays the same however often it is sent, and so does the basis index; the state machine applies an id
once (docs/CONTROLLER.md, section 4). So whatever may have happened is simply asked again, of whoever leads then, until
the deadline. Bounded by that; a leader does not propose an id again while its first proposal has no outcome.
"""

import asyncio
import logging
from uuid import UUID

from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    RaftlogError,
    Unavailable,
)
from raftlog.partitions.controller.local_copy import Decided, LocalCopy
from raftlog.partitions.controller.machine import Command, CommandRequest, check_level, decode_request, encode_request
from raftlog.partitions.controller.machine import CommandAnswer as ControllerAnswer
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node
from raftlog.partitions.node import Request as NodeRequest
from raftlog.partitions.node.opening import draw_uuid
from raftlog.raft import ReplicaId
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.replica.group import Committed, Group
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.failures import as_fields, from_fields
from raftlog.types import Index, NodeId

_logger = logging.getLogger(__name__)
SUBMIT = "control.submit"
BASIS = "control.basis"
_PAUSE_S = 0.02
_PAUSE_S_MAX = 0.25
_PROPOSED_MAX = 10_000
"""Proposals of this leader whose outcome is not known."""


class CommandProposals:
    """Both sides of one process."""

    def __init__(self, node: Node, copy: LocalCopy, attempt_ms: int) -> None:
        self._node, self._copy = node, copy
        self._attempt_s = attempt_ms / 1000
        self._proposed: dict[UUID, asyncio.Future[Committed]] = {}
        self._hint: NodeId | None = None
        """Who leads, as another node said; for as long as the own replica does not know."""
        self._turn = 0
        """Counts attempts to find a leader, so that they go to other nodes."""
        self.is_fit = False
        """The own copy was up to date once, so what it has applied can be the basis of a request."""
        node.on_request(SUBMIT, self._serve)
        node.on_request(BASIS, self._serve_basis)

    async def submit(self, command: Command, deadline: Deadline, basis: Index | None = None) -> int:
        """The command's number, once the copy here has applied it as well; raises its error. `basis`, if it is given,
        was applied here and is not far behind.

        Raises `Unavailable` when it was definitely not proposed, `DeadlineExceeded` when it may have been, and
        `InvalidArgument` for a command above the cluster's feature level.
        """
        if self.is_fit and self._copy.state.bootstrap is not None:  # before, the command itself brings the level
            check_level(command, self._copy.state.feature_level)
        request_id = draw_uuid(self._node.surroundings.random)
        if basis is None:
            basis = await self._basis(deadline)
        packed = encode_request(CommandRequest(request_id, basis, command))
        decided = await self._decide(request_id, packed, deadline)
        value = decided.answer.result()
        if self._copy.group is not None and not await self._copy.reached(decided.index, deadline):
            raise DeadlineExceeded(f"{_name(command)} was done, and this node has not heard of that in time")
        return value

    async def _basis(self, deadline: Deadline) -> Index:
        """What the proposer has applied; a copy that may be far behind lets another node say it."""
        if self.is_fit:
            return self._copy.state.applied_index
        while True:
            for node in self._others():
                try:
                    answer = await self._node.ask(node, BASIS, None, (), self._attempt_until(deadline))
                except RaftlogError as error:
                    _logger.debug("node %s does not say how far it is: %s", node, error)
                    continue
                if type(answer.value) is int:
                    return Index(answer.value)
            if self._is_over(deadline):
                raise NoLeader("no node that knows the controller's state was reached in time; nothing was proposed")
            await self._pause(_PAUSE_S_MAX, deadline)

    async def _decide(self, request_id: UUID, packed: bytes, deadline: Deadline) -> Decided:
        is_unknown, pause_s = False, _PAUSE_S
        expected = self._copy.expect(request_id)
        try:
            while True:
                try:
                    return await self._attempt(request_id, packed, self._attempt_until(deadline))
                except RaftlogError as error:
                    last = error
                    is_unknown |= error.outcome == "unknown"
                    if not _is_worth_repeating(error):
                        raise
                if is_unknown and expected.done():
                    return expected.result()
                if self._is_over(deadline):
                    raise _outcome(last, is_unknown)
                await self._pause(pause_s, deadline)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        finally:
            self._copy.forget(request_id, expected)

    async def _attempt(self, request_id: UUID, packed: bytes, until: Deadline) -> Decided:
        leader = await self._find_leader(until)
        if leader is None:
            raise NoLeader("the controller has no leader that is known here; nothing was proposed")
        if leader == self._node.identity.node_id:
            return await self._propose(request_id, packed, until)
        try:
            answer = await self._node.ask(leader, SUBMIT, packed, (), until)
        except NotLeader as error:
            self._hint = error.leader.node_id if isinstance(error.leader, ReplicaId) else None
            raise
        except RaftlogError:
            self._hint = None
            raise
        return _decided_of(answer)

    async def _find_leader(self, until: Deadline) -> NodeId | None:
        """Whom to ask: the leader that the own replica knows, or that another node named, or any node that answers."""
        group = self._copy.group
        known = None if group is None else self._node.leader_of(group.group_id)
        if known is not None and known.leader is not None:
            return known.leader.node_id
        me = self._node.identity.node_id
        if group is not None and group.core.configuration.has_voter(self._node.identity.replica):
            soon = Deadline(min(until, self._node.loop.time() + self._attempt_s / 2))
            known = await self._node.wait_for_leader(group.group_id, soon)
            if known is not None and known.leader is not None:
                return known.leader.node_id  # otherwise it may be that the leader looks for this process elsewhere
        if self._hint is not None and self._hint != me:
            return self._hint
        others = self._others()
        self._turn += 1
        return others[self._turn % len(others)] if others else None

    def _others(self) -> list[NodeId]:
        return [peer.node for peer in self._node.transport.peers() if peer.raft.is_connected]

    # the leader's side

    async def _propose(self, request_id: UUID, packed: bytes, until: Deadline) -> Decided:
        """Propose a request here, and wait until it was applied here."""
        group = self._leading_group()
        decided = self._copy.decided(request_id)
        if decided is not None:
            return decided
        expected = self._copy.expect(request_id)
        try:
            proposed = self._proposed_once(group, request_id, packed)
            await self._first_of(until, expected, proposed)
            if expected.done():
                return expected.result()
            if proposed.done():
                proposed.result()
                await self._first_of(until, expected)
                if expected.done():
                    return expected.result()
            raise OutcomeUnknown("the controller's leader has proposed the request, and it is not committed yet")
        finally:
            self._copy.forget(request_id, expected)

    def _leading_group(self) -> Group:
        group = self._copy.group
        if group is None:
            raise NotLeader(f"node {self._node.identity.node_id} has no replica of the controller's group")
        return group

    def _proposed_once(self, group: Group, request_id: UUID, packed: bytes) -> "asyncio.Future[Committed]":
        known = self._proposed.get(request_id)
        if known is not None and not known.done():
            return known
        now_ms = self._node.surroundings.wall_ms()
        proposed = group.propose([build_batch([NewRecord(packed, None, now_ms)])])
        proposed.add_done_callback(lambda done: self._settled(request_id, done))
        if len(self._proposed) < _PROPOSED_MAX:
            self._proposed[request_id] = proposed
        return proposed

    def _settled(self, request_id: UUID, done: "asyncio.Future[Committed]") -> None:
        if self._proposed.get(request_id) is done:
            del self._proposed[request_id]
        if not done.cancelled():
            done.exception()  # whoever waited has it, or has gone

    async def _first_of(self, until: Deadline, *futures: "asyncio.Future[Decided] | asyncio.Future[Committed]") -> None:
        timeout = max(0.0, until - self._node.loop.time())
        await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    async def _serve(self, request: NodeRequest) -> Answer:
        packed = request.header
        if type(packed) is not bytes:
            raise InvalidArgument(f"node {request.node} submits a {type(packed).__name__}, which is no request")
        known = decode_request(packed)
        group = self._leading_group()
        leadership = self._node.leader_of(group.group_id)
        if leadership is None or not leadership.is_here:
            raise NotLeader("this node does not lead the controller", leadership.leader if leadership else None)
        self._check_level(known.command)
        decided = await self._propose(known.request_id, packed, request.deadline)
        error = decided.answer.error
        return Answer([decided.index, decided.answer.value, None if error is None else as_fields(error)])

    def _check_level(self, command: Command) -> None:
        """A leader that has not applied all of its log yet may not know the level that the proposer knows."""
        try:
            check_level(command, self._copy.state.feature_level)
        except InvalidArgument as error:
            raise Unavailable(str(error)) from None

    async def _serve_basis(self, request: NodeRequest) -> Answer:
        if not self.is_fit:
            raise Unavailable(f"node {self._node.identity.node_id} has no copy of the controller's state yet")
        return Answer(int(self._copy.state.applied_index))

    # time

    def _attempt_until(self, deadline: Deadline) -> Deadline:
        return Deadline(min(deadline, self._node.loop.time() + self._attempt_s))

    def _is_over(self, deadline: Deadline) -> bool:
        return self._node.loop.time() >= deadline or self._node.ended.done()

    async def _pause(self, seconds: float, deadline: Deadline) -> None:
        """Before the next attempt; shorter when another one leads meanwhile."""
        until = Deadline(min(deadline, self._node.loop.time() + seconds))
        if self._copy.group is None:
            await self._node.pause(until)
        else:
            await self._node.leader_changed(self._copy.group.group_id, until)


def _decided_of(answer: Answer) -> Decided:
    match answer.value:
        case [int(index), int(value), fields, *_]:
            error = None if fields is None else from_fields(fields)
            return Decided(Index(index), ControllerAnswer(value, error))
    raise OutcomeUnknown("the controller's leader gave an answer that cannot be read")


def _is_worth_repeating(error: RaftlogError) -> bool:
    """What is not for now, or is not known; everything else would be refused again."""
    return error.outcome == "unknown" or isinstance(error, Unavailable)


def _outcome(last: RaftlogError, is_unknown: bool) -> RaftlogError:
    if is_unknown:
        return DeadlineExceeded(f"the controller did not say in time whether it was done: {last}")
    return last if isinstance(last, NoLeader) else NoLeader(f"the controller took nothing in time: {last}")


def _name(command: Command) -> str:
    return type(command).__name__
