"""Dependencies of consumer instances: the coordinator of their groups, the topics, and the reader of records."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple, Protocol
from uuid import UUID

from raftlog.partitions.caller import Caller
from raftlog.partitions.consumers.poll import RecordReader
from raftlog.partitions.consumers.settings import Owner
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit, StableOffset
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.topics import Topics
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.security.permissions import AclOperation, AclResourceType, Resource
from raftlog.types import TopicPartition


class Catalogue:
    """Topics of the cluster, from this broker's copy of the controller's state."""

    def __init__(self, topics: Topics, finder: Finder) -> None:
        self._topics, self._finder = topics, finder

    def topic_id(self, name: str) -> UUID | None:
        """Return the topic's id; None for a topic that is unknown here."""
        return self._topics.find(name).row.topic_id if name in self._topics else None

    def names(self) -> Iterator[str]:
        """Return the names of all topics that are not internal."""
        return (topic.name for topic in self._topics if not topic.row.creation.is_internal)

    async def check(self, partition: TopicPartition, deadline: Deadline) -> None:
        """Raise `UnknownTopic` or `UnknownPartition` for a missing partition.

        Ask the controller about a partition that is unknown here."""
        await self._finder.partition(*partition, deadline)


class OffsetRecords(Protocol):
    """Committed offsets; the interface of `groups.Groups` that instances use.

    Commits of group members are fenced, so they are safe when another broker has become the coordinator."""

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        member: MemberIdentity | None = None,
        deadline: Deadline,
    ) -> dict[TopicPartition, OffsetRecord]:
        """Commit offsets of the group, and return the stored records.

        With `member` the commit is refused if the member's generation is stale."""
        ...

    async def committed(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, OffsetRecord]:
        """Return the group's committed offsets, by partition."""
        ...

    async def stable_offsets(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, StableOffset]:
        """Return the group's committed offsets, and which of them an open transaction may change."""
        ...


class ReadBounds(NamedTuple):
    """Limits of one poll: longest wait in ms, and stored bytes; `opener` decompresses batches."""

    wait_ms_max: int
    stored_bytes_max: int
    opener: BatchOpener


class InstanceHost(NamedTuple):
    """Components that the instances of one coordinator use."""

    coordinator: GroupCoordinator
    """Coordinator whose group members the instances are, and which stores their records."""
    offsets: OffsetRecords
    reader: RecordReader
    catalogue: Catalogue
    bounds: ReadBounds
    authorizer: Authorizer

    def may_read(self, owner: Owner | None, topic: str) -> bool:
        """Return whether the owner of an instance may read a topic; everything may be read without an owner."""
        if owner is None or not self.authorizer.is_on:
            return True
        return self.authorizer.allows(_caller(owner), AclOperation.READ, Resource(AclResourceType.TOPIC, topic))

    def while_readable(self, owner: Owner | None, topics: Collection[str]) -> AbstractAsyncContextManager[None]:
        """Return a context that raises `TopicNotAuthorized` if the owner may not, or no longer, read all topics."""
        if owner is None:
            return nullcontext()
        return self.authorizer.while_allowed(_caller(owner), AclOperation.READ, AclResourceType.TOPIC, topics)


def _caller(owner: Owner) -> Caller:
    """Return the owner of an instance as caller, so that its permissions are checked."""
    return Caller(owner.principal, "", owner.address, "")
