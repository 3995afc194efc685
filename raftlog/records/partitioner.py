"""Choice of a record's partition. By default keys are hashed with murmur2, as in Kafka's clients."""

import zlib
from collections.abc import Callable, Mapping

from raftlog.errors import InvalidArgument

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF

HashKey = Callable[[bytes], int]


def murmur2(data: bytes) -> int:
    """Return MurmurHash2 as `org.apache.kafka.common.utils.Utils.murmur2` computes it: a signed 32-bit number."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def _hash_positive(key: bytes) -> int:
    """Return murmur2 of a key without the sign bit, like `toPositive` of Kafka."""
    return murmur2(key) & _POSITIVE


PARTITIONERS: Mapping[str, HashKey] = {"murmur2": _hash_positive, "crc32": zlib.crc32}
"""Hash functions by name of the partitioner; the partition is the key's hash modulo the number of partitions."""


def find_hash(name: str) -> HashKey:
    """Return the hash function of a partitioner; raises `InvalidArgument` for an unknown name."""
    try:
        return PARTITIONERS[name]
    except KeyError:
        raise InvalidArgument(f"unknown partitioner {name!r}; it can be {', '.join(PARTITIONERS)}") from None


class Partitioner:
    """Chooser among the partitions of one topic: by hash of the key, and in turn for records without a key."""

    __slots__ = ("_count", "_hash", "_turn")

    def __init__(self, hash_key: HashKey, partition_count: int) -> None:
        self._hash = hash_key
        self._count = partition_count
        self._turn = -1

    def choose(self, key: bytes | None) -> int:
        """Return the partition for a record with this key."""
        if self._count == 1:
            return 0
        if key is not None:
            return self._hash(key) % self._count
        self._turn = (self._turn + 1) % self._count
        return self._turn
