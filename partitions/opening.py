"""Making, opening and removing the logs of topics. Each log takes a few syncs, so between two of them others run."""

import asyncio
import errno
import logging
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from raftlog.config import TopicConfig
from raftlog.errors import FormatError, LogClosed, Overloaded, RaftlogError, StorageError, StorageFull
from raftlog.partitions.budget import Budget
from raftlog.partitions.catalogue_state import TopicEntry
from raftlog.partitions.counters import Counters
from raftlog.partitions.data_directory import DataDirectory
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.partition import Partition
from raftlog.partitions.settings import BrokerSettings
from raftlog.storage.disk import Disk

logger = logging.getLogger(__name__)

Blocking: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a job that waits for the disk, in another thread when there is one."""


class PartitionOpener:
    """Knows what every partition of a broker shares."""

    def __init__(
        self,
        disk: Disk,
        directory: DataDirectory,
        settings: BrokerSettings,
        counters: Counters,
        clock: Callable[[], int],
        blocking: Blocking,
    ) -> None:
        self.shared_budget = Budget(settings.broker_pending_bytes_max, "this broker")
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._counters = counters
        self._clock = clock
        self._blocking = blocking

    async def open(self, topic: str, number: int, config: TopicConfig, *, create: bool) -> Partition:
        """Raises what `LoneLog.open` raises."""
        name = f"{topic}/{number}"
        settings = self._settings
        budgets = (Budget(settings.partition_pending_bytes_max, name), self.shared_budget)
        partition = Partition(name, budgets, self._counters, settings.accumulate_bytes_max)
        path = self._directory.partition_path(topic, number)
        await self._blocking(partial(partition.load, self._disk, path, config, create=create, clock=self._clock))
        return partition

    async def open_known(self, entry: TopicEntry, config: TopicConfig) -> list[Partition | RaftlogError]:
        """Open what the catalogue lists; what cannot be opened is reported and kept as its error, never remade."""
        opened: list[Partition | RaftlogError] = []
        for number, group_id in enumerate(entry.group_ids):
            try:
                opened.append(await self._open_checked(entry.name, number, group_id, config))
            except RaftlogError as error:
                opened.append(_unavailable(entry.name, number, str(error)))
            except OSError as error:
                opened.append(_unavailable(entry.name, number, f"{error.filename}: {error.strerror}"))
        return opened

    async def _open_checked(self, topic: str, number: int, group_id: str, config: TopicConfig) -> Partition:
        partition = await self.open(topic, number, config, create=False)
        log = partition.log
        if str(log.group_id) != group_id:
            partition.close()
            raise FormatError(f"{log.path} holds the log {log.group_id}, and the catalogue says {group_id}")
        for torn in log.report.torn:
            logger.warning(
                "%s/%d: a torn end of %d bytes was cut from %s at position %d and kept as %s",
                topic,
                number,
                torn.bytes_cut,
                torn.file,
                torn.position,
                torn.kept_in,
            )
        if log.damage is not None:
            logger.error("%s/%d is damaged and takes no records: %s", topic, number, log.damage)
        return partition

    async def create_all(self, topic: str, count: int, config: TopicConfig, deadline: Deadline) -> list[Partition]:
        """Make `count` new logs, durable when this returns; after an error none is left open.

        Raises `StorageFull`, `StorageError`, or `Overloaded` when the deadline passes meanwhile.
        """
        path = f"{self._directory.path}/{topic}"
        made: list[Partition] = []
        try:
            if self._disk.exists(path):
                self._directory.set_aside(path, topic)
            while len(made) < count:
                await self._create_some(topic, count, config, made)
                if asyncio.get_running_loop().time() >= deadline:
                    raise Overloaded(
                        f"only {len(made)} of {count} partitions could be made in time, and the topic was not; "
                        "allow more time"
                    )
            self._disk.sync([], [path, self._directory.path])
        except OSError as error:
            self._unmake(topic, count, made)
            raise _refused(topic, error) from error
        except BaseException:
            self._unmake(topic, count, made)
            raise
        return made

    async def _create_some(self, topic: str, count: int, config: TopicConfig, made: list[Partition]) -> None:
        """Make the next few logs at the same time; what was made is in `made`, whatever is raised."""
        some = range(len(made), min(count, len(made) + max(1, self._settings.sync_threads // 2)))
        results = await asyncio.gather(
            *[self.open(topic, number, config, create=True) for number in some], return_exceptions=True
        )
        made += [result for result in results if isinstance(result, Partition)]
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _unmake(self, topic: str, count: int, made: list[Partition]) -> None:
        """Nobody knows these logs yet and they are empty: to the trash with them."""
        for partition in made:
            partition.close()
        try:
            self._directory.discard(topic, str(uuid.uuid4()), count)
        except OSError as error:
            logger.error("what was made of topic %s cannot be moved to the trash: %s", topic, error)


def _unavailable(topic: str, number: int, why: str) -> LogClosed:
    logger.error("%s/%d cannot be opened: %s", topic, number, why)
    return LogClosed(f"{topic}/{number} is not available: {why}")


def _refused(topic: str, error: OSError) -> RaftlogError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no space left on the device for the logs of topic {topic}")
    return StorageError(f"the logs of topic {topic} could not be made: {error.filename}: {error.strerror}")
