"""Groups whose leaders here deferred appends: followers beyond the quorum get them together, some milliseconds later.

    deferred → committed by the quorum in time   → sent `delay_s` after the first, several commits in one append
             → not committed after `quorum_s`    → sent at once: a follower of the quorum is slow

A commit needs the fastest quorum alone. One append for several commits saves the other followers a turn, a write and a
sync for each, and the leader their answers ("thrifty" replication, as in EPaxos, with the rest sent soon). Each turn
of a group checks both times, so under load the timer, which all groups share, only re-arms itself. Owned by the
driver."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import PartitionReplica


class RunWork(Protocol):
    """Function of the driver that runs a callback and ends the process if it fails."""

    def __call__(self, work: Callable[[], None], /) -> None: ...


class _Deferral:
    """Deferred appends of one group; times by the loop's clock."""

    __slots__ = ("_observed_at", "_observed_index", "began", "group")

    def __init__(self, group: PartitionReplica, now: float) -> None:
        """Begin to defer appends of a group at the loop's time `now`."""
        self.group, self.began = group, now
        self._observed_index, self._observed_at = group.core.last_id.index, now

    def due_at(self, now: float, quorum_s: float, delay_s: float) -> float:
        """Return the time at which the appends must be sent, by the present commit index."""
        core = self.group.core
        if core.committed_index >= self._observed_index:
            self._observed_index, self._observed_at = core.last_id.index, now
        if core.committed_index >= self._observed_index:
            return self.began + delay_s
        return min(self.began + delay_s, self._observed_at + quorum_s)


class DeferredAppends:
    """Raft groups whose leaders here defer appends, and one timer that sends those that are due."""

    def __init__(self, config: DriverConfig, mark_dirty: Callable[[PartitionReplica], None], run: RunWork) -> None:
        """Begin without deferrals; `mark_dirty` schedules a group's turn, and `run` runs work in the driver."""
        self._delay_s = config.deferral_ms / 1000
        self._quorum_s = min(config.quorum_wait_ms / 1000, self._delay_s)
        self._mark_dirty, self._run = mark_dirty, run
        self._deferrals: dict[GroupKey, _Deferral] = {}
        self._timer: asyncio.TimerHandle | None = None

    def check(self, group: PartitionReplica) -> None:
        """Send the group's deferred appends with the Ready that its turn is about to take, if they are due."""
        if not group.core.are_appends_deferred:
            return
        deferral = self._deferrals.get(group.key)
        if deferral is not None:
            now = asyncio.get_running_loop().time()
            if deferral.due_at(now, self._quorum_s, self._delay_s) <= now:
                del self._deferrals[group.key]
                group.core.send_deferred_appends()

    def note(self, group: PartitionReplica) -> None:
        """Register a group with deferred appends; called in every turn of such a group, with a Ready or without."""
        if group.key not in self._deferrals:
            self._deferrals[group.key] = _Deferral(group, asyncio.get_running_loop().time())
            if self._timer is None:
                self._arm(self._quorum_s)

    def _arm(self, delay_s: float) -> None:
        """Send the due appends after `delay_s` seconds."""
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._run, self._send)

    def _send(self) -> None:
        """Send the appends that are due, and set the timer for the others."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        next_at = now + self._quorum_s  # no later: the quorum of any group may become slow meanwhile
        for key, deferral in list(self._deferrals.items()):
            due_at = deferral.due_at(now, self._quorum_s, self._delay_s)
            if due_at > now:
                next_at = min(next_at, due_at)
                continue
            del self._deferrals[key]
            if not deferral.group.is_closed:
                deferral.group.core.send_deferred_appends()
                self._mark_dirty(deferral.group)
        if self._deferrals:
            self._arm(next_at - now)

    def stop(self) -> None:
        """Forget the groups and drop the timer for good."""
        self._deferrals.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
