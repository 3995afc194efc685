"""Conversion of a consumer's records: deserializers of keys and values, then the filter."""

from collections.abc import Callable
from typing import Generic

from raftlog.client.consumers.consumer_settings import ConsumerRecord
from raftlog.client.serializers import DeserializationFailed, Deserializer, K, T, V
from raftlog.types import TopicPartition


class Conversion(Generic[K, V]):
    """Deserializers and filter; records are left out if `where`, called with the deserialized record, is false."""

    def __init__(
        self,
        key_deserializer: Deserializer[K] | None,
        value_deserializer: Deserializer[V] | None,
        where: Callable[[ConsumerRecord[K, V]], object] | None,
    ) -> None:
        """Convert keys and values by these functions (None: unchanged), and drop records for which `where` is false."""
        self._key, self._value, self._where = key_deserializer, value_deserializer, where
        self.is_identity = key_deserializer is None and value_deserializer is None and where is None

    def apply(self, record: ConsumerRecord) -> ConsumerRecord[K, V] | None:
        """Return the converted record, or None if it is left out. Raises `DeserializationFailed`."""
        topic, partition, offset, timestamp, _, _, headers = record
        key = self._deserialize(self._key, record, record.key, "key")
        value = self._deserialize(self._value, record, record.value, "value")
        converted: ConsumerRecord[K, V] = ConsumerRecord(topic, partition, offset, timestamp, key, value, headers)
        return converted if self._where is None or self._where(converted) else None

    def _deserialize(
        self, deserializer: Deserializer[T] | None, record: ConsumerRecord, data: bytes | None, field: str
    ) -> T | None:
        """Return the deserialized key or value; None stays None. Raises `DeserializationFailed`."""
        if data is None or deserializer is None:
            return data  # type: ignore[return-value]  # without a deserializer T is bytes
        try:
            return deserializer(data)
        except Exception as error:
            topic_partition = TopicPartition(record.topic, record.partition)
            raise DeserializationFailed(topic_partition, record.offset, field, error) from error
