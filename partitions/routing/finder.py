"""Lookup of topics and partitions by name, and of partitions' leaders.

For a topic or partition that is not known here the controller is asked once; then it counts as unknown for `_FRESH_S`,
or until the controller's state changes. Called by the broker."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from raftlog.errors import InvalidTopic, RaftlogError, Unavailable, UnknownTopic
from raftlog.partitions.controller.host import ControllerHost
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.produce.shares import PartitionChoice, Share
from raftlog.partitions.replica import Replica
from raftlog.partitions.results import RecordResult
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.types import NodeId

Row = TypeVar("Row", RecordResult, Share)

_FRESH_S = 1.0
_ASK_MS = 3_000
"""Shortest time that the controller gets to answer whether a topic or partition exists."""
_UNKNOWN_MAX = 1_000


class Finder:
    """Look-up of topics, replicas and leaders; it asks the controller about unknown topics.

    One instance per process."""

    def __init__(self, topics: Topics, metadata: ControllerHost, router: PartitionRouter) -> None:
        self._topics, self._metadata, self._router = topics, metadata, router
        self._unknown_until: dict[str, float] = {}
        """Loop time until which an unknown topic, or a partition above a topic's known ones, is not looked up again."""

    def state_changed(self) -> None:
        """Forget the unknown topics after a change of the controller's state."""
        self._unknown_until.clear()

    async def topic(self, name: str, deadline: Deadline) -> Topic:
        """Return the topic of this name.

        Raises `UnknownTopic`, and `NoLeader` when the controller does not answer in time."""
        try:
            return self._topics.find(name)
        except UnknownTopic:
            loop = asyncio.get_running_loop()
            if self._unknown_until.get(name, 0.0) > loop.time():
                raise
            await self._metadata.barrier(Deadline(max(deadline, deadline_in(_ASK_MS))))
            if name not in self._topics:
                self._record_unknown(name, loop.time())
            return self._topics.find(name)

    async def writable_topic(self, name: str, deadline: Deadline) -> Topic:
        """Return the topic of this name, for a client's write.

        Raises as `topic` does, and `InvalidTopic` for an internal one."""
        topic = await self.topic(name, deadline)
        if topic.is_internal:
            raise InvalidTopic(f"topic {name} is internal; only brokers write to it")
        return topic

    async def update_if_unknown(self, names: Iterable[str], deadline: Deadline) -> None:
        """Ask the controller once if one of these topics is unknown here. Raises `NoLeader` as `topic` does."""
        if any(name not in self._topics for name in names):
            await self._metadata.barrier(Deadline(max(deadline, deadline_in(_ASK_MS))))

    async def partition(self, name: str, number: int, deadline: Deadline) -> Partition:
        """Return a partition. Raises `UnknownTopic`, `UnknownPartition`, and `NoLeader` as `topic` does."""
        return await self.partition_of(await self.topic(name, deadline), number, deadline)

    async def partition_of(self, topic: Topic, number: int, deadline: Deadline) -> Partition:
        """Return a partition of a topic. Raises `UnknownPartition`, and `NoLeader` as `topic` does."""
        if number >= len(topic.partitions):
            await self.look_up(topic, number, deadline)
        return topic.partition(number)

    async def look_up(self, topic: Topic, choice: PartitionChoice, deadline: Deadline) -> None:
        """Ask the controller whether the topic has grown, if it lacks one of the named partitions here.

        Raises `NoLeader` when the controller does not answer in time."""
        if choice is None:
            return
        if isinstance(choice, int):
            highest = choice
        else:
            highest = max((number for number in choice if number is not None), default=0)
        if highest < len(topic.partitions):
            return
        key = f"{topic.name}/"  # no topic has such a name
        loop = asyncio.get_running_loop()
        if self._unknown_until.get(key, 0.0) > loop.time():
            return
        await self._metadata.barrier(Deadline(max(deadline, deadline_in(_ASK_MS))))
        if highest >= len(topic.partitions):
            self._record_unknown(key, loop.time())

    def _record_unknown(self, key: str, now: float) -> None:
        """Remember for `_FRESH_S` that the controller has no such topic or partition."""
        if len(self._unknown_until) >= _UNKNOWN_MAX:
            self._unknown_until.clear()
        self._unknown_until[key] = now + _FRESH_S

    async def refresh_errors(self, rows: list[Row], topic: Topic, deadline: Deadline) -> list[Row]:
        """Replace errors from stale metadata: `UnknownTopic` of a topic that was found becomes `deletion_error`."""
        if not topic.is_deleted or not any(isinstance(row.error, UnknownTopic) for row in rows):
            return rows
        why = await self.deletion_error(topic, deadline)
        return [row._replace(error=why) if isinstance(row.error, UnknownTopic) else row for row in rows]

    async def deletion_error(self, topic: Topic, deadline: Deadline) -> RaftlogError:
        """Return the error for a request whose topic was deleted before anything was written.

        The metadata may have been stale: the name may belong to another topic, perhaps since before the request
        arrived."""
        try:
            await self.topic(topic.name, deadline)
        except RaftlogError as error:
            return error
        return Unavailable(f"topic {topic.name!r} was deleted and created again meanwhile; nothing was written; retry")

    def replica(self, topic_id: UUID, number: int) -> Replica | None:
        """Return the replica of a partition on this node; None if there is none."""
        topic = self._topics.by_id(topic_id)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number].replica

    def leader_of(self, topic: str, number: int) -> NodeId | None:
        """Return the node that leads a partition; None if the partition is unknown here or has no leader."""
        if topic not in self._topics:
            return None
        partitions = self._topics.find(topic).partitions
        return self._router.leader_of(partitions[number]) if 0 <= number < len(partitions) else None
