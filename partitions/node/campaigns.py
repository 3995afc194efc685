"""First elections that wait for no timeout: a sole voter's, and that of a new group's preferred leader.

    a group of one: when it is created and when the process starts
    a group of several: when it is created here and this process shall lead it; asked again ATTEMPTS_MAX times, for the
    other voters may have created their replicas later, and what comes before that is lost

It is the same campaign as after a timeout: pre-votes first, which cost nobody anything, then one vote per term, durable
before it is given. So it hurts nothing when others campaign at the same time. Called by the node.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from raftlog.raft import RaftCore, ReplicaId, Role
from raftlog.runtime.replica.partition_replica import PartitionReplica

ATTEMPTS_MAX: Final = 4
PAUSE_S: Final = 0.04
"""Before the second attempt; doubled each time."""


class Campaigns:
    """`mark_dirty` lets the driver look at a group."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, me: ReplicaId, mark_dirty: Callable[[PartitionReplica], None]
    ) -> None:
        self._loop, self._me, self._mark_dirty = loop, me, mark_dirty
        self._timers: dict[asyncio.TimerHandle, None] = {}

    def begin_alone(self, groups: Iterable[PartitionReplica]) -> None:
        """Lead those groups that have no other voter."""
        for group in groups:
            if group.core.configuration.all_voters() == (self._me,) and group.core.campaign():
                self._mark_dirty(group)

    def begin(self, groups: Iterable[PartitionReplica]) -> None:
        """Stand for leader of new groups."""
        self._ask([group for group in groups if not group.is_closed], 1)

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _ask(self, groups: list[PartitionReplica], attempt: int) -> None:
        for group in groups:
            core = group.core
            if core.role is Role.PRE_CANDIDATE:
                core.step_down("asks once more")
            if core.campaign():
                self._mark_dirty(group)
        if attempt < ATTEMPTS_MAX and groups:
            timer: list[asyncio.TimerHandle] = []
            timer.append(self._loop.call_later(PAUSE_S * 2 ** (attempt - 1), self._again, groups, attempt, timer))
            self._timers[timer[0]] = None

    def _again(self, groups: list[PartitionReplica], attempt: int, timer: list[asyncio.TimerHandle]) -> None:
        del self._timers[timer[0]]
        self._ask([group for group in groups if not group.is_closed and _is_open(group.core)], attempt + 1)


def _is_open(core: RaftCore) -> bool:
    """Nobody leads, and nobody is being voted for."""
    return core.leader is None and core.role in (Role.FOLLOWER, Role.PRE_CANDIDATE)
