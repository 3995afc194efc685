"""Conversion of lines to records, and of records to partitions. The cost per line decides the speed of `produce`.

Routing is deterministic: the same lines with the same options and partition count give the same records in the same
partitions in the same order, and resuming depends on that. The partition of a record with a key is the hash of the
key modulo partitions; record number n (from 0) without a key goes to partition n modulo partitions.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from raftlog.cli.json_lines import JsonRecord, read_json_line
from raftlog.records import NewRecord
from raftlog.records.partitioner import find_hash

Routed = Iterator[tuple[int, Sequence[bytes | NewRecord]]]
"""Pairs of a partition and its records; a record that has only a value is represented by its bytes."""

_HASHES_KEPT = 1 << 16


class RecordLayout(NamedTuple):
    """Options that determine keys and partitions."""

    partitions: int
    partition: int | None = None
    """Partition of all records; None: chosen by the partitioner."""
    partitioner: str = "murmur2"
    key_separator: bytes | None = None
    number_keys: bool = False
    json_lines: bool = False


class LineRouter(Protocol):
    """Interface of the routers, which assign lines to partitions in their order and count them."""

    def route(self, lines: list[bytes]) -> Routed:
        """Return the records of the lines, with their partitions."""
        ...


def make_router(layout: RecordLayout) -> LineRouter:
    """Return the fastest router for the layout."""
    if layout.json_lines:
        return _JsonRouter(layout)
    if layout.key_separator is not None or layout.number_keys:
        return _KeyRouter(layout)
    return _ValueRouter(layout)


class _ValueRouter:
    """Router for lines that are values without keys: it assigns whole lists of lines, not single lines."""

    def __init__(self, layout: RecordLayout) -> None:
        self._only = layout.partition if layout.partition is not None or layout.partitions > 1 else 0
        self._count = layout.partitions
        self._number = 0

    def route(self, lines: list[bytes]) -> Routed:
        """Yield lines as values without keys: partitions take turns by line number."""
        if self._only is not None:
            yield self._only, lines
            return
        first, self._number = self._number, self._number + len(lines)
        for skip in range(min(self._count, len(lines))):
            yield (first + skip) % self._count, lines[skip :: self._count]


class _Chooser:
    """Choice of the partition of each record: by the hash of its key, or by the record's number."""

    def __init__(self, layout: RecordLayout) -> None:
        """Prepare to choose partitions by the layout.

        `only` is the only possible partition, None if there are several."""
        hash_key = find_hash(layout.partitioner)
        count = layout.partitions

        @lru_cache(maxsize=_HASHES_KEPT)
        def choose_by_key(key: bytes) -> int:
            """Return the partition of a key; recent keys are cached."""
            return hash_key(key) % count

        self.choose_by_key = choose_by_key
        self.count = count
        self.only = layout.partition if layout.partition is not None or count > 1 else 0

    def group_by_partition(self, records: list[NewRecord], first_number: int) -> Routed:
        """Yield records by partition: those with a key by its hash, others by their number."""
        if self.only is not None:
            yield self.only, records
            return
        choose_by_key, count = self.choose_by_key, self.count
        routed: dict[int, list[NewRecord]] = {}
        for number, record in enumerate(records, first_number):
            key = record[1]
            target = number % count if key is None else choose_by_key(key)
            if target in routed:
                routed[target].append(record)
            else:
                routed[target] = [record]
        yield from routed.items()


class _KeyRouter:
    """Router of lines with a key before a separator, or with their number as key."""

    def __init__(self, layout: RecordLayout) -> None:
        self._chooser = _Chooser(layout)
        self._separator = layout.key_separator
        self._number = 0

    def route(self, lines: list[bytes]) -> Routed:
        """Yield records by the partition of their key: the text before the separator, or the line number."""
        first, self._number = self._number, self._number + len(lines)
        separator = self._separator
        if separator is None:
            records = [NewRecord(line, b"%d" % number) for number, line in enumerate(lines, first + 1)]
        else:
            records = [
                NewRecord(value, key) if found else NewRecord(key)
                for key, found, value in [line.partition(separator) for line in lines]
            ]
        return self._chooser.group_by_partition(records, first)


class _JsonRouter:
    """Router of JSON objects, one a line; an object may name its partition."""

    def __init__(self, layout: RecordLayout) -> None:
        self._chooser = _Chooser(layout)
        self._number = 0

    def route(self, lines: list[bytes]) -> Routed:
        """Yield the records of JSON lines by partition; raises `CommandFailed` for an invalid line."""
        chooser = self._chooser
        routed: dict[int, list[NewRecord]] = {}
        for line in lines:
            read = read_json_line(line, self._number + 1)
            routed.setdefault(self._choose_partition(chooser, read), []).append(read.record)
            self._number += 1
        yield from routed.items()

    def _choose_partition(self, chooser: _Chooser, read: JsonRecord) -> int:
        """Return the partition that the flag, the line, the key or the line number chooses, in this order."""
        if chooser.only is not None and read.partition is None:
            return chooser.only
        if read.partition is not None:
            return read.partition
        key = read.record.key
        return self._number % chooser.count if key is None else chooser.choose_by_key(key)
