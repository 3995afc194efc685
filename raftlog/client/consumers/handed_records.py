"""Which records a `Consumer` has handed out, and which of those are processed: all but the last.

    processed ≤ handed out ≤ position of the fetching, partition by partition

`ahead` are records that were taken for iteration and are not handed out yet. `in_hands` were handed out last: whoever
asks for more has processed them.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from raftlog.client.consumers.consumer_settings import ConsumerRecord
from raftlog.client.consumers.fetched_records import FetchedRecords
from raftlog.types import Offset, TopicPartition


class Handing:
    """Over the partitions that are read."""

    def __init__(self, readings: dict[TopicPartition, FetchedRecords]) -> None:
        self._readings = readings
        self.ahead: Final[deque[ConsumerRecord]] = deque()
        """Always the same object: iteration holds it while a rebalance changes it."""
        self.in_hands: Sequence[ConsumerRecord] = ()

    def processed(self) -> dict[TopicPartition, Offset]:
        """Offsets behind what is processed."""
        return self._positions_before(self.in_hands, self.handed_out())

    def handed_out(self) -> dict[TopicPartition, Offset]:
        """Offsets behind what was handed out."""
        readings = self._readings.items()
        positions = {place: reading.position for place, reading in readings if reading.position is not None}
        return self._positions_before(self.ahead, positions)

    def from_ahead(self, count: int) -> list[ConsumerRecord]:
        """What waits for iteration is handed out first."""
        return [self.ahead.popleft() for _ in range(min(count, len(self.ahead)))]

    def forget(self, place: TopicPartition | None = None) -> None:
        """What is ahead of this partition, or of all, is not handed out any more, and nothing is in hands."""
        kept = [record for record in self.ahead if place is not None and (record.topic, record.partition) != place]
        self.ahead.clear()
        self.ahead.extend(kept)
        self.in_hands = [
            record for record in self.in_hands if place is not None and (record.topic, record.partition) != place
        ]

    def _positions_before(
        self, records: Sequence[ConsumerRecord], positions: dict[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset]:
        for record in reversed(records):
            place = TopicPartition(record.topic, record.partition)
            if place in positions:
                positions[place] = record.offset
        return positions
