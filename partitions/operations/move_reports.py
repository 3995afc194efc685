"""Reports of partitions' leaders on moves: pending reassignments, their progress and their obstacles.

One request to each broker, for any number of partitions: the answer names the partitions that the broker leads, and its
replicas that have no known leader, by a state not older than the caller's. Of several reports on a partition, the
leader's with the latest term counts. A broker that does not answer in time, or runs an older release, reports nothing.

    every partition is led by a broker that answered   ⇒   partitions that are not named have no pending reassignment

Called by the operations."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from raftlog.errors import CorruptBatch, InvalidArgument, RaftlogError, Unavailable
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import GroupName, ReplicaAssignment
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.partitions.placement.balancing.progress import summed
from raftlog.partitions.placement.moves import Moves, matches_assignment
from raftlog.raft import ReplicaId, Role
from raftlog.raft.ready import FollowerStatus
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.rpc.calls import Answer, row_of
from raftlog.types import Index, NodeId
from raftlog.values.placement import MOVES_MAX, Reconfiguration, make_places

_MOVES: Final = "operations.moves"
ASK_MS: Final = 1_500
"""Time after which a broker without an answer counts as silent."""
_RETRY_MS: Final = 100
_LOOK_MS: Final = 10
_SLICE: Final = 256
"""Replicas examined in one turn of the loop."""
_ROWS_SLICE: Final = 32
"""Moves described in one turn of the loop."""
_REPORTS_MAX: Final = 5_000


class _ReplicaReport(NamedTuple):
    """Report of a broker on one of its replicas, in wire order.

    `lags` has the node id of each learner, its missing bytes (-1: unknown), and bytes a second."""

    key: bytes
    is_leader: bool
    term: int
    voters: list[int]
    learners: list[int]
    bytes: int
    lags: list[list[int]]
    reason: str | None


class MoveReports(NamedTuple):
    """All pending reassignments that brokers reported, and the brokers that did not answer.

    `is_complete`: a leader of every partition has reported, so there are no others."""

    moves: list[Reconfiguration]
    silent: list[NodeId]
    is_complete: bool


class _BrokerAnswer(NamedTuple):
    """Reports of a broker on all its replicas; `led` is a checksum of the set of groups that it leads."""

    rows: list[_ReplicaReport]
    led: bytes


class MoveReporter:
    """Requests between brokers for reports on pending reassignments."""

    def __init__(self, node: Node, metadata: ControllerHost, moves: Moves) -> None:
        self._node, self._metadata, self._moves = node, metadata, moves
        self._me = node.identity.node_id
        node.on_request(_MOVES, self._serve)

    async def collect_settled(self, deadline: Deadline) -> MoveReports:
        """Ask all brokers; repeat this for a short time while some partition has no answering leader."""
        until = Deadline(min(deadline, deadline_in(ASK_MS)))
        while True:
            seen = await self.collect(deadline)
            if seen.is_complete or self._node.loop.time() >= until:
                return seen
            await self._node.pause(Deadline(min(until, deadline_in(_RETRY_MS))))

    async def collect(self, deadline: Deadline) -> MoveReports:
        """Ask all brokers once; return the pending moves and the brokers without an answer."""
        state = self._metadata.state
        nodes = [broker.node_id for broker in state.all_brokers()]
        until = Deadline(min(deadline, deadline_in(ASK_MS)))
        answers = await asyncio.gather(*(self._ask(node, until) for node in nodes))
        best: dict[bytes, _ReplicaReport] = {}
        for report in (row for answer in answers if answer is not None for row in answer.rows):
            known = best.get(report.key)
            if known is None or (report.is_leader, report.term) > (known.is_leader, known.term):
                best[report.key] = report
        silent = [node for node, answer in zip(nodes, answers, strict=True) if answer is None]
        moves = [move for report in best.values() if (move := self._make_reconfiguration(report)) is not None]
        led = sum(int.from_bytes(answer.led) for answer in answers if answer is not None)
        is_complete = (led % (1 << 128)).to_bytes(16) == summed(self._metadata.state.group_keys())
        return MoveReports(sorted(moves, key=lambda move: (move.topic, move.partition)), silent, is_complete)

    def _make_reconfiguration(self, report: _ReplicaReport) -> Reconfiguration | None:
        """Return the pending reassignment; None for a partition that was deleted meanwhile."""
        state = self._metadata.state
        name = state.group(UUID(bytes=report.key))
        if name is None:
            return None
        assignment = state.assignment(name)
        filled = [lag for lag in report.lags if lag[1] >= 0]
        whole = report.bytes * len(report.lags)
        left = sum(lag[1] for lag in filled) if len(filled) == len(report.lags) else None
        return Reconfiguration(
            topic=state.topic_by_id(name.topic_id).name,
            partition=name.partition,
            previous_replicas=make_places(report.voters),
            current_replicas=make_places(replica.node_id for replica in assignment.replicas),
            learners=report.learners,
            bytes_left_to_move=left,
            bytes_moved=None if left is None else max(0, whole - left),
            partition_size=whole,
            bytes_per_s=sum(lag[2] for lag in report.lags),
            reason=report.reason if report.is_leader else "it has no leader, so nothing is moved",
            version=assignment.version,
        )

    async def _ask(self, node: NodeId, until: Deadline) -> _BrokerAnswer | None:
        """Return a broker's reports; None if it does not answer or cannot be understood."""
        index = int(self._metadata.state.applied_index)
        try:
            match (await self._node.ask(node, _MOVES, [index], (), until)).value:
                case [[*rows], bytes(led), *_]:
                    return _BrokerAnswer([_decode_report(row) for row in rows], led)
            return None
        except (RaftlogError, TypeError):
            return None

    # reports

    async def _serve(self, request: Request) -> Answer:
        """Answer another broker's request for the moves of groups that are led here. Raises `InvalidArgument`."""
        match request.header:
            case [int(index)]:
                answer = await self._report(index, request.deadline)
                return Answer([[list(row) for row in answer.rows], answer.led])
        raise InvalidArgument(f"request {_MOVES!r} of node {request.node} cannot be decoded")

    async def _report(self, index: int, until: Deadline) -> _BrokerAnswer:
        """Report on all replicas, once the state here has reached `index` and all groups were compared with it."""
        while self._metadata.state.applied_index < index or not self._moves.is_compared:
            if self._node.loop.time() >= until or self._node.ended.done():
                raise Unavailable(f"node {self._me} has not received the newest assignments yet")
            await self._node.pause(Deadline(min(until, deadline_in(_LOOK_MS))))
        differing = {group.key: group for group, _ in self._moves.differing_groups()}
        rows, led = [], []
        for number, group in enumerate(list(differing.values())[:_REPORTS_MAX], 1):
            rows.append(self._report_replica(group, self._moves.wait_reason(group)))
            if number % _ROWS_SLICE == 0:
                await asyncio.sleep(0)
        for number, group in enumerate(list(self._node.driver.groups.values()), 1):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            if group.core.has_own_term_commit and self._metadata.state.group(group.group_id) is not None:
                led.append(group.key)
            elif len(rows) < _REPORTS_MAX and group.key not in differing and self._is_stuck(group):
                rows.append(self._report_replica(group, None))
        return _BrokerAnswer(rows, summed(led))

    def _is_stuck(self, group: PartitionReplica) -> bool:
        """Return whether the replica has no known leader and a pending reassignment.

        An unassigned replica may have been removed already and so lacks a leader: it counts only where no assigned
        replica is in the Raft configuration and can report."""
        core = group.core
        if core.leader is not None or group.is_closed or not core.configuration.index:
            return False
        assignment = assignment_of(self._metadata, group)
        if assignment is None or matches_assignment(core.configuration, assignment.replicas):
            return False
        me, wanted = self._node.identity.replica, assignment.replicas
        return me in wanted or not any(core.configuration.has_member(each) for each in wanted)

    def _report_replica(self, group: PartitionReplica, reason: str | None) -> _ReplicaReport:
        """Return the report on a replica; only a leader reports the lags of learners."""
        core = group.core
        configuration, is_leader = core.configuration, core.role is Role.LEADER
        followers = {each.member: each for each in core.status().followers} if is_leader else {}
        return _ReplicaReport(
            group.key,
            is_leader,
            core.term,
            [voter.node_id for voter in configuration.outgoing or configuration.voters],
            [learner.node_id for learner in configuration.learners],
            group.log.segments.size_bytes,
            [self._learner_lag(group, learner, followers.get(learner)) for learner in configuration.learners],
            reason,
        )

    def _learner_lag(self, group: PartitionReplica, learner: ReplicaId, follower: FollowerStatus | None) -> list[int]:
        """Return node id, missing bytes (−1: unknown) and bytes per second of a learner."""
        rate = self._node.driver.supplier.rate_of(group, learner.node_id)
        if follower is None:
            return [learner.node_id, -1, rate]
        first = Index(max(follower.match_index, group.log.boundary.index) + 1)
        try:
            left = group.log.stored_bytes_from(first) if follower.match_index < group.core.committed_index else 0
        except CorruptBatch:
            left = -1  # the read path reports the damage
        return [learner.node_id, left, rate]


def assignment_of(metadata: ControllerHost, group: PartitionReplica) -> ReplicaAssignment | None:
    """Return the assignment of a topic's group; None for the controller's group and for unknown topics."""
    name: GroupName | None = metadata.state.group(group.group_id)
    return None if name is None else metadata.state.assignment(name)


def moves_of_node(moves: Sequence[Reconfiguration], node: int) -> Iterator[Reconfiguration]:
    """Return the moves from or to this broker."""
    return (move for move in moves if (node in move.from_nodes) != (node in move.to_nodes))


def limit_moves(moves: Sequence[Reconfiguration]) -> list[Reconfiguration]:
    """Return at most `MOVES_MAX` moves, those whose learners are being filled first."""
    return sorted(moves, key=lambda move: (not move.learners, move.topic, move.partition))[:MOVES_MAX]


def _decode_report(row: Any) -> _ReplicaReport:
    """Decode a report. Raises `TypeError` for an invalid one."""
    match row:
        case [bytes(), bool(), int(), [*_], [*_], int(), [*lags], None | str(), *_] if all(
            type(lag) is list and len(lag) >= 3 for lag in lags
        ):
            return row_of(_ReplicaReport, row)
    raise TypeError(f"{row!r} is no report on a move")
