"""Has the controller decide where replicas and leaders shall be next, wherever the controller is led.

    look → who is heard · what moves still (`progress`) · `plan` · order what there is room for · remove who is empty

    partitions on their way ≤ moves_max      (those that can only wait are not counted)

Everything follows from the committed state and from what brokers answer now; a new leader of the controller begins
anew (`tenure`). Orders name the version that they replace: who was faster wins, and then everything is planned anew.
Other brokers only answer what they lead, and pass questions for `report` and `rebalance` on. Called by the broker.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from random import Random
from typing import Final

from raftlog.errors import NoLeader, NotLeader, RaftlogError, RequestError
from raftlog.partitions.balancing.layout import Mode, Place
from raftlog.partitions.balancing.plan import Change, Planner, Why, Wishes
from raftlog.partitions.balancing.progress import Progress, Told
from raftlog.partitions.balancing.removal import may_remove
from raftlog.partitions.balancing.report import (
    BalancerSettings,
    Misplaced,
    Report,
    grouped,
    nodes_in_words,
    report_of,
)
from raftlog.partitions.balancing.tenure import Tenure, name_in
from raftlog.partitions.control import RemoveBroker, SetAssignment
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.metadata import Metadata
from raftlog.partitions.moves import Moves
from raftlog.partitions.multiraft import Node, Request
from raftlog.runtime.rpc import Answer
from raftlog.types import Index, NodeId

_logger = logging.getLogger(__name__)

REPORT: Final = "balancing.report"
REBALANCE: Final = "balancing.rebalance"
LEVEL: Final = 3
"""The feature level from which brokers answer what moves."""
LOOK_S: Final = 1.0
MOVING_LOOK_S: Final = 0.1
"""Between two looks while partitions are on their way."""
_PAUSE_S: Final = 0.05
_ASK_MS: Final = 1_500
_ORDER_MS: Final = 5_000
_QUEUE_MAX: Final = 256
"""Changes planned ahead."""
_COUNTED_MAX: Final = 10_000
"""Changes planned to say how many there will be."""
_LEADERS_A_LOOK: Final = 64
_SLICE_S: Final = 0.001
_PLAN_PAUSE_S: Final = 0.0002
"""For each partition, from one plan to the next: about twenty times what it costs to look at it."""
_RETRY_S: Final = 0.1


class Balancer:
    """Runs from `start` to `stop`."""

    def __init__(
        self, node: Node, metadata: Metadata, moves: Moves, settings: Callable[[], BalancerSettings], random: Random
    ) -> None:
        self._node, self._metadata, self._settings, self._random = node, metadata, settings, random
        self._progress = Progress(node, metadata, moves)
        self._changed = asyncio.Event()
        self._planning = asyncio.Lock()
        self._tenure: Tenure | None = None
        self._asked: bytes = b""
        """Digest of the assignments by which all have answered."""
        self._planned: object = None
        """What the last plan was made of."""
        self._planned_for: object = None
        """The part of it that the queue rests on."""
        self._plan_at = 0.0
        """When the next plan may be made."""
        self._task: asyncio.Task[None] | None = None
        node.on_request(REPORT, self._serve_report)
        node.on_request(REBALANCE, self._serve_rebalance)

    def start(self) -> None:
        self._task = self._node.keep_up(self._run(), "balancing")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def state_changed(self) -> None:
        """The controller's state is another one."""
        if self._tenure is not None:
            self._changed.set()

    # on any broker

    async def report(self, deadline: Deadline) -> Report:
        """What it does, as the controller's leader says. Raises `NoLeader`."""
        return report_of((await self._ask_leader(REPORT, deadline)).value)

    async def rebalance(self, deadline: Deadline) -> int:
        """Even numbers whatever the mode, until there is nothing to do; how many partitions are to move, at least."""
        return int((await self._ask_leader(REBALANCE, deadline)).value)

    async def _ask_leader(self, name: str, deadline: Deadline) -> Answer:
        serve = self._serve_report if name == REPORT else self._serve_rebalance
        me, loop, why = self._node.identity.node_id, self._node.loop, "nobody is known to lead it"
        while True:
            leader = self._metadata.freshness().leader
            try:
                if leader == me:
                    return await serve(Request(me, None, (), deadline))
                if leader is not None:
                    return await self._node.ask(leader, name, None, (), deadline)
            except RaftlogError as error:
                why = str(error)
            if loop.time() + _RETRY_S >= deadline or self._node.ended.done():
                raise NoLeader(f"the controller's leader does not say what is balanced: {why}")
            await self._node.pause(Deadline(loop.time() + _RETRY_S))

    async def _serve_report(self, request: Request) -> Answer:
        return Answer(self._report(self._tenure_of_now()).packed())

    async def _serve_rebalance(self, request: Request) -> Answer:
        tenure = self._tenure_of_now()
        tenure.is_ordered = True
        tenure.resting.clear()
        while not self._are_settled(tenure) and self._node.loop.time() + _RETRY_S < request.deadline:
            await self._node.pause(Deadline(self._node.loop.time() + _RETRY_S))
        tenure = self._tenure_of_now()
        planner = await self._plan(tenure, self._wishes(tenure), _COUNTED_MAX)
        self._planned = None
        self._changed.set()
        return Answer(sum(change.why is not Why.LEADERS for change in planner.changes) or len(planner.changes))

    def _tenure_of_now(self) -> Tenure:
        if self._tenure is None or not self._metadata.is_leading:
            raise NotLeader(f"node {self._node.identity.node_id} does not lead the controller, or leads it just now")
        return self._tenure

    # looking

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MOVING_LOOK_S if self._is_moving() else LOOK_S):
                    await self._changed.wait()
            self._changed.clear()
            if not self._metadata.is_leading:
                self._tenure = None
                continue
            tenure = self._begun()
            try:
                tenure.problem = None
                await self._look(tenure)
            except (RaftlogError, TimeoutError) as error:
                tenure.problem = str(error)
                _logger.info("balancing: %s", error)
            await asyncio.sleep(_PAUSE_S)

    def _is_moving(self) -> bool:
        return self._tenure is not None and bool(self._tenure.ways or self._tenure.queue)

    def _begun(self) -> Tenure:
        term = self._metadata.term
        if self._tenure is None or self._tenure.term != term:
            self._tenure = Tenure(term, self._node.loop.time())
            self._asked, self._planned, self._planned_for = b"", None, None
        return self._tenure

    def _leads(self, tenure: Tenure) -> bool:
        """Whether it still does, after others had the loop."""
        return self._metadata.is_leading and self._metadata.term == tenure.term

    async def _look(self, tenure: Tenure) -> None:
        state, now = self._metadata.state, self._node.loop.time()
        tenure.availability.look({each.node_id: self._hears(each.node_id) for each in state.brokers}, now)
        tenure.note_surroundings(state, now)
        tenure.looked_at = now
        if state.feature_level < LEVEL:
            return
        told = await self._ask(tenure)
        if not self._leads(tenure) or tenure.unanswered:
            return
        await self._maybe_plan(tenure)
        if self._leads(tenure):
            await self._order(tenure)
        if self._leads(tenure):
            await self._maybe_remove(tenure, told)

    def _hears(self, node: NodeId) -> bool:
        return node == self._node.identity.node_id or self._node.is_alive(node)

    async def _ask(self, tenure: Tenure) -> dict[NodeId, Told | None]:
        """What all that are heard say of what moves, if there can be anything new."""
        state = self._metadata.state
        digest = state.moved.digest
        draining = [broker for broker in state.brokers if broker.is_draining]
        if not tenure.ways and not tenure.unanswered and digest == self._asked and not draining:
            return {}
        heard = [broker.node_id for broker in state.all_brokers() if tenure.availability.is_heard(broker.node_id)]
        keys = [name.group_id.bytes for name in tenure.ways]
        with_led = any(each.node_id not in heard and not state.load(each.replica).replicas for each in draining)
        told = await self._progress.ask(heard, keys, deadline_in(_ASK_MS), with_led=with_led)
        if self._leads(tenure):
            tenure.note_told(told, self._metadata.state, self._node.loop.time())
            self._asked = b"" if tenure.unanswered else digest
        return told

    # planning

    def _places(self, tenure: Tenure) -> list[Place]:
        state, now, fitness = self._metadata.state, self._node.loop.time(), self._node.standing.fitness
        full = [broker.node_id for broker in state.brokers if fitness.is_full(broker.node_id, now)]
        return tenure.places(state, full, self._settings(), now)

    def _wishes(self, tenure: Tenure) -> Wishes:
        settings = self._settings()
        if tenure.is_ordered:
            return Wishes(Mode.CONTINUOUS, True, balances_leaders=True)
        is_calm = tenure.is_calm(self._node.loop.time())
        return Wishes(settings.mode, is_calm and settings.mode is not Mode.OFF, settings.balances_leaders)

    async def _maybe_plan(self, tenure: Tenure) -> None:
        """Fill the queue, unless nothing can have changed since the last plan."""
        now = self._node.loop.time()
        places, wishes = self._places(tenure), self._wishes(tenure)
        if tenure.queue and self._planned_for == (places, wishes):
            return
        inputs = (places, wishes, *tenure.inputs(self._metadata.state, self._settings(), now))
        if inputs == self._planned or now < self._plan_at or now - tenure.began_at < LOOK_S:
            return
        planner = await self._plan(tenure, wishes, _QUEUE_MAX)
        self._planned, self._planned_for = inputs, (places, wishes)
        tenure.queue.clear()
        tenure.queue.extend(planner.changes)
        tenure.failures, tenure.failures_count = planner.failures, planner.failures_count
        if not planner.changes and not tenure.ways and self._are_settled(tenure):
            tenure.is_ordered = False

    def _are_settled(self, tenure: Tenure) -> bool:
        """Whether all that are heard can be given something, as far as time goes."""
        now, there = self._node.loop.time(), tenure.availability
        heard = [broker.node_id for broker in self._metadata.state.brokers if self._hears(broker.node_id)]
        return all(there.is_available(node, now) for node in heard)

    async def _plan(self, tenure: Tenure, wishes: Wishes, limit: int) -> Planner:
        """Plan in slices; others have the loop in between."""
        loop = self._node.loop
        async with self._planning:
            state, now = self._metadata.state, loop.time()
            self._plan_at = now + _PLAN_PAUSE_S * state.group_count()
            planner = Planner(self._places(tenure), wishes, self._random, limit)
            sliced_at = now
            for _ in planner.run(tenure.placed(state, self._settings(), now)):
                if loop.time() - sliced_at >= _SLICE_S:
                    await asyncio.sleep(0)
                    sliced_at = loop.time()
        return planner

    # ordering

    async def _order(self, tenure: Tenure) -> None:
        """Give the orders that there is room for."""
        now = self._node.loop.time()
        free = tenure.may_set_out(self._settings().moves_max, now)
        orders: list[Change] = []
        while tenure.queue and len(orders) < _LEADERS_A_LOOK:
            change = tenure.queue[0]
            if change.why is not Why.LEADERS:
                if free < 1:
                    break
                free -= 1
                tenure.note_setting_out()
            orders.append(tenure.queue.popleft())
        if not orders:
            return
        done = await asyncio.gather(*(self._order_one(tenure, change) for change in orders))
        if not all(done):
            tenure.queue.clear()
            self._planned = None

    async def _order_one(self, tenure: Tenure, change: Change) -> bool:
        """Whether it was decided."""
        state, group = self._metadata.state, change.group
        if not state.has_group(group):
            return False
        name = name_in(state, group)
        before = state.assignment(group).replicas
        command = SetAssignment(group.topic_id, group.partition, change.replicas, Index(change.version))
        if change.why is not Why.LEADERS:
            missing = [replica.node_id for replica in change.replicas if replica not in before]
            tenure.note_leaving(group, missing, self._node.loop.time())
        try:
            version = await self._metadata.submit(command, deadline_in(_ORDER_MS))
        except RaftlogError as error:
            if isinstance(error, RequestError):
                tenure.ways.pop(group, None)
            _logger.info("balancing: %s is not placed on %s now: %s", name, _nodes(change), error)
            return False
        tenure.note_ordered(group, version)
        _logger.info("balancing: %s is to be on %s: %s", name, _nodes(change), change.why)
        return True

    async def _maybe_remove(self, tenure: Tenure, told: dict[NodeId, Told | None]) -> None:
        """Remove a draining broker that holds nothing any more."""
        state = self._metadata.state
        voters = self._metadata.controller_voters()
        for broker in state.all_brokers():
            if broker.is_draining and may_remove(broker, state, tenure.ways, told, voters):
                await self._metadata.submit(RemoveBroker(broker.node_id, broker.disk_uuid), deadline_in(_ORDER_MS))
                _logger.info("balancing: node %s holds nothing any more, and was removed", broker.node_id)

    # telling

    def _report(self, tenure: Tenure) -> Report:
        state, now, settings = self._metadata.state, self._node.loop.time(), self._settings()
        brokers, fitness = state.all_brokers(), self._node.standing.fitness
        away = [each.node_id for each in brokers if not tenure.availability.is_heard(each.node_id)]
        misplaced = [
            Misplaced(name_in(state, each.group).rpartition("/")[0], each.group.partition, each.node_id, each.reason)
            for each in tenure.failures
        ]
        return Report(
            self._status(tenure, settings, now),
            settings.mode.value,
            away,
            [each.node_id for each in brokers if fitness.is_full(each.node_id, now)],
            None if tenure.looked_at is None else now - tenure.looked_at,
            len(tenure.ways),
            sum(change.why is not Why.LEADERS for change in tenure.queue),
            self._reasons(tenure, misplaced, now),
            misplaced,
        )

    def _status(self, tenure: Tenure, settings: BalancerSettings, now: float) -> str:
        if self._metadata.state.feature_level < LEVEL:
            return "off"
        if self._planned is None:
            return "starting"
        if tenure.under_way(now) or tenure.queue:
            return "in_progress"
        if tenure.failures or tenure.ways or tenure.problem or tenure.unanswered:
            return "stalled"
        return "off" if settings.mode is Mode.OFF else "ready"

    def _reasons(self, tenure: Tenure, misplaced: list[Misplaced], now: float) -> list[str]:
        level = self._metadata.state.feature_level
        if level < LEVEL:
            return [f"the cluster runs at feature level {level}, and nothing is balanced: finish the upgrade first"]
        by_reason: dict[str, list[str]] = {}
        for each in misplaced:
            why = f"node {each.node_id} cannot let its replica go: it {each.reason}"
            by_reason.setdefault(why, []).append(f"{each.topic}/{each.partition}")
        reasons = grouped(by_reason) + grouped(tenure.waits(self._metadata.state, now))
        if tenure.unanswered:
            reasons.append(f"{nodes_in_words(tenure.unanswered)} did not say what moves there")
        return reasons + ([] if tenure.problem is None else [tenure.problem])


def _nodes(change: Change) -> str:
    return nodes_in_words([replica.node_id for replica in change.replicas])
