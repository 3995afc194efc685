"""Folded log of one coordinator, and the entries that are being appended to it. Pure but for reading.

    next offset ≤ high watermark;   `latest` = the entry that is being appended, or else the applied one

The last record of a key counts; a tombstone removes the key. Records that this coordinator appended are folded without
reading them back; records that others appended meanwhile are read. Owned by a coordinator."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from raftlog.errors import FormatError, OffsetNotAvailable, UndecodableBatch
from raftlog.records import NewRecord, Record, read_records
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Buffer, Offset

READ_BYTES = 1 << 16
"""Bytes applied in one turn of the loop."""
K = TypeVar("K")
V = TypeVar("V")


class LogEntry(NamedTuple, Generic[K, V]):
    """Record to append; without a value it is a tombstone."""

    key: K
    value: V | None


class FoldedLog(ABC, Generic[K, V]):
    """Latest value of each key in a coordinator's log; a subclass stores the values."""

    def __init__(self, name: str) -> None:
        """Create the state before the first record of the log `name`."""
        self._name = name
        self.next_offset = Offset(0)
        """Offset of the next record to apply."""
        self._ahead: dict[K, list[LogEntry[K, V]]] = {}
        """Entries that are being appended, by key, in the order of the log."""

    @abstractmethod
    def encode(self, entry: LogEntry[K, V]) -> NewRecord:
        """Return the record of an entry; raise `InvalidArgument` for one that is too large."""

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> LogEntry[K, V]:
        """Return the entry of a record; raise `FormatError` for one that cannot be read."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Store the latest value of a key; None removes it."""

    @abstractmethod
    def folded_value(self, key: K) -> V | None:
        """Return the value of a key according to the applied entries; None without one."""

    @abstractmethod
    def clear(self) -> None:
        """Drop all applied values."""

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """Iterate over all applied keys; the log must not change meanwhile."""

    # reading

    async def catch_up(self, group: PartitionReplica) -> None:
        """Apply the entries that are committed here; yield to the event loop between two reads.

        Raises `CorruptBatch`, `FormatError`, and `OffsetNotAvailable` for a log that cannot be read now."""
        while self.next_offset < group.high_watermark:
            self.read_on(group)
            await asyncio.sleep(0)

    def read_on(self, group: PartitionReplica) -> None:
        """Read and apply the next slice of the log; raises like `catch_up`."""
        if self.next_offset < group.log_start_offset:  # the log before it was trimmed, after it was written anew
            self.clear()
            self.next_offset = group.log_start_offset
        begin = after = self.next_offset
        newest: dict[bytes, bytes | None] = {}
        """Last value of each key in the slice; earlier ones are not decoded."""
        for batch in group.read(begin, READ_BYTES):
            for record in self._records(batch):
                if record.offset >= after:
                    newest[record.key or b""] = record.value
                    after = Offset(record.offset + 1)
        for key, value in newest.items():
            self.put(*self.decode(key, value))
        self.next_offset = after  # a slice that fails is read again from its beginning
        if after == begin:
            raise OffsetNotAvailable(f"{self._name}: offset {begin} is committed and cannot be read yet")

    def _records(self, batch: Buffer) -> Iterator[Record]:
        """Yield the records of a batch. Raises `FormatError` for a batch that cannot be decoded."""
        try:
            yield from read_records(batch)
        except UndecodableBatch as error:
            raise FormatError(f"{self._name}: {error}") from error

    # writing

    def expect(self, entries: Iterable[LogEntry[K, V]]) -> None:
        """Add entries that are being appended, after all entries that were expected before."""
        for entry in entries:
            self._ahead.setdefault(entry.key, []).append(entry)

    def advance(self, entries: Iterable[LogEntry[K, V]], count: int) -> None:
        """Apply entries that are the next `count` records of the log; without entries the records change nothing."""
        for entry in entries:
            self.put(*entry)
        self.next_offset = Offset(self.next_offset + count)

    def forget(self, entries: Iterable[LogEntry[K, V]]) -> None:
        """Remove entries that are no longer being appended."""
        for entry in entries:
            ahead = self._ahead[entry.key]
            ahead.pop(next(number for number, each in enumerate(ahead) if each is entry))
            if not ahead:
                del self._ahead[entry.key]

    def latest(self, key: K) -> V | None:
        """Return the value that a key will have after all expected entries; None if it will have no value."""
        ahead = self._ahead.get(key)
        return ahead[-1].value if ahead else self.folded_value(key)
