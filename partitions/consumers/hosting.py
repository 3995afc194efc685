"""What instances stand on: the coordinator of their groups, the topics, and how records are read."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from raftlog.partitions.consumers.polling import RecordReader
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit
from raftlog.partitions.routing.finding import Finder
from raftlog.partitions.routing.topics import Topics
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.types import TopicPartition


class Catalogue:
    """The topics, as this node knows them."""

    def __init__(self, topics: Topics, finder: Finder) -> None:
        self._topics, self._finder = topics, finder

    def topic_id(self, name: str) -> UUID | None:
        """None for one that is not known here."""
        return self._topics.find(name).row.topic_id if name in self._topics else None

    def names(self) -> Iterator[str]:
        """Of those that are not internal."""
        return (topic.name for topic in self._topics if not topic.row.creation.is_internal)

    async def check(self, partition: TopicPartition, deadline: Deadline) -> None:
        """Raises `UnknownTopic` and `UnknownPartition`; what is not known here is asked for first."""
        (await self._finder.topic(partition.topic, deadline)).partition(partition.partition)


class OffsetRecords(Protocol):
    """What is committed, as `groups.Groups` has it. Commits of members are fenced, so it does not matter if another
    broker coordinates by now."""

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        member: MemberIdentity | None = None,
        deadline: Deadline,
    ) -> dict[TopicPartition, OffsetRecord]: ...

    async def committed(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, OffsetRecord]: ...


class ReadBounds(NamedTuple):
    """What one poll may have."""

    wait_ms_max: int
    stored_bytes_max: int
    opener: BatchOpener


class InstanceHost(NamedTuple):
    """One for each coordinator."""

    coordinator: GroupCoordinator
    """Where instances are members and their records are kept."""
    offsets: OffsetRecords
    reader: RecordReader
    catalogue: Catalogue
    bounds: ReadBounds
