"""Positions of an instance in each of its partitions. Pure.

    delivered      was sent in the answer to a poll
    acknowledged   delivered by an earlier poll: the client polled again, so it received them

A position advances only when an answer was made. Auto-commit commits acknowledged offsets only, never those of an
answer that the client may still process."""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple
from uuid import UUID

from raftlog.partitions.groups.results import OffsetCommit
from raftlog.types import Offset, TopicPartition


class _Position:
    """Position in one partition: next offset to fetch, and the offsets delivered, acknowledged and committed."""

    __slots__ = ("acknowledged", "committed", "delivered", "next", "topic_id")

    def __init__(self, next_offset: Offset, topic_id: UUID | None) -> None:
        """Begin to read at `next_offset`; `topic_id` is None if the topic is unknown."""
        self.next = next_offset
        self.topic_id = topic_id
        """Topic id; a topic created later under the same name has another one."""
        self.delivered: OffsetCommit | None = None
        self.acknowledged: OffsetCommit | None = None
        self.committed: OffsetCommit | None = None
        """Last of these offsets that this instance committed."""


class FetchPosition(NamedTuple):
    """Partition and the next offset to fetch."""

    partition: TopicPartition
    offset: Offset


class FetchPositions:
    """Positions of an instance in its partitions: next offset, delivered and acknowledged offsets.

    The order is that of the next poll."""

    def __init__(self, topic_id_of: Callable[[str], UUID | None]) -> None:
        """Begin without partitions; `topic_id_of` returns the id of a topic, None if it does not exist."""
        self._topic_id_of = topic_id_of
        self.owned: tuple[TopicPartition, ...] = ()
        self._known: dict[TopicPartition, _Position] = {}
        self._before: dict[TopicPartition, tuple[_Position, Offset, OffsetCommit | None]] = {}
        """Earlier positions of partitions that delivered since the last acknowledgement."""

    def own(self, partitions: Collection[TopicPartition], *, keep: bool) -> None:
        """Set the partitions of the instance: these and no others.

        `keep`: positions stay, because no other group member owned the partitions meanwhile."""
        self.owned = tuple(sorted(partitions))
        wanted = set(self.owned) if keep else set()
        self._known = {partition: position for partition, position in self._known.items() if partition in wanted}

    def forget_other_topics(self) -> None:
        """Delete positions in topics that were deleted or recreated."""
        for partition, position in list(self._known.items()):
            if self._topic_id_of(partition.topic) != position.topic_id:
                del self._known[partition]

    @property
    def missing(self) -> list[TopicPartition]:
        """Owned partitions without a position."""
        return [partition for partition in self.owned if partition not in self._known]

    def fetch_order(self) -> Iterator[FetchPosition]:
        """Yield the positions in the order of the next poll: partitions that delivered last come last."""
        for partition, position in self._known.items():
            yield FetchPosition(partition, position.next)

    def next_offset(self, partition: TopicPartition) -> Offset | None:
        """Return the next offset to deliver; None if the partition has no position."""
        position = self._known.get(partition)
        return None if position is None else position.next

    def begin(self, partition: TopicPartition, offset: Offset) -> None:
        """Set a position, without delivered or acknowledged offsets."""
        assert partition in self.owned, f"{partition} is not owned"
        self._known[partition] = _Position(offset, self._topic_id_of(partition.topic))

    def move_to_end(self, partition: TopicPartition) -> None:
        """Move a partition that could not be read to the end of the order, so that it does not delay the others."""
        position = self._known.pop(partition, None)
        if position is not None:
            self._known[partition] = position

    def forget(self, partition: TopicPartition) -> None:
        """Delete the position of a partition, to decide it anew."""
        self._known.pop(partition, None)

    def deliver(self, partition: TopicPartition, end: Offset, leader_epoch: int) -> None:
        """Advance the position to `end`, because all records before it were sent."""
        position = self._known.pop(partition)
        assert end >= position.next, f"{partition}: a poll goes from {position.next} back to {end}"
        self._before.setdefault(partition, (position, position.next, position.delivered))
        position.next, position.delivered = end, OffsetCommit(end, "", leader_epoch)
        self._known[partition] = position

    def acknowledge(self) -> None:
        """Acknowledge all delivered offsets, because the client polled again."""
        self._before.clear()
        for position in self._known.values():
            position.acknowledged = position.delivered

    def roll_back(self) -> None:
        """Restore the positions of the last acknowledgement, because the client did not receive later deliveries."""
        for position, offset, delivered in self._before.values():
            position.next, position.delivered = offset, delivered
        self._before.clear()

    def acknowledged(self) -> dict[TopicPartition, OffsetCommit]:
        """Return the acknowledged offsets that are not committed yet."""
        return {
            partition: position.acknowledged
            for partition, position in self._known.items()
            if position.acknowledged is not None and position.acknowledged != position.committed
        }

    def delivered(self) -> dict[TopicPartition, OffsetCommit]:
        """Return all delivered offsets, committed or not."""
        return {
            partition: position.delivered
            for partition, position in self._known.items()
            if position.delivered is not None
        }

    def mark_committed(self, partition: TopicPartition, commit: OffsetCommit) -> None:
        """Record that an offset is committed durably."""
        position = self._known.get(partition)
        if position is not None:
            position.committed = commit
