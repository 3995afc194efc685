"""Committed offsets below feature level 3, as release 0.1.0 commits and asks for them: it may lead, or forward to us.

    commit     an event (`level_two`) that is produced into the group's partition, whoever leads it
    read       `groups.committed` and `groups.list`, which a coordinator of ours serves for as long as anybody asks

Groups have no members then, and watermarks only rise. Called by the service.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

from raftlog.errors import InvalidArgument, NotLeader, OutcomeUnknown, RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.coordinators import Coordinators
from raftlog.partitions.groups.folded import Place
from raftlog.partitions.groups.level_two import event_of
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.multiraft import Node
from raftlog.partitions.multiraft.requests import Request
from raftlog.partitions.replica import Replica
from raftlog.partitions.results import ALL
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import Router
from raftlog.partitions.routing.topics import Topics
from raftlog.records import NewRecord
from raftlog.runtime.rpc import Answer
from raftlog.types import NodeId, Offset, TopicPartition

_COMMITTED: Final = "groups.committed"
_GROUPS: Final = "groups.list"
_NAMES_MS: Final = 30_000


class MixedRelease:
    """One for each process."""

    def __init__(self, node: Node, router: Router, topics: Topics, coordinators: Coordinators) -> None:
        self._router, self._topics, self._coordinators = router, topics, coordinators
        node.on_request(_COMMITTED, self._serve_committed)
        node.on_request(_GROUPS, self._serve_groups)

    async def commit(
        self, partition: Partition, group: str, offsets: Mapping[TopicPartition, Offset], deadline: Deadline
    ) -> dict[Place, OffsetRecord]:
        """Raise the group's watermarks, durably on a majority; what they are then. Raises what a produce raises."""
        ids = {name: str(self._topics.find(name).row.topic_id) for name in sorted({key.topic for key in offsets})}
        record = NewRecord(event_of(group, offsets, ids), group.encode())
        future = await partition.enqueue_records([record], ALL, deadline)
        assert future is not None, "every commit is acknowledged"
        after = Offset(await future + 1)
        try:
            return await self.committed(partition, group, deadline, after)
        except RaftlogError as error:
            # The commit happened: an answer that says `failed` would be a lie.
            raise OutcomeUnknown(f"the offsets of {group} were committed, but cannot be read now: {error}") from error

    async def committed(
        self, partition: Partition, group: str, deadline: Deadline, after: Offset | None = None
    ) -> dict[Place, OffsetRecord]:
        """With every record before `after`; without it, with everything that was answered before this call."""
        header = {"group": group} if after is None else {"group": group, "after": after}

        async def here(replica: Replica) -> list[list[Any]]:
            return await self._watermarks(partition, group, after, deadline)

        rows = await self._router.call(
            partition, deadline, here, self._over_there(_COMMITTED, partition, header, deadline)
        )
        return {(UUID(topic_id), number): OffsetRecord(Offset(offset), -1, "", 0) for topic_id, number, offset in rows}

    async def names(self, partition: Partition, deadline: Deadline) -> list[str]:
        """Those that committed something there, sorted."""

        async def here(replica: Replica) -> list[str]:
            return await self._names(partition, deadline)

        return await self._router.call(partition, deadline, here, self._over_there(_GROUPS, partition, {}, deadline))

    def _over_there(
        self, name: str, partition: Partition, header: Mapping[str, Any], deadline: Deadline
    ) -> Callable[[NodeId], Awaitable[list[Any]]]:
        async def there(node: NodeId) -> list[Any]:
            return list((await self._router.read(node, name, partition, header, deadline)).value)

        return there

    # at the leader

    async def _watermarks(
        self, partition: Partition, group: str, after: Offset | None, deadline: Deadline
    ) -> list[list[Any]]:
        coordinator = self._coordinators.of(partition)
        await coordinator.ready(deadline)
        if after is None or coordinator.replica.group.high_watermark < after:
            await coordinator.current(deadline)
        else:
            await coordinator.catch_up(deadline)
        offsets = coordinator.folded.offsets.get(group, {})
        return [[str(topic_id), number, record.offset] for (topic_id, number), record in offsets.items()]

    async def _names(self, partition: Partition, deadline: Deadline) -> list[str]:
        coordinator = self._coordinators.of(partition)
        await coordinator.current(deadline)
        return sorted(coordinator.folded.offsets)

    # for other nodes

    async def _serve_committed(self, request: Request) -> Answer:
        match request.header:
            case [bytes(topic_id), int(number), int(), {"group": str(group)} as header] if len(topic_id) == 16:
                after = header.get("after")
                if after is None or type(after) is int:
                    bound = None if after is None else Offset(after)
                    partition = self._partition(topic_id, number)
                    return Answer(await self._watermarks(partition, group, bound, request.deadline))
        raise InvalidArgument(f"a request {_COMMITTED!r} that cannot be read")

    async def _serve_groups(self, request: Request) -> Answer:
        match request.header:
            case [bytes(topic_id), int(number), int(), dict()] if len(topic_id) == 16:
                return Answer(await self._names(self._partition(topic_id, number), deadline_in(_NAMES_MS)))
        raise InvalidArgument(f"a request {_GROUPS!r} that cannot be read")

    def _partition(self, topic_id: bytes, number: int) -> Partition:
        topic = self._topics.by_id(UUID(bytes=topic_id))
        if topic is None or not 0 <= number < len(topic.partitions):
            raise NotLeader(f"there is no replica of partition {number} of the topic {topic_id.hex()} here")
        return topic.partitions[number]
