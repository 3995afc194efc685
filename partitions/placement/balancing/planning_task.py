"""Planning for the balancer: plans in slices when an input of the plan has changed.

Made with each leadership of the controller, like the tenure whose queue it fills. Called by the balancer."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.node import Node
from raftlog.partitions.placement.balancing.layout import BrokerMode, BrokerPlace
from raftlog.partitions.placement.balancing.plan import Planner, PlanScope
from raftlog.partitions.placement.balancing.report import BalancerSettings
from raftlog.partitions.placement.balancing.tenure import Tenure
from raftlog.types import NodeId

_QUEUE_MAX: Final = 256
"""Limit of changes planned ahead."""
_COUNTED_MAX: Final = 10_000
"""Limit of changes planned to count them."""
_FIRST_S: Final = 1.0
"""Seconds from the beginning of a leadership to its first plan, in which brokers connect."""
_SLICE_S: Final = 0.001
_PAUSE_S: Final = 0.0002
"""Pause between two plans, in seconds for each partition: about twenty times the cost of examining it."""


class PlanningTask:
    """Planning of reassignments during one leadership of the controller, in slices."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        settings: Callable[[], BalancerSettings],
        random: Random,
        tenure: Tenure,
    ) -> None:
        """Prepare to plan for the balancer's present tenure."""
        self._node, self._metadata, self._settings, self._random = node, metadata, settings, random
        self._tenure = tenure
        self.has_planned = False
        """Whether a plan was made at a time when all connected brokers could receive replicas."""
        self._lock = asyncio.Lock()
        self._inputs: object = None
        """Inputs of the last plan; None makes the next call plan again, whatever its inputs are."""
        self._planned_for: object = None
        """Part of the inputs on which the queue depends."""
        self._not_before = tenure.began_at + _FIRST_S

    def forget(self) -> None:
        """Discard the plan; the next `plan_if_due` makes a new one."""
        self._tenure.queue.clear()
        self._inputs = None

    async def plan_if_due(self) -> None:
        """Fill the queue, unless no input has changed since the last plan."""
        tenure, now = self._tenure, self._node.loop.time()
        places, scope = self._places(), self._plan_scope()
        if tenure.queue and self._planned_for == (places, scope):
            return
        inputs = (places, scope, *tenure.inputs(self._metadata.state, self._settings(), now))
        if inputs == self._inputs or now < self._not_before:
            return
        planner = await self._plan(scope, _QUEUE_MAX)
        is_settled = self.are_settled()
        self._inputs, self._planned_for = inputs, (places, scope)
        self.has_planned |= is_settled
        tenure.queue.clear()
        tenure.queue.extend(planner.changes)
        tenure.failures = planner.failures if is_settled else []  # there may be a place in a moment
        if not planner.changes and not tenure.running_moves and is_settled:
            tenure.is_ordered = False

    async def count(self) -> Planner:
        """Plan all present changes, up to `_COUNTED_MAX`, without submitting them; return the planner."""
        return await self._plan(self._plan_scope(), _COUNTED_MAX)

    def are_settled(self) -> bool:
        """Return whether all connected brokers have been connected for long enough to receive replicas."""
        now, there = self._node.loop.time(), self._tenure.availability
        nodes = [broker.node_id for broker in self._metadata.state.brokers]
        return all(
            there.is_available(node, now) for node in nodes if there.is_reachable(node) or self._node.is_alive(node)
        )

    async def _plan(self, scope: PlanScope, limit: int) -> Planner:
        """Run the planner in slices; other tasks run in between."""
        loop = self._node.loop
        async with self._lock:
            state, now = self._metadata.state, loop.time()
            self._not_before = now + _PAUSE_S * state.group_count()
            planner = Planner(self._places(), scope, self._random, limit)
            sliced_at = now
            for _ in planner.run(self._tenure.placed(state, self._settings(), now)):
                if loop.time() - sliced_at >= _SLICE_S:
                    await asyncio.sleep(0)
                    sliced_at = loop.time()
        return planner

    def _places(self) -> list[BrokerPlace]:
        """Return the brokers with the conditions for placing replicas, from their state, disk and settings."""
        full = self.find_full_brokers()
        return self._tenure.places(self._metadata.state, full, self._settings(), self._node.loop.time())

    def find_full_brokers(self) -> list[NodeId]:
        """Return the brokers that report that their disks have no room."""
        now, fitness = self._node.loop.time(), self._node.fitness_exchange.fitness
        return [broker.node_id for broker in self._metadata.state.brokers if fitness.is_full(broker.node_id, now)]

    def _plan_scope(self) -> PlanScope:
        """Return the kinds of changes to plan: all after an operator's order, else by the settings.

        Fewer kinds while partitions or brokers change often."""
        settings = self._settings()
        if self._tenure.is_ordered:
            return PlanScope(BrokerMode.CONTINUOUS, balances_replicas=True, balances_leaders=True)
        is_stable = self._tenure.is_stable(self._node.loop.time())
        return PlanScope(settings.mode, is_stable and settings.mode is not BrokerMode.OFF, settings.balances_leaders)
