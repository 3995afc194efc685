"""Choice of the partition for a record: the requested one, by the hash of its key, or in turn without a key."""

from collections.abc import Callable
from functools import lru_cache

from raftlog.client.metadata import TopicMetadata
from raftlog.client.producers.producer_lane import ProducerLane
from raftlog.client.producers.producer_settings import ROUND_ROBIN, ProducerSettings
from raftlog.errors import InvalidArgument, UnknownPartition
from raftlog.records.partitioner import find_hash

_KEYS_REMEMBERED = 1 << 14


class PartitionChooser:
    """Choice of the partition, and of its `ProducerLane`, for each record of a topic.

    Replaced when the number of partitions changes, while the lanes stay."""

    def __init__(
        self, name: str, topic: TopicMetadata, settings: ProducerSettings, lane_of: Callable[[str, int], ProducerLane]
    ) -> None:
        """Choose partitions of the topic `name` by the settings; `lane_of` returns the lane of a partition."""
        self._name, self.topic, self._lane_of = name, topic, lane_of
        self._lanes: dict[int, ProducerLane] = {}
        self._by_key = None if settings.partitioner == ROUND_ROBIN else find_hash(settings.partitioner)
        self._batch_records = settings.batch_records
        self._turn = -1
        self._hashed = lru_cache(maxsize=_KEYS_REMEMBERED)(self._hash_key)

    def choose(self, partition: int | None, key: bytes | None) -> ProducerLane:
        """Return the lane for a record; raises `UnknownPartition`, or `InvalidArgument` if `partition` is no int."""
        if partition is None:
            if key is None or self._by_key is None:
                return self._choose_next()
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

    def forget_lanes(self) -> None:
        """Begin with new lanes, for another transaction."""
        self._lanes.clear()

    def _hash_key(self, key: bytes) -> int:
        """Return the partition of a key."""
        assert self._by_key is not None
        return self._by_key(key) % self.topic.partitions

    def _choose_next(self) -> ProducerLane:
        """Return the lane for records without a key: one for a whole batch (KIP-480), so that batches are full."""
        lane = self._lanes.get(self._turn)
        if lane is not None:
            batch = lane.open_batch
            if batch is not None and batch.count < self._batch_records:
                return lane
        self._turn = (self._turn + 1) % self.topic.partitions
        return self.choose(self._turn, None)
