"""Where an instance stands in each of its partitions. Pure.

    delivered      went out in the answer to a poll
    acknowledged   delivered by an earlier poll: the client asked for more, so it has them

A position moves only when an answer was made. What auto-commit may commit is what is acknowledged: an answer that the
client may still work on is not committed behind its back.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple
from uuid import UUID

from raftlog.partitions.groups.results import OffsetCommit
from raftlog.types import Offset, TopicPartition


class _Position:
    __slots__ = ("acknowledged", "committed", "delivered", "next", "topic_id")

    def __init__(self, next_offset: Offset, topic_id: UUID | None) -> None:
        self.next = next_offset
        self.topic_id = topic_id
        """Another topic of the same name is another one."""
        self.delivered: OffsetCommit | None = None
        self.acknowledged: OffsetCommit | None = None
        self.committed: OffsetCommit | None = None
        """The last of these that was committed from here."""


class FetchPosition(NamedTuple):
    """What a poll fetches next."""

    partition: TopicPartition
    offset: Offset


class FetchPositions:
    """Of the partitions that the instance owns, in the order in which the next poll asks them."""

    def __init__(self, topic_id_of: Callable[[str], UUID | None]) -> None:
        self._topic_id_of = topic_id_of
        self.owned: tuple[TopicPartition, ...] = ()
        self._known: dict[TopicPartition, _Position] = {}
        self._before: dict[TopicPartition, tuple[_Position, Offset, OffsetCommit | None]] = {}
        """Where those stood that delivered since the last acknowledgement."""

    def own(self, partitions: Collection[TopicPartition], *, keep: bool) -> None:
        """These and no others; positions are kept where nobody else can have been in between (`keep`)."""
        self.owned = tuple(sorted(partitions))
        wanted = set(self.owned) if keep else set()
        self._known = {partition: position for partition, position in self._known.items() if partition in wanted}

    def forget_other_topics(self) -> None:
        """Positions in topics that are gone, or whose name another one has now."""
        for partition, position in list(self._known.items()):
            if self._topic_id_of(partition.topic) != position.topic_id:
                del self._known[partition]

    @property
    def missing(self) -> list[TopicPartition]:
        """Owned, and nobody has decided where to begin."""
        return [partition for partition in self.owned if partition not in self._known]

    def standings(self) -> Iterator[FetchPosition]:
        """Whoever delivered last comes last, so that all have their turn."""
        for partition, position in self._known.items():
            yield FetchPosition(partition, position.next)

    def of(self, partition: TopicPartition) -> Offset | None:
        """The next offset to deliver."""
        position = self._known.get(partition)
        return None if position is None else position.next

    def begin(self, partition: TopicPartition, offset: Offset) -> None:
        """The position was decided; what was delivered from another one does not count any more."""
        assert partition in self.owned, f"{partition} is not owned"
        self._known[partition] = _Position(offset, self._topic_id_of(partition.topic))

    def ask_last(self, partition: TopicPartition) -> None:
        """It could not be read; the others shall not wait for it next time."""
        position = self._known.pop(partition, None)
        if position is not None:
            self._known[partition] = position

    def forget(self, partition: TopicPartition) -> None:
        """It is to be decided again."""
        self._known.pop(partition, None)

    def deliver(self, partition: TopicPartition, end: Offset, leader_epoch: int) -> None:
        """Everything before `end` goes out."""
        position = self._known.pop(partition)
        assert end >= position.next, f"{partition}: a poll goes from {position.next} back to {end}"
        self._before.setdefault(partition, (position, position.next, position.delivered))
        position.next, position.delivered = end, OffsetCommit(end, "", leader_epoch)
        self._known[partition] = position

    def acknowledge(self) -> None:
        """The client asks for more: it has what was delivered so far."""
        self._before.clear()
        for position in self._known.values():
            position.acknowledged = position.delivered

    def take_back(self) -> None:
        """What was delivered since the last acknowledgement never arrived."""
        for position, offset, delivered in self._before.values():
            position.next, position.delivered = offset, delivered
        self._before.clear()

    def acknowledged(self) -> dict[TopicPartition, OffsetCommit]:
        """What is to be committed of it."""
        return {
            partition: position.acknowledged
            for partition, position in self._known.items()
            if position.acknowledged is not None and position.acknowledged != position.committed
        }

    def delivered(self) -> dict[TopicPartition, OffsetCommit]:
        """Everything that went out, be it committed or not."""
        return {
            partition: position.delivered
            for partition, position in self._known.items()
            if position.delivered is not None
        }

    def note_committed(self, partition: TopicPartition, commit: OffsetCommit) -> None:
        """It is, durably."""
        position = self._known.get(partition)
        if position is not None:
            position.committed = commit
