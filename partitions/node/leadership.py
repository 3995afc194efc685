"""Leader of a group as known to its replica here, and waits for changes of it.

The known leader may be outdated: only a commit or a read index proves a leader. Called by the node, for the façade's
routing."""

import asyncio
from typing import NamedTuple

from raftlog.partitions.deadline import Deadline
from raftlog.raft import ReplicaId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Term


class Leadership(NamedTuple):
    """Leader of a Raft group, as known here.

    `is_here`: this process leads. `is_ready`: it has also committed in its term, so it knows the end of the log."""

    leader: ReplicaId | None
    is_here: bool
    is_ready: bool
    term: Term


class LeaderWaits:
    """Waits for a change of leader, by group; a cancelled wait leaves no entry."""

    def __init__(self) -> None:
        self._waiting: dict[GroupKey, dict[asyncio.Future[None], None]] = {}

    async def changed(self, key: GroupKey, deadline: Deadline) -> bool:
        """Wait for a change of role, term or leader; return False if the deadline passes first."""
        loop = asyncio.get_running_loop()
        change: asyncio.Future[None] = loop.create_future()
        waiting = self._waiting.setdefault(key, {})
        waiting[change] = None
        try:
            async with asyncio.timeout_at(deadline):  # `wait_for` would lose a cancellation in a turn with a change
                await change
        except TimeoutError:
            return False
        finally:
            waiting.pop(change, None)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]
        return True

    def wake(self, key: GroupKey) -> None:
        """End all waits for this group."""
        for change in self._waiting.pop(key, {}):
            if not change.done():
                change.set_result(None)

    def wake_all(self) -> None:
        """Wake the waits for all groups."""
        for key in list(self._waiting):
            self.wake(key)
