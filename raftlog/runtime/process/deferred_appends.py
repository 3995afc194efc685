"""Groups whose leaders here deferred appends: followers beyond the quorum get them together, a few milliseconds later.

A commit needs the fastest quorum alone. One append for several commits saves the other followers a turn, a write and a
sync for each, and the leader their answers. When a follower of the quorum is slow, the others delay a commit by at most
`delay_s` ("thrifty" replication, as in EPaxos, with the rest sent soon). Owned by the driver."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import PartitionReplica


class RunWork(Protocol):
    """The driver's way to run a callback whose failure ends the process."""

    def __call__(self, work: Callable[[], None], /) -> None: ...


class DeferredAppends:
    """Groups that wait, and the one timer for all of them."""

    def __init__(self, delay_s: float, mark_dirty: Callable[[PartitionReplica], None], run: RunWork) -> None:
        self._delay_s, self._mark_dirty, self._run = delay_s, mark_dirty, run
        self._groups: dict[GroupKey, PartitionReplica] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, group: PartitionReplica) -> None:
        """Register a group with deferred appends; the oldest one's delay starts the timer for all."""
        self._groups[group.key] = group
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._run, self._send)

    def _send(self) -> None:
        self._timer = None
        groups, self._groups = self._groups, {}
        for group in groups.values():
            if not group.is_closed:
                group.core.send_deferred_appends()
                self._mark_dirty(group)

    def stop(self) -> None:
        """Forget the groups and drop the timer for good."""
        self._groups.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
