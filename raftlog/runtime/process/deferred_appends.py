"""Groups whose leaders here deferred appends: followers beyond the quorum get them together, some milliseconds later.

    deferred → committed by the quorum in time   → sent `delay_s` after the first deferral of any group, all at once
             → not committed for a while         → sent at once: a follower of the quorum is slow

A commit needs the fastest quorum alone. One frame with the appends of several commits, of all groups that share the
follower, saves it a turn, a write and a sync for each, and the leader their answers ("thrifty" replication, as in
EPaxos, with the rest sent soon). The commit notices that the outbox holds back go with it. Owned by the driver."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.process.outbox import Outbox
from raftlog.runtime.replica.partition_replica import PartitionReplica

_NEVER: Final = float("inf")
_GRAIN_S: Final = 0.001
"""Shortest time of a timer: a loop that rounds times would call one that is nearly due over and over."""
_WEIGHT: Final = 1 / 8
"""Weight of the newest commit in the average time."""
_SLOW: Final = 3.0
"""A quorum is slow that takes so many times longer than on average."""


class RunWork(Protocol):
    """Function of the driver that runs a callback and ends the process if it fails."""

    def __call__(self, work: Callable[[], None], /) -> None: ...


class _Deferral:
    """Deferred appends of one group; times by the loop's clock."""

    __slots__ = ("_observed_index", "group", "observed_at")

    def __init__(self, group: PartitionReplica, now: float) -> None:
        """Begin to defer appends of a group at the loop's time `now`."""
        self.group = group
        self._observed_index = group.core.last_id.index
        self.observed_at: float | None = now
        """Time at which the newest observed entry was appended; None while no entry waits for its commit."""

    def observe(self, now: float) -> float | None:
        """Observe the newest entry once the last observed one is committed; return the time which that took.

        Return None if it is not committed, or was already reported."""
        core, began = self.group.core, self.observed_at
        if core.committed_index < self._observed_index:
            return None
        newest = core.last_id.index
        is_waiting = core.committed_index < newest
        if began is None and not is_waiting:
            return None
        self._observed_index, self.observed_at = newest, now if is_waiting else None
        return None if began is None else now - began


class DeferredAppends:
    """Raft groups whose leaders here defer appends, and one timer that sends those that are due."""

    def __init__(
        self, config: DriverConfig, outbox: Outbox, mark_dirty: Callable[[PartitionReplica], None], run: RunWork
    ) -> None:
        """Begin without deferrals.

        `outbox` sends the appends and its commit notices, `mark_dirty` schedules a group's turn, and `run` runs work in
        the driver."""
        self._delay_s = config.deferral_ms / 1000
        self._least_s = self._quorum_s = min(config.quorum_wait_ms / 1000, self._delay_s)
        self._average_s = 0.0
        """Moving average of the times until the quorum committed an entry."""
        self._outbox, self._mark_dirty, self._run = outbox, mark_dirty, run
        self._deferrals: dict[GroupKey, _Deferral] = {}
        self._due_at = 0.0
        """Time at which all deferred appends are sent; without deferrals it has no meaning."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """Time of the timer, if there is one."""

    def check(self, group: PartitionReplica) -> None:
        """Send the group's deferred appends with the Ready that its turn is about to take, if its quorum is slow."""
        deferral = self._deferrals.get(group.key)
        if deferral is not None:
            now = asyncio.get_running_loop().time()
            if self._quorum_due_at(deferral, now) <= now:
                del self._deferrals[group.key]
                group.core.send_deferred_appends()

    def note(self, group: PartitionReplica) -> None:
        """Register a group with deferred appends; called in every turn of such a group, with a Ready or without."""
        now = asyncio.get_running_loop().time()
        deferral = self._deferrals.get(group.key)
        if deferral is None or deferral.group is not group:
            if not self._deferrals:
                self._due_at = now + self._delay_s
            deferral = self._deferrals[group.key] = _Deferral(group, now)
        at = min(self._due_at, self._quorum_due_at(deferral, now))
        if self._timer is None:
            self._arm(at, now)
        elif self._timer_at > at + _GRAIN_S:
            self._timer.cancel()
            self._arm(at, now)

    def _quorum_due_at(self, deferral: _Deferral, now: float) -> float:
        """Return the time by which the quorum must commit the newest entry; `_NEVER` if none waits.

        A time that has passed counts as the time of a commit: the quorum may be slow because the machine is."""
        took = deferral.observe(now)
        if took is not None:
            self._note_quorum(took)
        if deferral.observed_at is None:
            return _NEVER
        at = deferral.observed_at + self._quorum_s
        if at <= now:
            self._note_quorum(now - deferral.observed_at)
        return at

    def _note_quorum(self, took_s: float) -> None:
        """Adapt the wait for a quorum: a multiple of the usual time, between its setting and half of the delay."""
        self._average_s += (took_s - self._average_s) * _WEIGHT
        most_s = max(self._least_s, self._delay_s / 2)
        self._quorum_s = min(max(self._least_s, _SLOW * self._average_s), most_s)

    def _arm(self, at: float, now: float) -> None:
        """Send the due appends at the loop's time `at`, or soon if it has passed."""
        self._timer_at = max(at, now + _GRAIN_S)
        self._timer = asyncio.get_running_loop().call_later(self._timer_at - now, self._run, self._send)

    def _send(self) -> None:
        """Send the appends that are due, and set the timer for the others."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        if self._due_at <= now:
            due, self._deferrals = self._deferrals, {}
            self._outbox.send_notices_next()
        else:
            due_at = {key: self._quorum_due_at(deferral, now) for key, deferral in self._deferrals.items()}
            due = {key: self._deferrals.pop(key) for key, at in due_at.items() if at <= now}
            if self._deferrals:
                self._arm(min(self._due_at, *(due_at[key] for key in self._deferrals)), now)
        for deferral in due.values():
            if not deferral.group.is_closed:
                deferral.group.core.send_deferred_appends()
                self._mark_dirty(deferral.group)

    def stop(self) -> None:
        """Forget the groups and drop the timer for good."""
        self._deferrals.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
