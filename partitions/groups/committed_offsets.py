"""Committed offsets of groups, in the internal topic `__consumer_offsets`: replicated as everything else is.

    a group's commits all go to one partition, chosen by its name;   its leader folds what is committed, when asked

A commit is answered when a majority has it on disk. Watermarks are read at the leader through ReadIndex, so what was
answered is seen; those in the answer to a commit are read behind the commit's own record, which needs no ReadIndex:
whatever was answered before the commit was asked for lies before that record. The leader states everything anew when
the log has grown much larger than that, and what lies before goes. Called by the broker.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from raftlog.errors import (
    InvalidArgument,
    NotLeader,
    OffsetNotAvailable,
    OutcomeUnknown,
    Overloaded,
    RaftlogError,
)
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.watermarks import Watermarks, committed
from raftlog.partitions.multiraft import Node
from raftlog.partitions.multiraft.requests import Request
from raftlog.partitions.replica import Replica
from raftlog.partitions.results import ALL
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import Router
from raftlog.partitions.routing.serving import FindReplica
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.records import NewRecord, read_records
from raftlog.records.partitioner import murmur2
from raftlog.runtime.rpc import Answer
from raftlog.types import NodeId, Offset, TopicPartition

_logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_CONFIG: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": str(1 << 20)}
_COMMITTED = "groups.committed"
_GROUPS = "groups.list"
_READ_BYTES = 1 << 16
"""Folded in one turn of the loop."""
_RESTATE_MS = 30_000


class _Folded:
    """What one replica's log says, as far as it was read."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.lock = asyncio.Lock()
        self.watermarks = Watermarks()
        self.next_offset = Offset(0)
        self.stated_bytes = 0
        """Size of the log when everything was stated anew last."""

    async def catch_up(self) -> None:
        """Fold what is committed here; gives others the loop between two reads. Raises `CorruptBatch`, and
        `OffsetNotAvailable` where it cannot be read now."""
        group = self.replica.group
        if self.next_offset < group.log_start_offset:
            self.watermarks, self.next_offset = Watermarks(), group.log_start_offset
        while (begin := self.next_offset) < group.high_watermark:
            for batch in group.read(self.next_offset, _READ_BYTES):
                for record in read_records(batch):
                    if record.offset >= self.next_offset:
                        self.watermarks.apply(record.value)
                        self.next_offset = Offset(record.offset + 1)
            if self.next_offset == begin:
                raise OffsetNotAvailable(f"{self.replica.name}: offset {begin} is committed and cannot be read yet")
            await asyncio.sleep(0)


