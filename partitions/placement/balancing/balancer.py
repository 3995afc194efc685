"""Balancer: submits placements of replicas and leaders to the controller; it runs at the controller's leader.

    look → availability · running moves (`progress`) · `plan` · submit up to the limit · remove empty draining brokers

    moving partitions ≤ moves_max      (those that can only wait are not counted)

Everything follows from the committed state and from the brokers' present answers; a new leader of the controller
starts anew (`tenure`). Assignments name the version that they replace: the first one wins, and then everything is
planned anew. Other brokers only answer for the partitions that they lead, and forward requests for `report` and
`rebalance`. Called by the broker."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from random import Random
from typing import Final

from raftlog.errors import NoLeader, NotLeader, RaftlogError, RequestError
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import RemoveBroker, SetAssignment
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import BackgroundLoop, Node, Request
from raftlog.partitions.placement.balancing.broker_removal import may_remove
from raftlog.partitions.placement.balancing.plan import Change, ChangeReason
from raftlog.partitions.placement.balancing.planning_task import PlanningTask
from raftlog.partitions.placement.balancing.progress import BrokerProgress, HeldReplicas
from raftlog.partitions.placement.balancing.report import (
    BalancerReport,
    BalancerSettings,
    decode_report,
    nodes_in_words,
)
from raftlog.partitions.placement.balancing.report_assembly import report_on
from raftlog.partitions.placement.balancing.tenure import Tenure, name_in
from raftlog.partitions.placement.moves import Moves
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import Index, NodeId

_logger = logging.getLogger(__name__)

REPORT: Final = "balancing.report"
REBALANCE: Final = "balancing.rebalance"
LOOK_S: Final = 1.0
MOVING_LOOK_S: Final = 0.15
"""Interval of the balancer's runs in seconds while partitions are moving."""
_PAUSE_S: Final = 0.05
_ASK_MS: Final = 1_500
_ORDER_MS: Final = 5_000
_LEADERS_A_LOOK: Final = 64
_RETRY_S: Final = 0.1


