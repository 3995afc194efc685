"""Keys map to the same partitions as with Kafka's own clients."""

import zlib

import pytest

from raftlog.errors import InvalidArgument
from raftlog.records.partitioner import Partitioner, find_hash, murmur2

KAFKA_VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "expected"), KAFKA_VECTORS)
def test_murmur2_agrees_with_the_java_client(key, expected):
    assert murmur2(key) == expected


@pytest.mark.parametrize(("key", "hashed"), KAFKA_VECTORS)
def test_the_positive_hash_of_a_key_selects_the_partition(key, hashed):
    assert Partitioner(find_hash("murmur2"), 7).choose(key) == (hashed & 0x7FFFFFFF) % 7


def test_crc32_can_be_chosen():
    assert Partitioner(find_hash("crc32"), 5).choose(b"key") == zlib.crc32(b"key") % 5


def test_records_without_a_key_are_spread_round_robin():
    partitioner = Partitioner(find_hash("murmur2"), 3)
    assert [partitioner.choose(None) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_an_empty_key_is_a_key():
    partitioner = Partitioner(find_hash("murmur2"), 3)
    assert len({partitioner.choose(b"") for _ in range(5)}) == 1


def test_an_unknown_partitioner_is_refused():
    with pytest.raises(InvalidArgument, match="'md5'; it can be murmur2, crc32"):
        find_hash("md5")
