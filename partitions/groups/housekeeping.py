"""What coordinators do by themselves now and then: forget what expired, and make their logs shorter.

    expired    a group without members whose newest commit, and whose last member, lie longer back than the retention
    shorter    everything is stated anew, then what lies before is trimmed (docs/adr/0016)

Forgetting is a committed tombstone like an operator's, so every later coordinator agrees; only the leader decides, by
its own clock, and a group that committed by a clock ahead of ours stays. In slices. Called by the broker.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final

from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.coordinator import Coordinator
from raftlog.partitions.groups.coordinators import Coordinators
from raftlog.partitions.groups.folded import GroupEntry
from raftlog.partitions.groups.records import Key, OffsetKey
from raftlog.partitions.groups.surroundings import GroupSurroundings

_logger = logging.getLogger(__name__)
_SLICE: Final = 500
"""Groups looked at, or keys stated, in one turn of the loop."""
_WRITE_MS: Final = 30_000


class GroupHousekeeping:
    """One for each process."""

    def __init__(self, coordinators: Coordinators, around: GroupSurroundings) -> None:
        self._coordinators, self._around = coordinators, around
        self._task: asyncio.Task[None] | None = None

    async def keep(self) -> None:
        """Look at every coordinator here once; what takes long goes on behind."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep(), name="housekeeping of groups")

    async def stop(self) -> None:
        """Go on with nothing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep(self) -> None:
        for coordinator in self._coordinators:
            try:
                await self._expire(coordinator)
                if _size(coordinator) - coordinator.stated_bytes > self._around.growth_bytes_max:
                    await self._shorten(coordinator)
            except (RaftlogError, TimeoutError) as error:
                _logger.warning("%s: housekeeping of groups is tried again: %s", coordinator.replica.name, error)

    # expiry

    async def _expire(self, coordinator: Coordinator) -> None:
        names = sorted(coordinator.folded.names())
        for number, group in enumerate(names, 1):
            keys = self._expired(coordinator, group)
            if keys:
                self._around.counters.group_expired += len(keys)
                await coordinator.written([GroupEntry(key, None) for key in keys], deadline_in(_WRITE_MS))
            if self._is_forgotten(coordinator, group):
                await coordinator.delete(group, deadline=deadline_in(_WRITE_MS))
            if number % _SLICE == 0:
                await asyncio.sleep(0)

    def _expired(self, coordinator: Coordinator, group: str) -> list[OffsetKey]:
        offsets = coordinator.folded.latest_offsets(group)
        deleted = [key for key in offsets if self._around.is_deleted(key.topic_id)]
        if coordinator.machine.has_members(group) or not offsets:
            return deleted
        newest = max(record.committed_ms for record in offsets.values())
        return list(offsets) if self._is_past(max(newest, self._empty_since(coordinator, group))) else deleted

    def _is_forgotten(self, coordinator: Coordinator, group: str) -> bool:
        """Whether a group that had members has neither members nor offsets any more."""
        if coordinator.machine.describe(group) is None or coordinator.machine.has_members(group):
            return False
        is_idle = not coordinator.folded.latest_offsets(group)
        return is_idle and self._is_past(self._empty_since(coordinator, group))

    def _empty_since(self, coordinator: Coordinator, group: str) -> int:
        described = coordinator.machine.describe(group)
        return 0 if described is None else described.changed_ms

    def _is_past(self, at_ms: int) -> bool:
        return self._around.wall_ms() - at_ms > self._around.offsets_retention_ms

    # a shorter log

    async def _shorten(self, coordinator: Coordinator) -> None:
        """State everything again, then let go of what lies before."""
        await coordinator.catch_up(deadline_in(_WRITE_MS))
        begin = coordinator.folded.next_offset
        keys = iter(list(coordinator.folded.keys()))
        while some := list(islice(keys, _SLICE)):
            async with asyncio.timeout(_WRITE_MS / 1000):
                await self._state(coordinator, some)
        group = coordinator.replica.group
        await group.roll_now()
        await group.propose_trim(begin)
        coordinator.stated_bytes = _size(coordinator)

    def _state(self, coordinator: Coordinator, keys: Sequence[Key]) -> "asyncio.Future[None]":
        """Append what the keys say by now, in one turn with looking at it."""
        wanted = [key for key in keys if not (isinstance(key, OffsetKey) and self._around.is_deleted(key.topic_id))]
        said = [GroupEntry(key, coordinator.folded.latest(key)) for key in wanted]
        return coordinator.writer.write([entry for entry in said if entry.value is not None])


def _size(coordinator: Coordinator) -> int:
    return coordinator.replica.describe().size_bytes
