"""Periodic maintenance of coordinators: expire entries, and shorten their logs.

    shorten    all current values are appended again, then the log before them is trimmed (docs/adr/0016)

Expiry is a committed tombstone like an operator's deletion, so every later coordinator agrees; only the leader decides.
In slices. Called by the broker's maintenance."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from raftlog.errors import RaftlogError
from raftlog.partitions.coordinator.coordinator import PartitionCoordinator
from raftlog.partitions.coordinator.folded import LogEntry
from raftlog.partitions.deadline import deadline_in

_logger = logging.getLogger(__name__)
_SLICE: Final = 500
"""Keys written anew in one turn of the loop."""
_WRITE_MS: Final = 30_000


class CoordinatorMaintenance:
    """Periodic maintenance of the coordinators on this broker: expire keys, shorten logs.

    `coordinators` returns those that serve now; `growth_bytes_max` is the growth of a log after which everything in it
    is written again."""

    def __init__(self, coordinators: Callable[[], Iterable[PartitionCoordinator[Any]]], growth_bytes_max: int) -> None:
        """Append the current values of a log again when it has grown by `growth_bytes_max` bytes."""
        self._coordinators, self._growth_bytes_max = coordinators, growth_bytes_max
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to maintain every coordinator once, in a background task; do nothing if it runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="maintenance of coordinators")

    async def stop(self) -> None:
        """Cancel the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Expire entries of all coordinators once, and shorten the logs that grew too much."""
        for coordinator in self._coordinators():
            try:
                await coordinator.expire()
                if _size(coordinator) - coordinator.stated_bytes > self._growth_bytes_max:
                    await self._shorten(coordinator)
            except (RaftlogError, TimeoutError) as error:
                _logger.warning("%s: maintenance failed and will be retried: %s", coordinator.replica.name, error)

    async def _shorten(self, coordinator: PartitionCoordinator[Any]) -> None:
        """Append all current values of a coordinator again, then trim its log before them."""
        await coordinator.catch_up(deadline_in(_WRITE_MS))
        begin = coordinator.folded.next_offset
        keys = iter(list(coordinator.folded.keys()))
        while some := list(islice(keys, _SLICE)):
            async with asyncio.timeout(_WRITE_MS / 1000):
                await self._rewrite(coordinator, some)
        group = coordinator.replica.group
        await group.roll_now()
        await group.propose_trim(begin)
        coordinator.stated_bytes = _size(coordinator)

    def _rewrite(self, coordinator: PartitionCoordinator[Any], keys: Sequence[Any]) -> "asyncio.Future[None]":
        """Append the latest values of the keys, read in the same turn; return the future of their commit."""
        latest = [LogEntry(key, coordinator.folded.latest(key)) for key in keys if coordinator.is_kept(key)]
        return coordinator.writer.write([entry for entry in latest if entry.value is not None])


def _size(coordinator: PartitionCoordinator[Any]) -> int:
    """Return the size of the coordinator's log in bytes."""
    return coordinator.replica.describe().size_bytes
