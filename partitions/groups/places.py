"""Conversion of partitions between topic names, which callers use, and topic uuids, which are stored.

A topic created later under the name of a deleted one has another uuid. Called by the service and by coordinators."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from raftlog.errors import RequestError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import Place
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.topics import Topics
from raftlog.types import TopicPartition

_T = TypeVar("_T")


class TopicPlaces:
    """Converter between topic names and topic uuids, for the topics known to this broker."""

    def __init__(self, finder: Finder, topics: Topics) -> None:
        self._finder, self._topics = finder, topics

    async def find_all(self, offsets: Mapping[TopicPartition, _T], deadline: Deadline) -> dict[Place, _T]:
        """Return the mapping with topic uuid and partition as keys. Raises `UnknownTopic` and `UnknownPartition`."""
        return {await self.find(key, deadline): value for key, value in offsets.items()}

    async def find(self, key: TopicPartition, deadline: Deadline) -> Place:
        """Return topic uuid and partition. Raises `UnknownTopic` and `UnknownPartition`."""
        return (await self._finder.partition(*key, deadline)).topic_id, key.partition

    async def update_if_unknown(self, topics: Iterable[str], deadline: Deadline) -> None:
        """Ask the controller once if one of these topics is unknown here. Raises `NoLeader`."""
        await self._finder.update_if_unknown(topics, deadline)

    async def find_each(
        self, keys: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Place | RequestError]:
        """Return topic uuid and partition of each key, or its error; ask the controller at most once per topic."""
        found: dict[TopicPartition, Place | RequestError] = {}
        keys = list(keys)
        await self.update_if_unknown({key.topic for key in keys}, deadline)
        for key in keys:
            try:
                topic = self._topics.find(key.topic)
                partition = await self._finder.partition_of(topic, key.partition, deadline)
            except RequestError as error:
                found[key] = error
            else:
                found[key] = partition.topic_id, key.partition
        return found

    def name_partition(self, place: Place) -> TopicPartition | None:
        """Return the partition with its topic's name; None if the topic does not exist."""
        topic = self._topics.by_id(place[0])
        return None if topic is None else TopicPartition(topic.name, place[1])

    def name_offsets(self, offsets: Mapping[Place, _T]) -> dict[TopicPartition, _T]:
        """Return the offsets by topic name and partition, for existing topics."""
        named = ((self.name_partition(place), record) for place, record in offsets.items())
        return {name: record for name, record in named if name is not None}