class CommittedOffsets:
    """One for each process. `growth_bytes_max` is how much a log grows before everything in it is stated anew."""

    def __init__(
        self,
        node: Node,
        router: Router,
        topics: Topics,
        find: FindReplica,
        is_deleted: Callable[[UUID], bool],
        growth_bytes_max: int,
    ) -> None:
        self._node, self._router, self._topics, self._find = node, router, topics, find
        self._topic_is_deleted = is_deleted
        self._growth_bytes_max = growth_bytes_max
        self._folded: dict[Replica, _Folded] = {}
        self._restating: asyncio.Task[None] | None = None
        node.on_request(_COMMITTED, self._serve_committed)
        node.on_request(_GROUPS, self._serve_groups)

    # from any node

    async def commit(
        self, offsets_topic: Topic, group: str, offsets: Mapping[TopicPartition, Offset], deadline: Deadline
    ) -> dict[TopicPartition, Offset]:
        """Raise the group's watermarks, durably on a majority; what they are then. Raises what a produce raises."""
        ids = {name: str(self._topics.find(name).row.topic_id) for name in sorted({key.topic for key in offsets})}
        record = NewRecord(committed(group, offsets, ids), group.encode())
        partition = self._partition(offsets_topic, group)
        future = await partition.enqueue_records([record], ALL, deadline)
        assert future is not None, "every commit is acknowledged"
        after = Offset(await future + 1)
        try:
            return await self._committed(partition, group, after, deadline)
        except RaftlogError as error:
            # The commit happened: an answer that says `failed` would be a lie.
            raise OutcomeUnknown(f"the offsets of {group} were committed, but cannot be read now: {error}") from error

    async def committed(self, group: str, deadline: Deadline) -> dict[TopicPartition, Offset]:
        """The group's watermarks in the topics that exist, with all that was answered before this call."""
        if OFFSETS_TOPIC not in self._topics:
            return {}
        return await self._committed(self._partition(self._topics.find(OFFSETS_TOPIC), group), group, None, deadline)

    async def _committed(
        self, partition: Partition, group: str, after: Offset | None, deadline: Deadline
    ) -> dict[TopicPartition, Offset]:
        """With every record before `after`; without it, with everything that was answered before this call."""

        async def here(replica: Replica) -> list[list[Any]]:
            return await self._watermarks(replica, group, after, deadline)

        async def there(node: NodeId) -> list[list[Any]]:
            header = {"group": group} if after is None else {"group": group, "after": after}
            return list((await self._router.read(node, _COMMITTED, partition, header, deadline)).value)

        return self._by_name(await self._router.call(partition, deadline, here, there))

    def partition_of(self, group: str) -> Partition | None:
        """Where a group's commits go; None before the first commit of any group."""
        return self._partition(self._topics.find(OFFSETS_TOPIC), group) if OFFSETS_TOPIC in self._topics else None

    async def groups(self, deadline: Deadline) -> list[str]:
        """Those that committed something, sorted."""
        if OFFSETS_TOPIC not in self._topics:
            return []
        partitions = self._topics.find(OFFSETS_TOPIC).partitions
        parts = await asyncio.gather(*(self._groups_in(partition, deadline) for partition in partitions))
        return sorted(name for part in parts for name in part)

    async def _groups_in(self, partition: Partition, deadline: Deadline) -> list[str]:
        async def there(node: NodeId) -> list[str]:
            return list((await self._router.read(node, _GROUPS, partition, {}, deadline)).value)

        return await self._router.call(partition, deadline, self._names, there)

    def _partition(self, topic: Topic, group: str) -> Partition:
        return topic.partitions[(murmur2(group.encode()) & 0x7FFFFFFF) % len(topic.partitions)]

    def _by_name(self, rows: list[list[Any]]) -> dict[TopicPartition, Offset]:
        found = {}
        for topic_id, partition, offset in rows:
            topic = self._topics.by_id(UUID(topic_id))
            if topic is not None:
                found[TopicPartition(topic.name, partition)] = Offset(offset)
        return found

    # at the leader

    async def _watermarks(
        self, replica: Replica, group: str, after: Offset | None, deadline: Deadline
    ) -> list[list[Any]]:
        if after is None or replica.group.high_watermark < after:
            folded = await self._current(replica, deadline)
        else:
            folded = await self._fold(replica, deadline)
        return [[topic_id, partition, offset] for (topic_id, partition), offset in folded.watermarks.of(group).items()]

    async def _names(self, replica: Replica) -> list[str]:
        return (await self._current(replica, deadline_in(_RESTATE_MS))).watermarks.groups()

    async def _current(self, replica: Replica, deadline: Deadline) -> _Folded:
        """What the log says, with everything that was answered before the call."""
        await replica.offsets(True, deadline)
        return await self._fold(replica, deadline)

    async def _fold(self, replica: Replica, deadline: Deadline) -> _Folded:
        """Up to the high watermark here."""
        folded = self._of(replica)
        try:
            async with asyncio.timeout_at(deadline), folded.lock:
                await folded.catch_up()
        except TimeoutError:
            raise Overloaded(f"{replica.name}: committed offsets are being read, and the deadline passed") from None
        return folded

    def _of(self, replica: Replica) -> _Folded:
        folded = self._folded.get(replica)
        if folded is None:
            for other in [other for other in self._folded if other.group.is_closed]:
                del self._folded[other]
            folded = self._folded[replica] = _Folded(replica)
        return folded

    async def keep_house(self) -> None:
        """Make the logs that are led here and have grown too much shorter; called now and then."""
        if OFFSETS_TOPIC not in self._topics or (self._restating is not None and not self._restating.done()):
            return
        for partition in self._topics.find(OFFSETS_TOPIC).partitions:
            replica = partition.replica
            if replica is None or not replica.is_leader:
                continue
            folded = self._of(replica)
            if replica.describe().size_bytes - folded.stated_bytes > self._growth_bytes_max:
                async with folded.lock:
                    await folded.catch_up()
                self._restating = self._node.loop.create_task(self._restate(folded), name="restate committed offsets")
                return

    async def _restate(self, folded: _Folded) -> None:
        """Append all watermarks again, then let go of what lies before."""
        replica = folded.replica
        topics = {str(topic.row.topic_id): topic.name for topic in self._topics}
        begin = folded.next_offset
        topic = self._topics.find(OFFSETS_TOPIC)
        try:
            stated = []
            for name, value in list(folded.watermarks.restatement(topics, self._is_deleted)):
                partition, record = self._partition(topic, name), NewRecord(value, name.encode())
                stated.append(await partition.enqueue_records([record], ALL, deadline_in(_RESTATE_MS)))
            await asyncio.gather(*filter(None, stated))
            await replica.group.roll_now()
            await replica.group.propose_trim(begin)
            folded.stated_bytes = replica.describe().size_bytes
        except RaftlogError as error:
            _logger.warning("%s could not be made shorter, and goes on growing: %s", replica.name, error)

    def _is_deleted(self, topic_id: str) -> bool:
        return self._topic_is_deleted(UUID(topic_id))

    # for other nodes

    async def _serve_committed(self, request: Request) -> Answer:
        match request.header:
            case [bytes(topic_id), int(number), int(), {"group": str(group)} as header] if len(topic_id) == 16:
                after = header.get("after")
                if after is None or type(after) is int:
                    replica = self._replica(topic_id, number)
                    bound = None if after is None else Offset(after)
                    return Answer(await self._watermarks(replica, group, bound, request.deadline))
        raise InvalidArgument(f"a request {_COMMITTED!r} that cannot be read")

    async def _serve_groups(self, request: Request) -> Answer:
        match request.header:
            case [bytes(topic_id), int(number), int(), dict()] if len(topic_id) == 16:
                return Answer(await self._names(self._replica(topic_id, number)))
        raise InvalidArgument(f"a request {_GROUPS!r} that cannot be read")

    def _replica(self, topic_id: bytes, number: int) -> Replica:
        replica = self._find(UUID(bytes=topic_id), number)
        if replica is None:
            raise NotLeader(f"there is no replica of partition {number} of the topic {topic_id.hex()} here")
        return replica
