"""Submission of commands to the controller's log, from any node; each command is executed once.

    here                   the controller's leader
    submit  ── control.submit ──▶  proposes the request, waits until it has applied it
            ◀── index, answer ──

The request id and the basis index stay the same in all repetitions; the state machine applies an id once
(docs/CONTROLLER.md, section 4). So a request of unknown outcome is repeated, at the present leader, until the
deadline. A leader does not propose an id again while its first proposal has no outcome."""

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
from raftlog.partitions.controller.local_copy import Decision, LocalCopy
from raftlog.partitions.controller.machine import Command, CommandRequest, check_level, decode_request, encode_request
from raftlog.partitions.controller.machine import CommandAnswer as ControllerAnswer
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node
from raftlog.partitions.node import Request as NodeRequest
from raftlog.partitions.node.opening import draw_uuid
from raftlog.raft import ReplicaId
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.failures import decode_error, encode_error
from raftlog.types import Index, NodeId

_logger = logging.getLogger(__name__)
SUBMIT = "control.submit"
BASIS = "control.basis"
_PAUSE_S = 0.02
_PAUSE_S_MAX = 0.25
_PROPOSED_MAX = 10_000
"""Limit of this leader's proposals without an outcome."""


class CommandProposals:
    """Proposals of commands to the controller: own ones, and those that other nodes forward to this leader."""

    def __init__(self, node: Node, copy: LocalCopy, attempt_ms: int) -> None:
        """Prepare to propose commands, here or through other nodes.

        An attempt lasts up to `attempt_ms` milliseconds."""
        self._node, self._copy = node, copy
        self._attempt_s = attempt_ms / 1000
        self._proposed: dict[UUID, asyncio.Future[Committed]] = {}
        self._hint: NodeId | None = None
        """Leader named by another node, used while the own replica knows none."""
        self.named_leader: ReplicaId | None = None
        """Last leader that another node named; it may have joined later than the copy here, and be unknown."""
        self._turn = 0
        """Counter of attempts to find a leader, so that they go to different nodes."""
        self.was_up_to_date = False
        """Whether the own copy was up to date once, so that its applied index can be the basis of a request."""
        node.on_request(SUBMIT, self._serve)
        node.on_request(BASIS, self._serve_basis)

    @property
    def _knows_level(self) -> bool:
        """Whether the copy here has the cluster's feature level, which the bootstrap command sets."""
        return self.was_up_to_date and self._copy.state.bootstrap is not None

    def refuses(self, command: Command) -> bool:
        """Return whether `submit` would refuse the command by the feature level of the copy here."""
        if not self._knows_level:
            return False
        try:
            check_level(command, self._copy.state.feature_level)
        except InvalidArgument:
            return True
        return False

    async def submit(self, command: Command, deadline: Deadline, basis: Index | None = None) -> int:
        """Submit a command; return its number once the local copy has applied it as well, or raise its error.

        `basis` is a recent index that was applied here; None: determined here. Raises `Unavailable` when the command
        was definitely not proposed, `DeadlineExceeded` when it may have been, and `InvalidArgument` for a command above
        the cluster's feature level."""
        if self._knows_level:
            check_level(command, self._copy.state.feature_level)
        request_id = draw_uuid(self._node.environment.random)
        if basis is None:
            basis = await self._find_basis(deadline)
        packed = encode_request(CommandRequest(request_id, basis, command))
        decided = await self._decide(request_id, packed, deadline)
        value = decided.answer.result()
        if self._copy.group is not None and not await self._copy.wait_for_index(decided.index, deadline):
            raise DeadlineExceeded(
                f"{_command_name(command)} was executed, but this node had not applied it before the deadline"
            )
        return value

    async def _find_basis(self, deadline: Deadline) -> Index:
        """Return the basis index of a request (docs/CONTROLLER.md, section 4): the index applied here.

        If this copy may be outdated, return the index applied at another node. Raises `NoLeader`."""
        if self.was_up_to_date:
            return self._copy.state.applied_index
        while True:
            for node in self._connected_nodes():
                try:
                    answer = await self._node.ask(node, BASIS, None, (), self._attempt_deadline(deadline))
                except RaftlogError as error:
                    _logger.debug("node %s did not return its applied index: %s", node, error)
                    continue
                if type(answer.value) is int:
                    return Index(answer.value)
            if self._is_over(deadline):
                raise NoLeader("no node that knows the controller's state was reached in time; nothing was proposed")
            await self._pause(_PAUSE_S_MAX, deadline)

    async def _decide(self, request_id: UUID, packed: bytes, deadline: Deadline) -> Decision:
        """Submit a request until it is decided; at the deadline raise its last error.

        The outcome is unknown if the outcome of any attempt was unknown."""
        is_unknown, pause_s = False, _PAUSE_S
        expected = self._copy.expect(request_id)
        try:
            while True:
                try:
                    return await self._attempt(request_id, packed, self._attempt_deadline(deadline))
                except RaftlogError as error:
                    last = error
                    is_unknown |= error.outcome == "unknown"
                    if not _is_retryable(error):
                        raise
                if is_unknown and expected.done():
                    return expected.result()
                if self._is_over(deadline):
                    raise _final_error(last, is_unknown)
                await self._pause(pause_s, deadline)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        finally:
            self._copy.forget(request_id, expected)

    async def _attempt(self, request_id: UUID, packed: bytes, until: Deadline) -> Decision:
        """Propose a request here if this node leads, or forward it to the leader once."""
        leader = await self._find_leader(until)
        if leader is None:
            raise NoLeader("the controller has no leader that is known here; nothing was proposed")
        if leader == self._node.identity.node_id:
            return await self._propose(request_id, packed, until)
        try:
            answer = await self._node.ask(leader, SUBMIT, packed, (), until)
        except NotLeader as error:
            leader_there = error.leader if isinstance(error.leader, ReplicaId) else None
            self._hint = None if leader_there is None else leader_there.node_id
            self.named_leader = leader_there or self.named_leader
            raise
        except RaftlogError:
            self._hint = None
            raise
        return _read_decision(answer)

    async def _find_leader(self, until: Deadline) -> NodeId | None:
        """Return the destination of a proposal: the leader known here, one that a node named, or a connected node."""
        group = self._copy.group
        known = None if group is None else self._node.leader_of(group.group_id)
        if known is not None and known.leader is not None:
            return known.leader.node_id
        me = self._node.identity.node_id
        if group is not None and group.core.configuration.has_voter(self._node.identity.replica):
            soon = Deadline(min(until, self._node.loop.time() + self._attempt_s / 2))
            known = await self._node.wait_for_leader(group.group_id, soon)
            if known is not None and known.leader is not None:
                return known.leader.node_id  # without one, the leader may have another address of this process
        if self._hint is not None and self._hint != me:
            return self._hint
        others = self._connected_nodes()
        self._turn += 1
        return others[self._turn % len(others)] if others else None

    def _connected_nodes(self) -> list[NodeId]:
        """Return the nodes to which this node has a connection."""
        return [peer.node for peer in self._node.transport.peers() if peer.raft.is_connected]

    # at the leader

    async def _propose(self, request_id: UUID, packed: bytes, until: Deadline) -> Decision:
        """Propose a request here, wait until it is applied here, and return the decision."""
        group = self._require_replica()
        decided = self._copy.result_of(request_id)
        if decided is not None:
            return decided
        expected = self._copy.expect(request_id)
        try:
            proposed = self._propose_once(group, request_id, packed)
            await self._wait_for_first(until, expected, proposed)
            if expected.done():
                return expected.result()
            if proposed.done():
                proposed.result()
                await self._wait_for_first(until, expected)
                if expected.done():
                    return expected.result()
            raise OutcomeUnknown("the controller's leader has proposed the request, and it is not committed yet")
        finally:
            self._copy.forget(request_id, expected)

    def _require_replica(self) -> PartitionReplica:
        """Return the controller's replica here. Raises `NotLeader` if there is none."""
        group = self._copy.group
        if group is None:
            raise NotLeader(f"node {self._node.identity.node_id} has no replica of the controller's group")
        return group

    def _propose_once(self, group: PartitionReplica, request_id: UUID, packed: bytes) -> "asyncio.Future[Committed]":
        """Propose a request; return the future of an earlier proposal that is still pending."""
        known = self._proposed.get(request_id)
        if known is not None and not known.done():
            return known
        now_ms = self._node.environment.wall_ms()
        proposed = group.propose([build_batch([NewRecord(packed, None, now_ms)])])
        proposed.add_done_callback(lambda done: self._on_outcome(request_id, done))
        if len(self._proposed) < _PROPOSED_MAX:
            self._proposed[request_id] = proposed
        return proposed

    def _on_outcome(self, request_id: UUID, done: "asyncio.Future[Committed]") -> None:
        """Forget an ended proposal, so that a repetition of its request proposes again."""
        if self._proposed.get(request_id) is done:
            del self._proposed[request_id]
        if not done.cancelled():
            done.exception()  # waiting requests have it already

    async def _wait_for_first(
        self, until: Deadline, *futures: "asyncio.Future[Decision] | asyncio.Future[Committed]"
    ) -> None:
        """Wait until one of the futures is done, or until the deadline."""
        timeout = max(0.0, until - self._node.loop.time())
        await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    async def _serve(self, request: NodeRequest) -> Answer:
        """Propose another node's request as leader. Raises `NotLeader`."""
        packed = request.header
        if type(packed) is not bytes:
            raise InvalidArgument(f"node {request.node} submits a {type(packed).__name__}, which is no request")
        known = decode_request(packed)
        group = self._require_replica()
        leadership = self._node.leader_of(group.group_id)
        if leadership is None or not leadership.is_here:
            raise NotLeader("this node does not lead the controller", leadership.leader if leadership else None)
        self._check_level(known.command)
        decided = await self._propose(known.request_id, packed, request.deadline)
        error = decided.answer.error
        return Answer([decided.index, decided.answer.value, None if error is None else encode_error(error)])

    def _check_level(self, command: Command) -> None:
        """Raise an error for a command above the cluster's feature level.

        `Unavailable` while the level is unknown here: a new leader may not have applied its whole log."""
        try:
            check_level(command, self._copy.state.feature_level)
        except InvalidArgument as error:
            raise Unavailable(str(error)) from None

    async def _serve_basis(self, request: NodeRequest) -> Answer:
        """Answer with the index applied here. Raises `Unavailable` while this copy may be outdated."""
        if not self.was_up_to_date:
            raise Unavailable(f"node {self._node.identity.node_id} has no copy of the controller's state yet")
        return Answer(int(self._copy.state.applied_index))

    # time

    def _attempt_deadline(self, deadline: Deadline) -> Deadline:
        """Return the deadline of one attempt."""
        return Deadline(min(deadline, self._node.loop.time() + self._attempt_s))

    def _is_over(self, deadline: Deadline) -> bool:
        """Return whether the deadline has passed or the node has ended."""
        return self._node.loop.time() >= deadline or self._node.ended.done()

    async def _pause(self, seconds: float, deadline: Deadline) -> None:
        """Wait before the next attempt; return earlier if the leader changes."""
        until = Deadline(min(deadline, self._node.loop.time() + seconds))
        if self._copy.group is None:
            await self._node.pause(until)
        else:
            await self._node.leader_changed(self._copy.group.group_id, until)


def _read_decision(answer: Answer) -> Decision:
    """Return the decision in a leader's answer. Raises `OutcomeUnknown` if it cannot be decoded."""
    match answer.value:
        case [int(index), int(value), fields, *_]:
            error = None if fields is None else decode_error(fields)
            return Decision(Index(index), ControllerAnswer(value, error))
    raise OutcomeUnknown("the answer of the controller's leader cannot be read")


def _is_retryable(error: RaftlogError) -> bool:
    """Return whether the error is temporary or its outcome unknown; other errors would recur."""
    return error.outcome == "unknown" or isinstance(error, Unavailable)


def _final_error(last: RaftlogError, is_unknown: bool) -> RaftlogError:
    """Return the error at the deadline: an unknown outcome if any attempt had one, else `NoLeader`."""
    if is_unknown:
        return DeadlineExceeded(f"the outcome at the controller is unknown at the deadline: {last}")
    return (
        last
        if isinstance(last, NoLeader)
        else NoLeader(f"the controller accepted no request before the deadline: {last}")
    )


def _command_name(command: Command) -> str:
    return type(command).__name__
