"""Makes plans for the balancer when something has changed that a plan rests on, a slice of the loop's time at a time.

Made with each leadership of the controller, as is the tenure whose queue it fills. Called by the balancer.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.node import Node
from raftlog.partitions.placement.balancing.layout import BrokerMode, BrokerPlace
from raftlog.partitions.placement.balancing.plan import Planner, Wishes
from raftlog.partitions.placement.balancing.report import BalancerSettings
from raftlog.partitions.placement.balancing.tenure import Tenure

_QUEUE_MAX: Final = 256
"""Changes planned ahead."""
_COUNTED_MAX: Final = 10_000
"""Changes planned to say how many there will be."""
_FIRST_S: Final = 1.0
"""From the beginning of a leadership to its first plan: those who are there have to be heard first."""
_SLICE_S: Final = 0.001
_PAUSE_S: Final = 0.0002
"""For each partition, from one plan to the next: about twenty times what it costs to look at it."""


class Planning:
    """See the module."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        settings: Callable[[], BalancerSettings],
        random: Random,
        tenure: Tenure,
    ) -> None:
        self._node, self._metadata, self._settings, self._random = node, metadata, settings, random
        self._tenure = tenure
        self.has_planned = False
        """Once with all that were heard."""
        self._lock = asyncio.Lock()
        self._inputs: object = None
        """What the last plan was made of; None: it is not to be relied upon."""
        self._around: object = None
        """The part of it that the queue rests on."""
        self._not_before = tenure.began_at + _FIRST_S

    def forget(self) -> None:
        """Plan anew: what was planned does not hold any more."""
        self._tenure.queue.clear()
        self._inputs = None

    async def maybe_plan(self) -> None:
        """Fill the queue, unless nothing can have changed since the last plan."""
        tenure, now = self._tenure, self._node.loop.time()
        places, wishes = self._places(), self._wishes()
        if tenure.queue and self._around == (places, wishes):
            return
        inputs = (places, wishes, *tenure.inputs(self._metadata.state, self._settings(), now))
        if inputs == self._inputs or now < self._not_before:
            return
        planner = await self._plan(wishes, _QUEUE_MAX)
        is_settled = self.are_settled()
        self._inputs, self._around = inputs, (places, wishes)
        self.has_planned |= is_settled
        tenure.queue.clear()
        tenure.queue.extend(planner.changes)
        tenure.failures = planner.failures if is_settled else []  # in a moment there may be a place
        if not planner.changes and not tenure.ways and is_settled:
            tenure.is_ordered = False

    async def count(self) -> Planner:
        """A plan of everything that would be changed now, as far as `_COUNTED_MAX`; nothing is ordered by it."""
        return await self._plan(self._wishes(), _COUNTED_MAX)

    def are_settled(self) -> bool:
        """Whether all that are heard can be given something, as far as time goes."""
        now, there = self._node.loop.time(), self._tenure.availability
        nodes = [broker.node_id for broker in self._metadata.state.brokers]
        return all(there.is_available(node, now) for node in nodes if there.is_heard(node) or self._node.is_alive(node))

    async def _plan(self, wishes: Wishes, limit: int) -> Planner:
        """Others have the loop between the slices."""
        loop = self._node.loop
        async with self._lock:
            state, now = self._metadata.state, loop.time()
            self._not_before = now + _PAUSE_S * state.group_count()
            planner = Planner(self._places(), wishes, self._random, limit)
            sliced_at = now
            for _ in planner.run(self._tenure.placed(state, self._settings(), now)):
                if loop.time() - sliced_at >= _SLICE_S:
                    await asyncio.sleep(0)
                    sliced_at = loop.time()
        return planner

    def _places(self) -> list[BrokerPlace]:
        state, now, fitness = self._metadata.state, self._node.loop.time(), self._node.standing.fitness
        full = [broker.node_id for broker in state.brokers if fitness.is_full(broker.node_id, now)]
        return self._tenure.places(state, full, self._settings(), now)

    def _wishes(self) -> Wishes:
        settings = self._settings()
        if self._tenure.is_ordered:
            return Wishes(BrokerMode.CONTINUOUS, evens=True, balances_leaders=True)
        is_calm = self._tenure.is_calm(self._node.loop.time())
        return Wishes(settings.mode, is_calm and settings.mode is not BrokerMode.OFF, settings.balances_leaders)
