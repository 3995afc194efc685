"""What a broker does by itself, in slices of a few ms: retention, the scrub, emptying the trash of an earlier life."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from raftlog.errors import RaftlogError
from raftlog.partitions.administration import empty_trash
from raftlog.partitions.counters import Counters
from raftlog.partitions.data_directory import DataDirectory
from raftlog.partitions.partition import Partition
from raftlog.partitions.settings import BrokerSettings
from raftlog.partitions.topics import Topics

logger = logging.getLogger(__name__)

_SECONDS_PER_DAY = 24 * 60 * 60
_SCRUB_IDLE_S = 1.0
"""The scrub looks this often for something to read."""
_SCRUB_PAUSE_S_MAX = 60.0
"""It pauses no longer than this, so that it notices what was written meanwhile."""


class Housekeeping:
    """Runs from `start` to `stop`."""

    def __init__(self, settings: BrokerSettings, directory: DataDirectory, topics: Topics, counters: Counters) -> None:
        self._settings = settings
        self._directory = directory
        self._topics = topics
        self._counters = counters
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        works: list[Coroutine[Any, Any, None]] = [self._clean_forever(), self._empty_trash()]
        if self._settings.scrub_interval_days:
            works.append(self._scrub_forever())
        self._tasks = [asyncio.ensure_future(work) for work in works]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _empty_trash(self) -> None:
        try:
            await empty_trash(self._directory)
        except OSError as error:
            logger.error("the trash cannot be emptied: %s", error)

    async def _clean_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.retention_interval_s)
            await self.clean_once()

    async def clean_once(self) -> int:
        """Apply retention everywhere; the bytes freed."""
        freed = 0
        for partition in self._all_partitions():
            freed += self._clean(partition)
            await asyncio.sleep(0)
        self._counters.segments_bytes_deleted += freed
        return freed

    def _clean(self, partition: Partition) -> int:
        try:
            return partition.log.clean()
        except (RaftlogError, OSError) as error:
            logger.error("%s: retention could not be applied: %s", partition.name, error)
            return 0

    async def _scrub_forever(self) -> None:
        while True:
            for partition in self._all_partitions():
                await self.scrub(partition, paced=True)
            await asyncio.sleep(_SCRUB_IDLE_S)

    async def scrub(self, partition: Partition, *, paced: bool = False) -> None:
        """Read the whole log once, slice by slice; `paced` spreads that over the configured time."""
        has_finished = False
        while not has_finished and partition.log.failure is None:
            try:
                progress = partition.log.scrub_slice(self._settings.scrub_slice_bytes)
            except OSError as error:
                logger.error("%s: the scrub cannot read: %s", partition.name, error)
                return
            has_finished = progress.has_finished
            self._counters.scrubbed_bytes += progress.bytes_read
            if progress.damage is not None:
                logger.error("%s is damaged and takes no records: %s", partition.name, progress.damage)
            if progress.rows_healed:
                logger.warning("%s: %d damaged index rows were written again", partition.name, progress.rows_healed)
            await asyncio.sleep(min(progress.bytes_read / self._scrub_rate(), _SCRUB_PAUSE_S_MAX) if paced else 0)

    def _scrub_rate(self) -> float:
        """Bytes a second with which everything is read once in the interval, within the configured maximum."""
        total = sum(partition.log.size_bytes for partition in self._all_partitions())
        needed = total / (self._settings.scrub_interval_days * _SECONDS_PER_DAY)
        return max(1.0, min(needed, self._settings.scrub_bytes_per_second_max))

    def _all_partitions(self) -> list[Partition]:
        return [partition for topic in self._topics for partition in topic.open_partitions()]
