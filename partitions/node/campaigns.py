"""Elections without an election timeout: of a sole voter, and of the preferred leader of a new group.

    a group of one: when it is created and when the process starts
    a group of several: when it is created here and this process is its preferred leader; repeated up to ATTEMPTS_MAX
    times, since the other voters may create their replicas later, and requests that arrive before are lost

The campaign is the same as after a timeout: first pre-votes, which change no term, then one vote per term, durable
before it is given. So concurrent campaigns of other voters are safe. Called by the node."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from raftlog.raft import RaftCore, ReplicaId, Role
from raftlog.runtime.replica.partition_replica import PartitionReplica

ATTEMPTS_MAX: Final = 4
PAUSE_S: Final = 0.04
"""Seconds before the second attempt; doubled for each further one."""


class Campaigns:
    """First elections of new Raft groups on one process.

    `mark_dirty` makes the driver process a group in its next turn."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, me: ReplicaId, mark_dirty: Callable[[PartitionReplica], None]
    ) -> None:
        """Prepare campaigns of the replicas in the process `me`; `mark_dirty` schedules a group's turn."""
        self._loop, self._me, self._mark_dirty = loop, me, mark_dirty
        self._timers: dict[asyncio.TimerHandle, None] = {}

    def begin_alone(self, groups: Iterable[PartitionReplica]) -> None:
        """Become leader of the Raft groups in which this replica is the only voter."""
        for group in groups:
            if group.core.configuration.all_voters() == (self._me,) and group.core.campaign():
                self._mark_dirty(group)

    def begin(self, groups: Iterable[PartitionReplica]) -> None:
        """Start elections in new groups, without waiting for election timeouts."""
        self._campaign([group for group in groups if not group.is_closed], 1)

    def stop(self) -> None:
        """Cancel all campaigns that have not begun."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _campaign(self, groups: list[PartitionReplica], attempt: int) -> None:
        """Start an election in each group, and schedule the next attempt."""
        for group in groups:
            core = group.core
            if core.role is Role.PRE_CANDIDATE:
                core.step_down("asks once more")
            if core.campaign():
                self._mark_dirty(group)
        if attempt < ATTEMPTS_MAX and groups:
            timer: list[asyncio.TimerHandle] = []
            timer.append(self._loop.call_later(PAUSE_S * 2 ** (attempt - 1), self._retry, groups, attempt, timer))
            self._timers[timer[0]] = None

    def _retry(self, groups: list[PartitionReplica], attempt: int, timer: list[asyncio.TimerHandle]) -> None:
        """Start the next attempt in the groups that still have no leader."""
        del self._timers[timer[0]]
        self._campaign([group for group in groups if not group.is_closed and _may_campaign(group.core)], attempt + 1)


def _may_campaign(core: RaftCore) -> bool:
    """Return whether the group has no known leader and no election was begun here; a pre-vote does not count."""
    return core.leader is None and core.role in (Role.FOLLOWER, Role.PRE_CANDIDATE)
