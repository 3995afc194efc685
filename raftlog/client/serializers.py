"""Serializers and deserializers of keys and values: JSON, str, bytes, or any function.

A serializer takes an object and returns bytes; a deserializer does the reverse. None passes both unchanged: a record
without a key has None as key, and a tombstone None as value.

    producer = Producer(BROKERS, key_serializer=serialize_str, value_serializer=serialize_json)
    consumer = Consumer(BROKERS, "orders", key_deserializer=deserialize_str, value_deserializer=deserialize_json)
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import orjson
from typing_extensions import TypeVar

from raftlog.errors import InvalidArgument, RequestError
from raftlog.types import Offset, TopicPartition

K = TypeVar("K", default=bytes)
"""Type of keys."""
V = TypeVar("V", default=bytes)
"""Type of values."""
T = TypeVar("T")
Serializer: TypeAlias = Callable[[T], bytes]
Deserializer: TypeAlias = Callable[[bytes], T]


class DeserializationFailed(RequestError):
    """Record whose key or value the deserializer refused; the deserializer's error is the `__cause__`.

    The consumer stays before the record; `seek(partition, next_offset)` skips it."""

    def __init__(self, partition: TopicPartition, offset: Offset, field: str, cause: Exception) -> None:
        """Describe the record whose `field`, key or value, cannot be deserialized because of `cause`."""
        next_offset = Offset(offset + 1)
        super().__init__(
            f"{partition} offset {offset}: the {field} cannot be deserialized ({type(cause).__name__}: {cause}); "
            f"seek to offset {next_offset} to leave the record out"
        )
        self.partition, self.offset, self.next_offset, self.field = partition, offset, next_offset, field


def serialize_bytes(value: bytes) -> bytes:
    """Return bytes as they are."""
    return value


deserialize_bytes = serialize_bytes


def serialize_str(text: str) -> bytes:
    """Return the UTF-8 bytes of a text."""
    return text.encode()


def deserialize_str(data: bytes) -> str:
    """Return the text of UTF-8 bytes; raises `UnicodeDecodeError`."""
    return data.decode()


def serialize_json(value: Any) -> bytes:
    """Return compact JSON of dicts, lists, str, numbers, bool, None, dataclasses, datetimes, enums and UUIDs."""
    return orjson.dumps(value)


def deserialize_json(data: bytes) -> Any:
    """Return the value of JSON text; raises `ValueError`."""
    return orjson.loads(data)


def serialize(serializer: Serializer[T], value: T | None, field: str) -> bytes | None:
    """Serialize a value or key to bytes; None stays None. Raises `InvalidArgument` with the serializer's error."""
    if value is None:
        return None
    try:
        data = serializer(value)
    except Exception as error:
        raise InvalidArgument(
            f"the {field} {_shorten(value)} cannot be serialized ({type(error).__name__}: {error})"
        ) from error
    if type(data) is not bytes:
        raise InvalidArgument(f"{field}_serializer returned {type(data).__name__}; it must return bytes")
    return data


def _shorten(value: object) -> str:
    """Return the representation of a value, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def describe_argument(value: object) -> str:
    """Return type and start of an argument, for an error."""
    return f"{type(value).__name__} {_shorten(value)}"
