"""Codec of ConsumerProtocolSubscription and ConsumerProtocolAssignment, the payloads of the consumer protocol.

Versions 0 to 3 of both, as in Kafka's schemas, each with its int16 version in front. Subscriptions have owned
partitions since v1 (KIP-429), a generation since v2 (KIP-792) and a rack since v3 (KIP-881); assignments did not
change. A version above 3 is read as 3, because fields are only ever added at the end. Every length is checked against
the remaining bytes before anything is allocated."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from struct import Struct, unpack_from
from typing import Final, NamedTuple

from raftlog.errors import InvalidArgument
from raftlog.types import TopicPartition

VERSION: Final = 3
"""Version of the payloads that are written."""
_INT16, _INT32 = Struct(">h"), Struct(">i")
_OWNED_SINCE, _GENERATION_SINCE, _RACK_SINCE = 1, 2, 3
_BY_TOPIC = attrgetter("topic")


class Subscription(NamedTuple):
    """Subscription of a group member, and the partitions that it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """Partitions of its last assignment that the member still owns (v1)."""
    generation: int = -1
    """Generation of its last assignment (v2); −1: unknown. Of two claims of one partition the newer one holds."""
    rack: str | None = None


class MemberAssignment(NamedTuple):
    """Partitions that are assigned to a group member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = VERSION) -> bytes:
    """Encode a subscription, with topics and owned partitions in ascending order, as v3 requires."""
    topics = sorted(subscription.topics)
    parts = [
        _INT16.pack(version),
        _INT32.pack(len(topics)),
        *map(_encode_text, topics),
        _encode_bytes(subscription.user_data),
    ]
    if version >= _OWNED_SINCE:
        parts.append(_encode_partitions(subscription.owned))
    if version >= _GENERATION_SINCE:
        parts.append(_INT32.pack(subscription.generation))
    if version >= _RACK_SINCE:
        parts.append(_INT16.pack(-1) if subscription.rack is None else _encode_text(subscription.rack))
    return b"".join(parts)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription; raises `InvalidArgument` for invalid bytes."""
    reader = _Reader(data, "a subscription")
    version = reader.read_version()
    topics = tuple(reader.read_text() for _ in range(reader.read_count()))
    user_data = reader.read_optional_bytes()
    return Subscription(
        topics,
        user_data,
        reader.read_partitions() if version >= _OWNED_SINCE else (),
        reader.read_int32() if version >= _GENERATION_SINCE else -1,
        reader.read_optional_text() if version >= _RACK_SINCE else None,
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Encode an assignment, with partitions grouped by topic in ascending order."""
    return b"".join([_INT16.pack(VERSION), _encode_partitions(partitions), _encode_bytes(user_data)])


def decode_assignment(data: bytes) -> MemberAssignment:
    """Decode an assignment; raises `InvalidArgument` for invalid bytes.

    Empty input is the empty assignment, as in Kafka."""
    if not data:
        return MemberAssignment()
    reader = _Reader(data, "an assignment")
    reader.read_version()
    return MemberAssignment(reader.read_partitions(), reader.read_optional_bytes())


def _encode_text(text: str) -> bytes:
    """Encode text as an int16 length and UTF-8."""
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _encode_bytes(data: bytes | None) -> bytes:
    """Encode bytes with an int32 length; −1 for None."""
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode partitions by topic, in ascending order."""
    topics = [(name, [number for _, number in some]) for name, some in groupby(sorted(partitions), _BY_TOPIC)]
    parts = [_INT32.pack(len(topics))]
    for name, numbers in topics:
        parts += [_encode_text(name), _INT32.pack(len(numbers)), Struct(f">{len(numbers)}i").pack(*numbers)]
    return b"".join(parts)


class _Reader:
    """Decoder that reads the fields of a message in order; raises `InvalidArgument` if bytes of `what` are missing."""

    def __init__(self, data: bytes, what: str) -> None:
        """Read `data` from its beginning; `what` names it in errors."""
        self._data, self._at, self._what = data, 0, what

    def read_version(self) -> int:
        """Return the version in front of a payload."""
        version = self.read_int16()
        if version < 0:
            raise self._decode_error(f"version {version}")
        return version

    def read_int16(self) -> int:
        return int(_INT16.unpack(self._take(_INT16.size))[0])

    def read_int32(self) -> int:
        return int(_INT32.unpack(self._take(_INT32.size))[0])

    def read_count(self) -> int:
        """Return the stated number of items that follow, without a check against the remaining bytes."""
        count = self.read_int32()
        if count < 0:
            raise self._decode_error(f"a list of {count} items")
        return count

    def read_text(self) -> str:
        """Return a text. Raises `InvalidArgument` if it is null."""
        text = self.read_optional_text()
        if text is None:
            raise self._decode_error("text is missing")
        return text

    def read_optional_text(self) -> str | None:
        """Return the next text; None for the length −1."""
        size = self.read_int16()
        try:
            return None if size == -1 else self._take(size).decode()
        except UnicodeDecodeError:
            raise self._decode_error("text that is not UTF-8") from None

    def read_optional_bytes(self) -> bytes | None:
        """Return the next bytes; None for the length −1."""
        size = self.read_int32()
        return None if size == -1 else self._take(size)

    def read_partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that follow, which are grouped by topic."""
        found: list[TopicPartition] = []
        for _ in range(self.read_count()):
            topic, count = self.read_text(), self.read_count()
            data = self._take(count * _INT32.size)
            numbers = unpack_from(f">{count}i", data)
            if any(number < 0 for number in numbers):
                raise self._decode_error("a partition with a negative number")
            found += [TopicPartition(topic, number) for number in numbers]
        return tuple(found)

    def _take(self, size: int) -> bytes:
        """Return the next bytes; raises the decoding error if there are fewer."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise self._decode_error(f"{size} bytes are expected at position {self._at} of {len(self._data)}")
        data, self._at = self._data[self._at : end], end
        return data

    def _decode_error(self, why: str) -> InvalidArgument:
        """Return the error for data that cannot be decoded."""
        return InvalidArgument(f"{self._what} cannot be decoded: {why}")
