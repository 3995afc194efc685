"""The broker: the façade that every API calls.

It already speaks of outcomes, high watermarks, leader epochs and deadlines, so that a Raft group can take the place
of the lone log behind each partition. One event loop owns it; `open` and `close` are its life.

Every call raises from the tree in `raftlog.errors`; what may have happened all the same has the outcome `unknown`.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from raftlog.errors import InvalidArgument
from raftlog.partitions.administration import Administration
from raftlog.partitions.catalogue import Catalogue
from raftlog.partitions.catalogue_state import offsets_committed
from raftlog.partitions.counters import Counters
from raftlog.partitions.data_directory import DataDirectory
from raftlog.partitions.deadline import NEVER, Deadline
from raftlog.partitions.housekeeping import Housekeeping
from raftlog.partitions.opening import Blocking, PartitionOpener
from raftlog.partitions.partition import LEADER_EPOCH, clock_ms
from raftlog.partitions.partitioner import hash_by_name
from raftlog.partitions.produce import PartitionChoice, produce_records
from raftlog.partitions.results import (
    ALL,
    Acks,
    Fetched,
    OffsetRange,
    Produced,
    RecordResult,
    TopicDescription,
)
from raftlog.partitions.settings import BrokerSettings
from raftlog.partitions.topics import Topic, Topics, topic_config
from raftlog.records import NewRecord
from raftlog.storage.disk import Disk
from raftlog.storage.real_disk import RealDisk
from raftlog.types import Buffer, Offset, TopicPartition

logger = logging.getLogger(__name__)

_GROUP = re.compile(r"[^\x00-\x1f\x7f/]{1,255}")


class Broker:
    """Use `open`."""

    def __init__(
        self,
        settings: BrokerSettings,
        directory: DataDirectory,
        catalogue: Catalogue,
        opener: PartitionOpener,
        counters: Counters,
    ) -> None:
        self.settings = settings
        self.counters = counters
        self.cluster_id = directory.identity.cluster_id
        self.node_id = directory.identity.node_id
        self.identity = directory.identity
        self.is_ready = False
        self._directory = directory
        self._catalogue = catalogue
        self._opener = opener
        self._topics = Topics()
        self._administration = Administration(settings, directory, catalogue, opener, self._topics)
        self._housekeeping = Housekeeping(settings, directory, self._topics, counters)
        self._threads: ThreadPoolExecutor | None = None

    @classmethod
    async def open(
        cls, settings: BrokerSettings, *, disk: Disk | None = None, clock: Callable[[], int] = clock_ms
    ) -> "Broker":
        """Open the data directory and everything in it; `disk` takes the place of the real file system.

        Raises `DirectoryLocked`, `FormatError`, `InvalidArgument`, `CorruptBatch` for a damaged catalogue, and
        `StorageError` for what the file system refuses. A damaged partition does not stop the broker.
        """
        threads = None
        if disk is None:
            threads = ThreadPoolExecutor(settings.sync_threads, thread_name_prefix="raftlog-sync")
            post = asyncio.get_running_loop().call_soon_threadsafe
            disk = RealDisk(threads.submit, post, settings.open_files_max)
        try:
            broker = cls._assemble(settings, disk, clock, _blocking(threads))
            broker._threads = threads
        except BaseException:
            if threads is not None:
                threads.shutdown()
            raise
        try:
            await broker._open_topics()
        except BaseException:
            await broker.close()
            raise
        return broker

    @classmethod
    def _assemble(cls, settings: BrokerSettings, disk: Disk, clock: Callable[[], int], blocking: Blocking) -> "Broker":
        directory = DataDirectory.open(disk, settings.data_dir, settings.node_id)
        try:
            counters = Counters()
            opener = PartitionOpener(disk, directory, settings, counters, clock, blocking)
            catalogue = Catalogue.open(
                disk, directory.catalogue_path(), growth_bytes_max=settings.catalogue_growth_bytes_max, clock=clock
            )
        except BaseException:
            directory.close()
            raise
        return cls(settings, directory, catalogue, opener, counters)

    async def _open_topics(self) -> None:
        entries = self._catalogue.state.topics
        self._directory.move_unknown({name: entry.partition_count for name, entry in entries.items()})
        hash_key = hash_by_name(self.settings.partitioner)
        for entry in list(entries.values()):
            config = topic_config(self.settings.topic_config, entry.overrides)
            partitions = await self._opener.open_known(entry, config)
            self._topics.add(Topic(entry, config, partitions, hash_key))
        self._housekeeping.start()
        self.is_ready = True

    async def close(self) -> None:
        """Refuse what is queued, sync what was appended, release the directory."""
        self.is_ready = False
        await self._housekeeping.stop()
        await self._administration.finish()
        for topic in self._topics:
            for partition in topic.open_partitions():
                partition.close()
                await asyncio.sleep(0)
        await self._catalogue.close()
        self._directory.close()
        if self._threads is not None:
            self._threads.shutdown()

    def wake_fetches(self) -> None:
        """Answer every waiting fetch with what is there, and let none wait from now on: the broker is about to stop."""
        for topic in self._topics:
            for partition in topic.open_partitions():
                partition.waiters.close()

    # ---- records

    async def produce_records(
        self,
        topic: str,
        partition: PartitionChoice,
        records: Sequence[NewRecord],
        *,
        acks: Acks = ALL,
        deadline: Deadline,
    ) -> list[RecordResult]:
        """Append records; one result each, in their order.

        `partition` is a number for all of them, or `None` to choose by key and in turn without one, or a list that
        says so for each. Raises only what concerns the whole call (`UnknownTopic`); what concerns a record or a
        partition is in the results.
        """
        return await produce_records(self._topics.find(topic), partition, records, acks, deadline)

    async def produce_batches(
        self, topic: str, partition: int, body: Buffer, *, acks: Acks = ALL, deadline: Deadline
    ) -> Produced:
        """Append a client's record batches as they are; all or nothing.

        A writable `body` is stamped in place and kept until it is synced. Raises `InvalidBatch`, `RecordTooLarge`,
        and what a produce of records has in its results.
        """
        target = self._topics.find(topic).partition(partition)
        base, after = await target.produce_batches(body, acks, deadline)
        return Produced(Offset(base), Offset(after), LEADER_EPOCH, target.log.high_watermark)

    async def fetch(
        self, topic: str, partition: int, offset: int, *, max_bytes: int, min_bytes: int = 1, deadline: Deadline
    ) -> Fetched:
        """Stored batches from the one that holds `offset` on, so its first records may lie below.

        Waits until `min_bytes` are there or the deadline passes; then what there is, also nothing. Raises
        `OffsetOutOfRange` and `CorruptBatch`.
        """
        target = self._topics.find(topic).partition(partition)
        max_bytes = min(max_bytes, self.settings.fetch_bytes_max)
        return await target.fetch(offset, max_bytes, min(min_bytes, max_bytes), deadline)

    async def offsets(
        self, topic: str, partition: int, *, linearizable: bool = False, deadline: Deadline = NEVER
    ) -> OffsetRange:
        """The first offset and the one after the last that can be read. Alone, a broker always knows the latest."""
        log = self._topics.find(topic).partition(partition).log
        return OffsetRange(log.log_start_offset, log.high_watermark)

    async def offset_for_timestamp(
        self, topic: str, partition: int, timestamp_ms: int, *, deadline: Deadline = NEVER
    ) -> tuple[Offset, int] | None:
        """The first record whose timestamp is at least this: its offset and timestamp."""
        return self._topics.find(topic).partition(partition).log.offset_for_timestamp(timestamp_ms)

    # ---- topics

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        *,
        deadline: Deadline,
        validate_only: bool = False,
    ) -> TopicDescription:
        """Make a topic; it is durable when this returns. Raises `TopicExists` and `InvalidArgument`."""
        topic = await self._administration.create(
            name, partitions, replication_factor, config or {}, deadline, validate_only
        )
        return topic.describe(self.node_id)

    async def delete_topic(self, name: str, *, deadline: Deadline) -> None:
        """Delete a topic with its records and the groups' offsets in it."""
        await self._administration.delete(name, deadline)

    async def alter_topic_config(self, name: str, changes: Mapping[str, str | None], *, deadline: Deadline) -> None:
        """Set some settings; `None` takes the broker's default again. All or nothing."""
        await self._administration.alter(name, changes, deadline)

    def topics(self) -> list[str]:
        """Their names, sorted."""
        return self._topics.names()

    def describe_topic(self, name: str) -> TopicDescription:
        """Raises `UnknownTopic`."""
        return self._topics.find(name).describe(self.node_id)

    # ---- groups

    async def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, Offset], *, deadline: Deadline) -> None:
        """Raise the group's watermarks to these offsets, durably; a lower offset than before changes nothing."""
        if not _GROUP.fullmatch(group):
            raise InvalidArgument("a group name has 1 to 255 characters, no slash and no control characters")
        for (topic, partition), offset in offsets.items():
            self._topics.find(topic).check_number(partition)
            if not 0 <= offset < 1 << 63:
                raise InvalidArgument(f"offset {offset} of {topic}/{partition} cannot be committed: it is no offset")
        if offsets:
            topic_ids = {topic: self._topics.find(topic).entry.topic_id for topic in {key.topic for key in offsets}}
            await self._catalogue.commit(offsets_committed(group, offsets, topic_ids), deadline)

    async def committed_offsets(self, group: str, *, deadline: Deadline = NEVER) -> dict[TopicPartition, Offset]:
        """The group's watermarks; empty for a group that never committed."""
        return dict(self._catalogue.state.groups.get(group, {}))

    def groups(self) -> list[str]:
        """Groups that committed something, sorted."""
        return sorted(self._catalogue.state.groups)

    # ---- state

    def metrics(self) -> dict[str, float]:
        """Gauges, computed when somebody asks; the totals are in `counters`."""
        partitions = [partition for topic in self._topics for partition in topic.open_partitions()]
        return {
            "topics": len(self._topics),
            "partitions": len(partitions),
            "partitions_unavailable": sum(topic.unavailable_count() for topic in self._topics),
            "log_bytes": sum(partition.log.size_bytes for partition in partitions),
            "pending_bytes": self._opener.shared_budget.used,
            "catalogue_bytes": self._catalogue.size_bytes,
        }

    def disk_space(self) -> dict[str, str | int]:
        """Path and free bytes of the data directory; -1 when the file system does not say."""
        path = self._directory.path
        try:
            free = self._directory.disk.free_bytes(path)
        except OSError:
            free = -1
        return {"path": path, "free": free}


def _blocking(threads: ThreadPoolExecutor | None) -> Blocking:
    """Without threads the job runs at once: a simulated disk does not make anybody wait."""

    async def run(job: Callable[[], None]) -> None:
        if threads is None:
            job()
            await asyncio.sleep(0)
        else:
            await asyncio.get_running_loop().run_in_executor(threads, job)

    return run
