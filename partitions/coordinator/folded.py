"""What the log of one coordinator says, and what is on its way into it. Pure but for reading.

    next offset ≤ high watermark;   `latest` = what is on its way, or else what is folded

The last record of a key counts; a tombstone ends what its key said. Whoever wrote a record with success puts it here
instead of reading it back; what others appended meanwhile is read. Owned by a coordinator.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from raftlog.errors import FormatError, OffsetNotAvailable, UndecodableBatch
from raftlog.records import NewRecord, Record, read_records
from raftlog.runtime.replica.group import Group
from raftlog.types import Buffer, Offset

READ_BYTES = 1 << 16
"""Folded in one turn of the loop."""
K = TypeVar("K")
V = TypeVar("V")


class LogEntry(NamedTuple, Generic[K, V]):
    """One record that is to be appended; without value a tombstone."""

    key: K
    value: V | None


class FoldedLog(ABC, Generic[K, V]):
    """A subclass holds the values by their keys."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.next_offset = Offset(0)
        self._ahead: dict[K, list[LogEntry[K, V]]] = {}
        """On their way into the log, in its order."""

    @abstractmethod
    def encode(self, entry: LogEntry[K, V]) -> NewRecord:
        """Raises `InvalidArgument` above the bounds."""

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> LogEntry[K, V]:
        """Raises `FormatError`."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Keep what the log says of a key now."""

    @abstractmethod
    def known(self, key: K) -> V | None:
        """What is folded of a key."""

    @abstractmethod
    def clear(self) -> None:
        """Nothing is folded any more."""

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """Of everything that is folded; not to be changed meanwhile."""

    # reading

    async def catch_up(self, group: Group) -> None:
        """Fold what is committed here; gives others the loop between two reads. Raises `CorruptBatch`, `FormatError`,
        and `OffsetNotAvailable` where it cannot be read now."""
        while self.next_offset < group.high_watermark:
            self.read_on(group)
            await asyncio.sleep(0)

    def read_on(self, group: Group) -> None:
        """Fold one slice; raises likewise."""
        if self.next_offset < group.log_start_offset:  # what lies before was trimmed, and stands again behind
            self.clear()
            self.next_offset = group.log_start_offset
        begin = after = self.next_offset
        newest: dict[bytes, bytes | None] = {}
        """By key: of most keys a slice has several values, and only the last one is worth decoding."""
        for batch in group.read(begin, READ_BYTES):
            for record in self._records(batch):
                if record.offset >= after:
                    newest[record.key or b""] = record.value
                    after = Offset(record.offset + 1)
        for key, value in newest.items():
            self.put(*self.decode(key, value))
        self.next_offset = after  # what could not be read half way is read again from its beginning
        if after == begin:
            raise OffsetNotAvailable(f"{self._name}: offset {begin} is committed and cannot be read yet")

    def _records(self, batch: Buffer) -> Iterator[Record]:
        try:
            yield from read_records(batch)
        except UndecodableBatch as error:
            raise FormatError(f"{self._name}: {error}") from error

    # writing

    def expect(self, entries: Iterable[LogEntry[K, V]]) -> None:
        """These are to be appended now, behind all that were expected before."""
        for entry in entries:
            self._ahead.setdefault(entry.key, []).append(entry)

    def advance(self, entries: Iterable[LogEntry[K, V]], count: int) -> None:
        """They are the next `count` records of the log. Without entries: records that change nothing."""
        for entry in entries:
            self.put(*entry)
        self.next_offset = Offset(self.next_offset + count)

    def forget(self, entries: Iterable[LogEntry[K, V]]) -> None:
        """They are on their way no more."""
        for entry in entries:
            ahead = self._ahead[entry.key]
            ahead.pop(next(number for number, each in enumerate(ahead) if each is entry))
            if not ahead:
                del self._ahead[entry.key]

    def latest(self, key: K) -> V | None:
        """What the log will say of a key once everything that is on its way has arrived."""
        ahead = self._ahead.get(key)
        return ahead[-1].value if ahead else self.known(key)
