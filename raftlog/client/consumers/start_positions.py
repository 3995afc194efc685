"""Start positions of partitions: for a new assignment, or after a seek."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from raftlog.errors import InvalidArgument
from raftlog.types import Offset, TopicPartition

Reset: TypeAlias = Literal["earliest", "latest", "error"]


class FromEnd(NamedTuple):
    """Position `offsets` before the end, but not before the first record."""

    offsets: int


class AtTimestamp(NamedTuple):
    """Position of the first record with this timestamp or a later one, or the end."""

    timestamp_ms: int


Start: TypeAlias = Offset | Reset | FromEnd | AtTimestamp
"""Start position; all but an offset are looked up at the partition's leader when needed."""


class PendingStarts:
    """Seeks and pauses of partitions that are not assigned yet. Each applies once, at the assignment."""

    def __init__(self) -> None:
        self._starts: dict[TopicPartition, Start] = {}
        self._paused: dict[TopicPartition, bool] = {}
        self._start_of_all: Start | None = None
        self._are_all_paused = False

    def seek(self, topic_partitions: Iterable[TopicPartition], start: Start) -> None:
        """Store a start position for these partitions, or without any, for the whole next assignment."""
        given = dict.fromkeys(topic_partitions, start)
        if given:
            self._starts.update(given)
        else:
            self._starts.clear()
            self._start_of_all = start

    def pause(self, topic_partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        """Pause these partitions once they are assigned; without any, all of the next assignment."""
        given = dict.fromkeys(topic_partitions, is_paused)
        if given:
            self._paused.update(given)
        else:
            self._paused.clear()
            self._are_all_paused = is_paused

    def forget_start(self, topic_partition: TopicPartition) -> None:
        """Drop a pending start that a later call replaces."""
        self._starts.pop(topic_partition, None)

    def take(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[Start | None, bool]]:
        """Remove and return the pending start and pause of partitions that are assigned now."""
        taken = {
            topic_partition: (
                self._starts.pop(topic_partition, self._start_of_all),
                self._paused.pop(topic_partition, self._are_all_paused),
            )
            for topic_partition in topic_partitions
        }
        if taken:
            self._start_of_all, self._are_all_paused = None, False
        return taken


def to_partition(topic_partition: object) -> TopicPartition:
    """Return a pair of topic and number as `TopicPartition`. Raises `InvalidArgument`."""
    if (
        isinstance(topic_partition, Sequence)
        and len(topic_partition) == 2
        and isinstance(topic_partition[0], str)
        and isinstance(topic_partition[1], int)
        and not isinstance(topic_partition[1], bool)
    ):
        return TopicPartition(topic_partition[0], topic_partition[1])
    raise InvalidArgument(f"{topic_partition!r} is not a partition; give TopicPartition('orders', 0) or ('orders', 0)")
