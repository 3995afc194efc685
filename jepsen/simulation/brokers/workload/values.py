"""Unique values of records; in compacted partitions each has a key, and some are tombstones.

A record's value is its number, and padding that makes it longer; a tombstone has its number in a header."""

from random import Random
from typing import Final

from jepsen.checkers import Send
from jepsen.simulation.brokers.options import BrokerOptions
from jepsen.simulation.options import generator
from raftlog.records import NewRecord, Record
from raftlog.types import TopicPartition

VALUES_PER_CLIENT: Final = 1_000_000
TOMBSTONES: Final = 0.15
"""Share of values that remove their key."""
REMOVALS: Final = 0.25
"""Share of requests that write a tombstone for the last key that was written once, if there is one."""
_HEADER: Final = "value"
_ONCE: Final = "once-"


class Values:
    """Source of the values that one client process writes, each only once in a run."""

    def __init__(self, process: int, random: Random, options: BrokerOptions) -> None:
        self._random, self._options = random, options
        self._once = generator(options.seed, "keys written once", process)
        self._removals = generator(options.seed, "removals of keys written once", process)
        self._last_once: str | None = None
        self._next = process * VALUES_PER_CLIENT

    def draw(self, partition: TopicPartition, *, is_compacted: bool) -> tuple[Send, list[NewRecord]]:
        """Return new values for one request: as the history records them, and as records to write."""
        first = self._next
        self._next += self._random.choice((1, 1, 2, 3, 8))
        values = tuple(range(first, self._next))
        if not is_compacted:
            return Send(partition, values), [NewRecord(self._text(value)) for value in values]
        keys = tuple(map(self._key, values))
        tombstones = tuple(value for value in values if self._random.random() < TOMBSTONES)
        if self._last_once is not None and self._removals.random() < REMOVALS:
            keys = (*keys[:-1], self._last_once)
            tombstones = (*(value for value in tombstones if value != values[-1]), values[-1])
            self._last_once = None
        else:
            self._last_once = next((key for key in reversed(keys) if key.startswith(_ONCE)), self._last_once)
        records = [self._record(value, key, tombstones) for value, key in zip(values, keys, strict=True)]
        return Send(partition, values, (), keys, tombstones), records

    def _key(self, value: int) -> str:
        """Return one of a few keys, or a unique one; both are drawn, so that later draws do not change."""
        shared = f"key-{self._random.randrange(self._options.uses.keys)}"
        return f"{_ONCE}{value}" if self._once.random() < self._options.uses.once else shared

    def _record(self, value: int, key: str, tombstones: tuple[int, ...]) -> NewRecord:
        """Return a record of the value: a tombstone with the value in a header, or a padded text."""
        if value in tombstones:
            return NewRecord(None, key.encode(), headers=((_HEADER, b"%d" % value),))
        return NewRecord(self._text(value), key.encode())

    def _text(self, value: int) -> bytes:
        """Return the value as text, with random padding."""
        return b"%d " % value + bytes(self._random.randint(0, self._options.value_bytes))


def parse_value(record: Record) -> int:
    """Return the value of a record, or of a tombstone's header."""
    if record.value is not None:
        return int(record.value.split(b" ", 1)[0])
    return int(next((text for name, text in record.headers if name == _HEADER), b"0") or b"0")
