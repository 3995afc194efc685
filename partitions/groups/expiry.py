"""Expiry of committed offsets of a coordinator's groups.

    expired    a group without members whose newest commit and whose last member are older than the retention
               the record of a producer whose last transaction ended before the retention time

A group with offsets of an open transaction does not expire. Measured by the leader's clock: a group with commits of a
clock that was ahead is kept longer. Runs in slices. Owned by a coordinator."""

import asyncio
from typing import Final

from raftlog.partitions.coordinator.folded import LogEntry
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.environment import GroupEnvironment
from raftlog.partitions.groups.offsets import OffsetsPort
from raftlog.partitions.groups.records import GroupProducerKey, OffsetKey

_SLICE: Final = 500
"""Groups examined in one turn of the loop."""
_WRITE_MS: Final = 30_000


class GroupExpiry:
    """Expiry of the groups of one coordinator."""

    def __init__(self, coordinator: OffsetsPort, environment: GroupEnvironment) -> None:
        self._coordinator, self._environment = coordinator, environment
        self._folded, self._machine = coordinator.folded, coordinator.machine

    async def run(self) -> None:
        """Examine every group once, and expire groups and offsets that are due."""
        names = sorted(self._folded.names())
        for number, group in enumerate(names, 1):
            keys = self._find_expired_offsets(group)
            if keys:
                self._environment.counters.group_expired += len(keys)
                await self._coordinator.commit_entries([LogEntry(key, None) for key in keys], deadline_in(_WRITE_MS))
            if self._has_group_expired(group):
                await self._coordinator.delete(group, deadline_in(_WRITE_MS))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        await self._expire_producers()

    async def _expire_producers(self) -> None:
        """Delete the records of producers whose last transaction ended before the retention time."""
        keys = list(self._folded.producers)
        for first in range(0, len(keys), _SLICE):
            entries = [LogEntry(key, None) for key in keys[first : first + _SLICE] if self._has_producer_expired(key)]
            await self._coordinator.commit_entries(entries, deadline_in(_WRITE_MS))
            await asyncio.sleep(0)

    def _has_producer_expired(self, key: GroupProducerKey) -> bool:
        """Return whether a producer's last transaction in a group ended before the retention time."""
        record = self._folded.latest_producer(*key)
        is_over = record is not None and self._is_retention_over(record.ended_ms)
        return is_over and not self._folded.latest_pending(*key)

    def _find_expired_offsets(self, group: str) -> list[OffsetKey]:
        """Return the keys of offsets to delete: their topic was deleted, or the group has expired."""
        offsets = self._folded.latest_offsets(group)
        deleted = [key for key in offsets if self._environment.is_deleted(key.topic_id)]
        if self._machine.has_members(group) or not offsets or self._folded.latest_pending(group):
            return deleted
        newest = max(record.committed_ms for record in offsets.values())
        return list(offsets) if self._is_retention_over(max(newest, self._empty_since(group))) else deleted

    def _has_group_expired(self, group: str) -> bool:
        """Return whether a group that had members has had neither members nor offsets for the retention time."""
        if self._machine.group(group) is None or self._machine.has_members(group):
            return False
        if self._folded.latest_offsets(group) or self._folded.latest_pending(group):
            return False
        return self._is_retention_over(self._empty_since(group))

    def _empty_since(self, group: str) -> int:
        """Return the wall-clock time in ms of the group's last change; 0 for a group that never had members."""
        found = self._machine.group(group)
        return 0 if found is None else found.changed_ms

    def _is_retention_over(self, at_ms: int) -> bool:
        """Return whether the retention of offsets has passed since `at_ms`, by the wall clock."""
        return self._environment.wall_ms() - at_ms > self._environment.offsets_retention_ms
