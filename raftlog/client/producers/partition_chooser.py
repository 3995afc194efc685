"""Choice of the partition for a record: the one that it names, that of its key, or one batch after another."""

from collections.abc import Callable
from functools import lru_cache

from raftlog.client.metadata import TopicMetadata
from raftlog.client.producers.producer_lane import ProducerLane
from raftlog.client.producers.producer_settings import ROUND_ROBIN, ProducerSettings
from raftlog.errors import InvalidArgument, UnknownPartition
from raftlog.records.partitioner import hash_by_name

_KEYS_REMEMBERED = 1 << 14


class PartitionChooser:
    """Lanes of a topic by partition; replaced when the number of partitions changes, while lanes stay."""

    def __init__(
        self, name: str, topic: TopicMetadata, settings: ProducerSettings, lane_of: Callable[[str, int], ProducerLane]
    ) -> None:
        self._name, self.topic, self._lane_of = name, topic, lane_of
        self._lanes: dict[int, ProducerLane] = {}
        self._by_key = None if settings.partitioner == ROUND_ROBIN else hash_by_name(settings.partitioner)
        self._batch_records = settings.batch_records
        self._turn = -1
        self._hashed = lru_cache(maxsize=_KEYS_REMEMBERED)(self._partition_of_key)

    def lane(self, partition: int | None, key: bytes | None) -> ProducerLane:
        """Return the lane of a record; raise `UnknownPartition`, and `InvalidArgument` if it is no number."""
        if partition is None:
            if key is None or self._by_key is None:
                return self._next_lane()
            partition = self._hashed(key)
        lane = self._lanes.get(partition)
        if lane is None:
            if type(partition) is not int:
                raise InvalidArgument(f"partition is {type(partition).__name__} {partition!r}; give an int")
            count = self.topic.partitions
            if not 0 <= partition < count:
                raise UnknownPartition(f"topic {self._name} has no partition {partition}; it has 0 to {count - 1}")
            lane = self._lanes[partition] = self._lane_of(self._name, partition)
        return lane

    def _partition_of_key(self, key: bytes) -> int:
        assert self._by_key is not None
        return self._by_key(key) % self.topic.partitions

    def _next_lane(self) -> ProducerLane:
        """Return the lane for records without a key: one for a whole batch (KIP-480), so that batches are full."""
        lane = self._lanes.get(self._turn)
        if lane is not None:
            batch = lane.open_batch
            if batch is not None and batch.count < self._batch_records:
                return lane
        self._turn = (self._turn + 1) % self.topic.partitions
        return self.lane(self._turn, None)
