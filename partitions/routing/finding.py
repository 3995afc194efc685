"""Topics and partitions by name, and where clients reach whoever leads them.

A topic that is not known here is asked for at the controller once, and then believed to be unknown for `_FRESH_S`, or
until this node hears of any change. Called by the broker.
"""

import asyncio
from typing import TypeVar
from uuid import UUID

from raftlog.errors import RaftlogError, Unavailable, UnknownTopic
from raftlog.partitions.controller.host import ControllerHost
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.produce.shares import Share
from raftlog.partitions.replica import Replica
from raftlog.partitions.results import RecordResult
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.types import NodeId

Row = TypeVar("Row", RecordResult, Share)

_FRESH_S = 1.0
_ASK_MS = 3_000
"""The controller is given so long at least to say whether there is such a topic."""
_UNKNOWN_MAX = 1_000


class Finder:
    """One for each process."""

    def __init__(self, topics: Topics, metadata: ControllerHost, router: PartitionRouter) -> None:
        self._topics, self._metadata, self._router = topics, metadata, router
        self._unknown_until: dict[str, float] = {}
        """Topics that the controller did not know when it was asked."""

    def state_changed(self) -> None:
        """The controller's state is another one."""
        self._unknown_until.clear()

    async def topic(self, name: str, deadline: Deadline) -> Topic:
        """Raises `UnknownTopic`, and `NoLeader` when that cannot be known in time."""
        try:
            return self._topics.find(name)
        except UnknownTopic:
            loop = asyncio.get_running_loop()
            if self._unknown_until.get(name, 0.0) > loop.time():
                raise
            await self._metadata.barrier(Deadline(max(deadline, deadline_in(_ASK_MS))))
            if name not in self._topics:
                if len(self._unknown_until) >= _UNKNOWN_MAX:
                    self._unknown_until.clear()
                self._unknown_until[name] = loop.time() + _FRESH_S
            return self._topics.find(name)

    async def put_right(self, rows: list[Row], topic: Topic, deadline: Deadline) -> list[Row]:
        """Results of a topic that was found, with `why_gone` in those that say it is unknown."""
        if not topic.is_deleted or not any(isinstance(row.error, UnknownTopic) for row in rows):
            return rows
        why = await self.why_gone(topic, deadline)
        return [row._replace(error=why) if isinstance(row.error, UnknownTopic) else row for row in rows]

    async def why_gone(self, topic: Topic, deadline: Deadline) -> RaftlogError:
        """What to say to a request that found a topic by a name and wrote nothing before it was gone. What was found
        may have been old: then the name is another topic's, perhaps since before the request came."""
        try:
            await self.topic(topic.name, deadline)
        except RaftlogError as error:
            return error
        return Unavailable(f"topic {topic.name!r} was deleted and made again meanwhile; nothing was written; ask again")

    def replica(self, topic_id: UUID, number: int) -> Replica | None:
        """The replica here of a partition."""
        topic = self._topics.by_id(topic_id)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number].replica

    def leader_of(self, topic: str, number: int) -> NodeId | None:
        """Return the node that leads a partition; None: it or its topic is not known here, or has no leader."""
        if topic not in self._topics:
            return None
        partitions = self._topics.find(topic).partitions
        return self._router.leader_of(partitions[number]) if 0 <= number < len(partitions) else None