class Balancer(BackgroundLoop):
    """Background task that plans and submits reassignments while this process leads the controller."""

    purpose = "balancing"

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        moves: Moves,
        settings: Callable[[], BalancerSettings],
        random: Random,
        is_settled: Callable[[], bool],
    ) -> None:
        """Create an idle balancer, which works while this process leads the controller.

        `settings` returns its present settings; `is_settled`: whether this broker has created all its replicas."""
        self._node, self._metadata, self._settings, self._random = node, metadata, settings, random
        self._progress = BrokerProgress(node, metadata, moves, is_settled)
        self._changed = asyncio.Event()
        self._tenure: Tenure | None = None
        self._planning: PlanningTask
        """Planning of the present tenure."""
        self._asked: bytes = b""
        """Digest of the assignments for which all brokers have answered."""
        node.on_request(REPORT, self._serve_report)
        node.on_request(REBALANCE, self._serve_rebalance)

    def state_changed(self) -> None:
        """Schedule a run, if this process leads the controller."""
        if self._tenure is not None:
            self._changed.set()

    # on any broker

    async def report(self, deadline: Deadline) -> BalancerReport:
        """Return the report of the controller's leader. Raises `NoLeader`."""
        return decode_report((await self._ask_leader(REPORT, deadline)).value)

    async def rebalance(self, deadline: Deadline) -> int:
        """Start to even out replicas and leaders, in any mode.

        Return a lower bound of the number of partitions to move."""
        return int((await self._ask_leader(REBALANCE, deadline)).value)

    async def _ask_leader(self, name: str, deadline: Deadline) -> Answer:
        """Return the answer of the controller's leader; retry until `deadline`. Raises `NoLeader`."""
        loop, why = self._node.loop, "no leader of the controller is known"
        while True:
            leader = self._metadata.freshness().leader
            try:
                if leader is not None:
                    return await self._node.ask(leader, name, None, (), deadline)
            except RaftlogError as error:
                why = str(error)
            if loop.time() + _RETRY_S >= deadline or self._node.ended.done():
                raise NoLeader(f"the controller's leader did not answer about balancing: {why}")
            await self._node.pause(Deadline(loop.time() + _RETRY_S))

    async def _serve_report(self, request: Request) -> Answer:
        """Answer with the balancer's report."""
        tenure = self._current_tenure()
        state, settings = self._metadata.state, self._settings()
        return Answer(report_on(self._node, state, settings, tenure, has_planned=self._planning.has_planned).pack())

    async def _serve_rebalance(self, request: Request) -> Answer:
        """Start a rebalance; answer with the number of planned moves, or of leader changes if there are no moves."""
        tenure = self._current_tenure()
        tenure.is_ordered = True
        tenure.recently_placed.clear()
        loop = self._node.loop
        while not self._planning.are_settled() and loop.time() + _RETRY_S < request.deadline:
            await self._node.pause(Deadline(loop.time() + _RETRY_S))
        self._current_tenure()
        planner = await self._planning.count()
        self._planning.forget()
        self._changed.set()
        return Answer(sum(change.why is not ChangeReason.LEADERS for change in planner.changes) or len(planner.changes))

    def _current_tenure(self) -> Tenure:
        """Return the state of the present leadership. Raises `NotLeader` unless this process leads the controller."""
        if self._tenure is None or not self._metadata.is_leading:
            raise NotLeader(f"node {self._node.identity.node_id} does not lead the controller, or leads it just now")
        return self._tenure

    # looks

    async def _run(self) -> None:
        """Run the balancer regularly and after changes, while this node leads the controller."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MOVING_LOOK_S if self._is_moving() else LOOK_S):
                    await self._changed.wait()
            self._changed.clear()
            if not self._metadata.is_leading:
                self._tenure = None
                continue
            tenure = self._begin_tenure()
            try:
                tenure.problem = None
                await self._run_once(tenure)
            except (RaftlogError, TimeoutError) as error:
                tenure.problem = str(error)
                _logger.info("balancing: %s", error)
            await asyncio.sleep(_PAUSE_S)

    def _is_moving(self) -> bool:
        """Return whether moves are running or planned."""
        return self._tenure is not None and bool(self._tenure.running_moves or self._tenure.queue)

    def _begin_tenure(self) -> Tenure:
        """Return the state of the leadership in the present term; create it if the term is new."""
        term = self._metadata.term
        if self._tenure is None or self._tenure.term != term:
            self._tenure = Tenure(term, self._node.loop.time())
            self._planning = PlanningTask(self._node, self._metadata, self._settings, self._random, self._tenure)
            self._asked = b""
        return self._tenure

    def _leads(self, tenure: Tenure) -> bool:
        """Return whether this process still leads in the term of the tenure."""
        return self._metadata.is_leading and self._metadata.term == tenure.term

    async def _run_once(self, tenure: Tenure) -> None:
        """Ask the brokers, plan and submit changes; stop if a broker does not answer or the leadership is lost."""
        state, now = self._metadata.state, self._node.loop.time()
        tenure.availability.record({each.node_id: self._is_reachable(each.node_id) for each in state.brokers}, now)
        tenure.record_full(self._planning.find_full_brokers(), now)
        tenure.record_environment(state, now)
        tenure.looked_at = now
        reports = await self._ask_brokers(tenure)
        if not self._leads(tenure) or tenure.unanswered:
            return
        await self._planning.plan_if_due()
        if self._leads(tenure):
            await self._submit_changes(tenure)
        if self._leads(tenure):
            await self._remove_emptied(tenure, reports)

    def _is_reachable(self, node: NodeId) -> bool:
        """Return whether the node is this one, or alive."""
        return node == self._node.identity.node_id or self._node.is_alive(node)

    async def _ask_brokers(self, tenure: Tenure) -> dict[NodeId, HeldReplicas | None]:
        """Ask all available brokers for their moving partitions, unless the answers cannot have changed."""
        state = self._metadata.state
        digest = state.moved.digest
        draining = [broker for broker in state.brokers if broker.is_draining]
        if not tenure.running_moves and not tenure.unanswered and digest == self._asked and not draining:
            return {}
        heard = [broker.node_id for broker in state.all_brokers() if tenure.availability.is_reachable(broker.node_id)]
        keys = [name.group_id.bytes for name in tenure.running_moves]
        with_led = any(not state.load(each.replica).replicas for each in draining)
        reports = await self._progress.ask(heard, keys, deadline_in(_ASK_MS), with_led=with_led)
        if self._leads(tenure):
            tenure.apply_reports(reports, self._metadata.state, self._node.loop.time())
            self._asked = b"" if tenure.unanswered else digest
        return reports

    # submission

    async def _submit_changes(self, tenure: Tenure) -> None:
        """Submit planned changes, up to the limit."""
        now = self._node.loop.time()
        free = tenure.startable_moves(self._settings().moves_max, now)
        changes: list[Change] = []
        while tenure.queue and len(changes) < _LEADERS_A_LOOK:
            change = tenure.queue[0]
            if change.why is not ChangeReason.LEADERS:
                if free < 1:
                    break
                free -= 1
                tenure.count_move_start()
            changes.append(tenure.queue.popleft())
        if not changes:
            return
        done = await asyncio.gather(*(self._submit_change(tenure, change) for change in changes))
        if not all(done):
            self._planning.forget()

    async def _submit_change(self, tenure: Tenure, change: Change) -> bool:
        """Submit one change; return whether it was committed."""
        state, group = self._metadata.state, change.group
        if not state.has_group(group):
            return False
        name = name_in(state, group)
        before = state.assignment(group).replicas
        command = SetAssignment(group.topic_id, group.partition, change.replicas, Index(change.version))
        if change.why is not ChangeReason.LEADERS:
            missing = [replica.node_id for replica in change.replicas if replica not in before]
            tenure.record_submission(group, missing, self._node.loop.time())
        try:
            version = await self._metadata.submit(command, deadline_in(_ORDER_MS))
        except RaftlogError as error:
            if isinstance(error, RequestError):
                tenure.running_moves.pop(group, None)
            _logger.info("balancing: %s could not be placed on %s: %s", name, _replica_names(change), error)
            return False
        tenure.record_ordered(group, version)
        _logger.info("balancing: %s is to be on %s: %s", name, _replica_names(change), change.why)
        return True

    async def _remove_emptied(self, tenure: Tenure, reports: dict[NodeId, HeldReplicas | None]) -> None:
        """Remove draining brokers that have no replicas any more."""
        state = self._metadata.state
        voters = self._metadata.controller_voters()
        is_settled = not tenure.running_moves and state.moved.digest == self._asked
        for broker in state.all_brokers():
            if broker.is_draining and may_remove(broker, state, reports, voters, is_settled=is_settled):
                await self._metadata.submit(RemoveBroker(broker.node_id, broker.disk_uuid), deadline_in(_ORDER_MS))
                _logger.info("balancing: node %s holds no replicas any more and was removed", broker.node_id)


def _replica_names(change: Change) -> str:
    """Return the node ids of a change as text."""
    return nodes_in_words([replica.node_id for replica in change.replicas])
