"""Records that a `Consumer` has handed out; all but the last call's are processed.

    processed ≤ handed out ≤ position of the fetching, partition by partition

`buffered` are records taken for iteration and not handed out yet. `last_handed` were handed out last: the next call for
records marks them as processed."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from raftlog.client.consumers.consumer_settings import ConsumerRecord
from raftlog.client.consumers.fetched_records import FetchedRecords
from raftlog.types import Offset, TopicPartition


class HandedRecords:
    """Records that `poll` has returned or buffered, by partition, and the offsets after them."""

    def __init__(self, readings: dict[TopicPartition, FetchedRecords]) -> None:
        self._readings = readings
        self.buffered: Final[deque[ConsumerRecord]] = deque()
        """Records for iteration; never replaced, since an iterator keeps a reference while a rebalance changes them."""
        self.last_handed: Sequence[ConsumerRecord] = ()

    def processed(self) -> dict[TopicPartition, Offset]:
        """Return for each partition the offset after the last record that the application has processed."""
        return self._positions_before(self.last_handed, self.handed_out())

    def handed_out(self) -> dict[TopicPartition, Offset]:
        """Return for each partition the offset after the last record that was returned to the application."""
        readings = self._readings.items()
        positions = {
            topic_partition: reading.position for topic_partition, reading in readings if reading.position is not None
        }
        return self._positions_before(self.buffered, positions)

    def take_buffered(self, count: int) -> list[ConsumerRecord]:
        """Return at most `count` records that an iteration has polled and not yet returned."""
        return [self.buffered.popleft() for _ in range(min(count, len(self.buffered)))]

    def forget(self, topic_partition: TopicPartition | None = None) -> None:
        """Drop the buffered and the last returned records of this partition, or of all."""
        kept = [
            record
            for record in self.buffered
            if topic_partition is not None and (record.topic, record.partition) != topic_partition
        ]
        self.buffered.clear()
        self.buffered.extend(kept)
        self.last_handed = [
            record
            for record in self.last_handed
            if topic_partition is not None and (record.topic, record.partition) != topic_partition
        ]

    def _positions_before(
        self, records: Sequence[ConsumerRecord], positions: dict[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset]:
        """Return the positions moved back to the first of `records` in each partition."""
        for record in reversed(records):
            topic_partition = TopicPartition(record.topic, record.partition)
            if topic_partition in positions:
                positions[topic_partition] = record.offset
        return positions
