"""Partitioner of rows, with the same result in every attempt that writes them.

A row goes to the partition that it names; else it is chosen by the row's key, as in Kafka's clients; else by its
content. So a repeated attempt, whose rows may have another order, chooses the same partitions. Pure."""

import zlib
from collections import defaultdict
from functools import lru_cache
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.pipeline.sink.columns import Slice
from raftlog.pipeline.sink.rows import Rows
from raftlog.records.partitioner import HashKey, find_hash
from raftlog.types import TopicPartition

_KEYS_REMEMBERED: Final = 1 << 14
_LOW_BITS: Final = 0xFFFFFFFF


def group_by_topic(rows: Slice, topic: str | None) -> dict[str, Slice]:
    """Return the rows of each topic: all for the option `topic`, else by each row's topic. Raises `InvalidArgument`."""
    if topic is not None:
        return {topic: rows}
    assert rows.topics is not None, "without the option topic there is a column of that name"
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(rows.topics):
        if name is None:
            raise InvalidArgument("a row has no topic (null): fill the column topic, or give the option topic")
        numbers[name].append(number)
    return {name: rows.select(chosen) for name, chosen in numbers.items()}


class RowPartitioner:
    """Choice of the partition of each row, for the topics of one attempt.

    `partitioner` is the name of the key hash."""

    def __init__(self, partitioner: str) -> None:
        self._hash: HashKey = lru_cache(_KEYS_REMEMBERED)(find_hash(partitioner))

    def group_by_partition(self, topic: str, rows: Slice, count: int) -> dict[TopicPartition, Rows]:
        """Return rows by partition, in order; `count` partitions existed when the write began.

        A row may name a higher partition; the caller has to check whether that exists."""
        numbers: dict[int, list[int]] = defaultdict(list)
        if count == 1 and rows.partitions is None:
            return {TopicPartition(topic, 0): rows.rows}
        for number, partition in enumerate(self._choose_partitions(topic, rows, count)):
            numbers[partition].append(number)
        return {TopicPartition(topic, partition): rows.rows.select(chosen) for partition, chosen in numbers.items()}

    def _choose_partitions(self, topic: str, rows: Slice, count: int) -> list[int]:
        """Return the partition of each row: its own, or by hash. Raises `InvalidArgument` below 0."""
        if rows.partitions is None:
            return self._hash_rows(rows.rows, count)
        named = [partition for partition in rows.partitions if partition is not None]
        if len(named) < len(rows.partitions):
            hashed = self._hash_rows(rows.rows, count)
            named = [own if given is None else given for own, given in zip(hashed, rows.partitions, strict=True)]
        if min(named) < 0:
            raise InvalidArgument(f"a row names the partition {min(named)} of topic {topic}; partitions count from 0")
        return named

    def _hash_rows(self, rows: Rows, count: int) -> list[int]:
        """Return the partition of each row by its key, or by value and timestamp without a key."""
        hash_key = self._hash
        return [
            (hash_key(key) if key is not None else zlib.crc32(value or b"", timestamp & _LOW_BITS)) % count
            for key, value, timestamp in zip(rows.keys, rows.values, rows.timestamps, strict=True)
        ]
