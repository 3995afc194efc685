"""Making, opening and removing the logs of topics. Each log takes a few syncs, so between two of them others run."""

import asyncio
import errno
import logging
from collections.abc import Callable

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


class PartitionOpener:
    """Knows what every partition of a broker shares."""

    def __init__(
        self,
        disk: Disk,
        directory: DataDirectory,
        settings: BrokerSettings,
        counters: Counters,
        clock: Callable[[], int],
    ) -> None:
        self.shared_budget = Budget(settings.broker_pending_bytes_max, "this broker")
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._counters = counters
        self._clock = clock

    def open(self, topic: str, number: int, config: TopicConfig, *, create: bool) -> Partition:
        """Blocking; raises what `LoneLog.open` raises."""
        name = f"{topic}/{number}"
        settings = self._settings
        return Partition.open(
            self._disk,
            self._directory.partition_path(topic, number),
            config,
            name=name,
            budgets=(Budget(settings.partition_pending_bytes_max, name), self.shared_budget),
            counters=self._counters,
            accumulate_bytes_max=settings.accumulate_bytes_max,
            create=create,
            clock=self._clock,
        )

    async def open_known(self, entry: TopicEntry, config: TopicConfig) -> list[Partition | RaftlogError]:
        """Open what the catalogue lists; what cannot be opened is reported and kept as its error, never remade."""
        opened: list[Partition | RaftlogError] = []
        for number, group_id in enumerate(entry.group_ids):
            try:
                opened.append(self._open_checked(entry.name, number, group_id, config))
            except RaftlogError as error:
                opened.append(_unavailable(entry.name, number, str(error)))
            except OSError as error:
                opened.append(_unavailable(entry.name, number, f"{error.filename}: {error.strerror}"))
            await asyncio.sleep(0)
        return opened

    def _open_checked(self, topic: str, number: int, group_id: str, config: TopicConfig) -> Partition:
        partition = self.open(topic, number, config, create=False)
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
            for number in range(count):
                made.append(self.open(topic, number, config, create=True))
                await asyncio.sleep(0)
                if asyncio.get_running_loop().time() >= deadline:
                    raise Overloaded(
                        f"only {number + 1} of {count} partitions could be made in time, and the topic was not; "
                        "allow more time"
                    )
            self._disk.sync([], [path, self._directory.path])
        except OSError as error:
            _close_all(made)
            raise _refused(topic, error) from error
        except BaseException:
            _close_all(made)
            raise
        return made


def _close_all(partitions: list[Partition]) -> None:
    for partition in partitions:
        partition.close()


def _unavailable(topic: str, number: int, why: str) -> LogClosed:
    logger.error("%s/%d cannot be opened: %s", topic, number, why)
    return LogClosed(f"{topic}/{number} is not available: {why}")


def _refused(topic: str, error: OSError) -> RaftlogError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no space left on the device for the logs of topic {topic}")
    return StorageError(f"the logs of topic {topic} could not be made: {error.filename}: {error.strerror}")
