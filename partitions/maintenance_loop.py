"""Periodic maintenance of a broker in slices: retention, rolls by age, expiry of committed offsets.

The scrub belongs to the driver; a deleted topic's files are removed with its Raft groups. Called by the broker."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from raftlog.errors import RaftlogError
from raftlog.partitions.coordinator.maintenance import CoordinatorMaintenance
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import BackgroundLoop, Node
from raftlog.partitions.placement.assignments.assignments import Assignments
from raftlog.runtime.loop_holds import LOOP_HOLDS

_logger = logging.getLogger(__name__)
_MAINTENANCE: Final = LOOP_HOLDS.step("maintenance of a replica")
_SLICE = 64
"""Replicas maintained in one turn of the loop."""


class MaintenanceLoop(BackgroundLoop):
    """Background loop of maintenance, from `start` to `stop`."""

    purpose = "maintenance"

    def __init__(
        self,
        node: Node,
        assignments: Assignments,
        coordinators: CoordinatorMaintenance,
        interval_s: float,
        wall_ms: Callable[[], int],
    ) -> None:
        """Prepare to run maintenance every `interval_s` seconds."""
        self._node, self._assignments, self._coordinators = node, assignments, coordinators
        self._interval_s, self._wall_ms = interval_s, wall_ms

    async def stop(self) -> None:
        """Stop the loop, and the maintenance of coordinators."""
        await super().stop()
        await self._coordinators.stop()

    async def _run(self) -> None:
        """Run maintenance every `interval_s` seconds, until the node ends; errors are logged and retried."""
        while not self._node.ended.done():
            await self._node.pause(Deadline(self._node.loop.time() + self._interval_s))
            try:
                await self.run_once()
            except RaftlogError as error:
                _logger.warning("maintenance was interrupted and will be retried: %s", error)

    async def run_once(self) -> None:
        """Run retention and the expiry of producers once on every replica, then begin the coordinators' maintenance."""
        now_ms = self._wall_ms()
        for number, replica in enumerate(list(self._assignments.replicas.values())):
            with _MAINTENANCE:
                replica.run_maintenance(now_ms)
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        self._coordinators.begin()
