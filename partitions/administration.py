"""Creating, deleting and altering topics. One change at a time; each is finished once it was begun.

Creation: logs made and synced, then the catalogue's record. Deletion: the record first, then the logs are closed,
moved to the trash, and unlinked in the background. So a crash leaves directories that nobody knows, never topics
without their directories.
"""

import asyncio
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from raftlog.errors import DeadlineExceeded, InvalidArgument, TopicExists
from raftlog.partitions.catalogue import Catalogue
from raftlog.partitions.catalogue_state import TopicEntry, topic_altered, topic_deleted
from raftlog.partitions.data_directory import DataDirectory
from raftlog.partitions.deadline import NEVER, Deadline
from raftlog.partitions.opening import PartitionOpener
from raftlog.partitions.partition import clock_ms
from raftlog.partitions.partitioner import hash_by_name
from raftlog.partitions.settings import BrokerSettings
from raftlog.partitions.topics import Topic, Topics, check_replication_factor, check_topic_name, topic_config

T = TypeVar("T")
_FINISH_SECONDS_MAX = 2.0


class Administration:
    """Changes `topics` and the catalogue together."""

    def __init__(
        self,
        settings: BrokerSettings,
        directory: DataDirectory,
        catalogue: Catalogue,
        opener: PartitionOpener,
        topics: Topics,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._catalogue = catalogue
        self._opener = opener
        self._topics = topics
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()

    async def finish(self) -> None:
        """Wait for the changes under way, unless the disk does not answer."""
        if self._running:
            await asyncio.wait(self._running, timeout=_FINISH_SECONDS_MAX)

    async def create(
        self,
        name: str,
        count: int,
        replication_factor: int | None,
        overrides: Mapping[str, str],
        deadline: Deadline,
        validate_only: bool,
    ) -> Topic:
        check_topic_name(name)
        check_replication_factor(replication_factor)
        if not 1 <= count <= self._settings.partitions_per_topic_max:
            raise InvalidArgument(
                f"a topic cannot have {count} partitions; it can have 1 to {self._settings.partitions_per_topic_max}"
            )
        config = topic_config(self._settings.topic_config, overrides)
        self._check_free(name)
        hash_key = hash_by_name(self._settings.partitioner)
        if validate_only:
            entry = TopicEntry(name, "", ("",) * count, dict(overrides), clock_ms())
            return Topic(entry, config, (), hash_key)

        async def work() -> Topic:
            self._check_free(name)
            partitions = await self._opener.create_all(name, count, config, deadline)
            group_ids = tuple(str(partition.log.group_id) for partition in partitions)
            entry = TopicEntry(name, str(uuid.uuid4()), group_ids, dict(overrides), clock_ms())
            try:
                await self._catalogue.commit(entry.event(), NEVER)
            except BaseException:
                for partition in partitions:
                    partition.close()
                raise
            topic = Topic(entry, config, partitions, hash_key)
            self._topics.add(topic)
            return topic

        return await self._run(work(), deadline)

    async def delete(self, name: str, deadline: Deadline) -> None:
        self._topics.find(name)

        async def work() -> None:
            topic = self._topics.find(name)
            await self._catalogue.commit(topic_deleted(name), NEVER)
            self._topics.remove(name)
            for partition in topic.open_partitions():
                partition.close()
                await asyncio.sleep(0)
            self._directory.discard(name, topic.entry.topic_id, topic.entry.partition_count)

        await self._run(work(), deadline)
        self._empty_trash()

    async def alter(self, name: str, changes: Mapping[str, str | None], deadline: Deadline) -> None:
        self._topics.find(name)

        async def work() -> None:
            topic = self._topics.find(name)
            overrides = dict(topic.entry.overrides)
            for key, value in changes.items():
                if value is None:
                    overrides.pop(key, None)
                else:
                    overrides[key] = value
            config = topic_config(self._settings.topic_config, overrides)
            await self._catalogue.commit(topic_altered(name, overrides), NEVER)
            topic.reconfigure(replace(topic.entry, overrides=overrides), config)

        await self._run(work(), deadline)

    def _check_free(self, name: str) -> None:
        if name in self._topics:
            raise TopicExists(f"topic {name!r} exists already")

    async def _run(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> T:
        """Do it in a task of its own: a caller that goes away or runs out of time leaves nothing half done."""
        task = asyncio.ensure_future(self._alone(work))
        self._running.add(task)
        task.add_done_callback(self._ended)
        timeout = None if deadline == NEVER else max(0.0, deadline - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            raise DeadlineExceeded("the change is still being made; describe the topic to learn what became of it")
        return task.result()

    async def _alone(self, work: Coroutine[Any, Any, T]) -> T:
        async with self._one_at_a_time:
            return await work

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()

    def _empty_trash(self) -> None:
        task = asyncio.ensure_future(empty_trash(self._directory))
        self._running.add(task)
        task.add_done_callback(self._ended)


async def empty_trash(directory: DataDirectory) -> None:
    """Unlink what is in the trash, and let others run between two files."""
    for _ in directory.empty_trash():
        await asyncio.sleep(0)
