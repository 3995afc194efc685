"""What the log of one partition of `__consumer_offsets` says, and what is on its way into it. Pure but for reading.

    next offset ≤ high watermark;   `latest` = what is on its way, or else what is folded

The last record of a key counts (`records`). A record that was written here with success is put here instead of being
read back; records that others appended meanwhile are read. Owned by a coordinator.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from raftlog.errors import FormatError, OffsetNotAvailable, UndecodableBatch
from raftlog.partitions.groups.records import (
    GroupKey,
    GroupRecord,
    InstanceKey,
    InstanceRecord,
    Key,
    OffsetKey,
    OffsetRecord,
    Value,
    decode_key,
    decode_value,
)
from raftlog.records import Record, read_records
from raftlog.runtime.replica.group import Group
from raftlog.types import Buffer, Offset

READ_BYTES = 1 << 16
"""Folded in one turn of the loop."""

Place: TypeAlias = tuple[UUID, int]
"""A partition by its topic's uuid."""


class GroupEntry(NamedTuple):
    """One record that is to be appended; without value a tombstone."""

    key: Key
    value: Value | None


class Folded:
    """See the module."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.next_offset = Offset(0)
        self.groups: dict[str, GroupRecord] = {}
        self.offsets: dict[str, dict[Place, OffsetRecord]] = {}
        """By group; never an empty mapping."""
        self.instances: dict[InstanceKey, InstanceRecord] = {}
        self._ahead: dict[Key, list[GroupEntry]] = {}
        """On their way into the log, in its order."""

    # reading

    async def catch_up(self, group: Group) -> None:
        """Fold what is committed here; gives others the loop between two reads. Raises `CorruptBatch`, `FormatError`,
        and `OffsetNotAvailable` where it cannot be read now."""
        while self.next_offset < group.high_watermark:
            self.read_on(group)
            await asyncio.sleep(0)

    def read_on(self, group: Group) -> None:
        """Fold one slice; raises likewise."""
        if self.next_offset < group.log_start_offset:
            self._begin_at(group.log_start_offset)
        begin = after = self.next_offset
        newest: dict[bytes, bytes | None] = {}
        """By key: of most keys a slice has several values, and only the last one is worth decoding."""
        for batch in group.read(begin, READ_BYTES):
            for record in self._records(batch):
                if record.offset < after:
                    continue
                newest[record.key or b""] = record.value
                after = Offset(record.offset + 1)
        self._put_all(newest)
        self.next_offset = after  # what could not be read half way is read again from its beginning
        if after == begin:
            raise OffsetNotAvailable(f"{self._name}: offset {begin} is committed and cannot be read yet")

    def _records(self, batch: Buffer) -> Iterator[Record]:
        try:
            yield from read_records(batch)
        except UndecodableBatch as error:
            raise FormatError(f"{self._name}: {error}") from error

    def _begin_at(self, offset: Offset) -> None:
        """What lies before was trimmed, and stands again behind `offset`."""
        self.groups.clear()
        self.offsets.clear()
        self.instances.clear()
        self.next_offset = offset

    def _put_all(self, newest: dict[bytes, bytes | None]) -> None:
        for data, value in newest.items():
            key = decode_key(data)
            self._put(key, None if value is None else decode_value(key, value))

    def _put(self, key: Key, value: Value | None) -> None:
        match key, value:
            case OffsetKey(group, topic_id, partition), OffsetRecord():
                self.offsets.setdefault(group, {})[topic_id, partition] = value
            case OffsetKey(group, topic_id, partition), None:
                offsets = self.offsets.get(group, {})
                offsets.pop((topic_id, partition), None)
                if not offsets:
                    self.offsets.pop(group, None)
            case GroupKey(group), GroupRecord():
                self.groups[group] = value
            case GroupKey(group), None:
                self.groups.pop(group, None)
            case InstanceKey(), Mapping():
                self.instances[key] = value
            case InstanceKey(), None:
                self.instances.pop(key, None)
            case _:
                raise AssertionError(f"a value of another kind than its key {key}")

    # writing

    def expect(self, entries: Iterable[GroupEntry]) -> None:
        """These are to be appended now, behind all that were expected before."""
        for entry in entries:
            self._ahead.setdefault(entry.key, []).append(entry)

    def advance(self, entries: Iterable[GroupEntry], count: int) -> None:
        """They are the next `count` records of the log. Without entries: records that change nothing."""
        for entry in entries:
            self._put(*entry)
        self.next_offset = Offset(self.next_offset + count)

    def forget(self, entries: Iterable[GroupEntry]) -> None:
        """They are on their way no more."""
        for entry in entries:
            ahead = self._ahead[entry.key]
            ahead.pop(next(number for number, each in enumerate(ahead) if each is entry))
            if not ahead:
                del self._ahead[entry.key]

    # what there is

    def latest(self, key: Key) -> Value | None:
        """What the log will say of a key once everything that is on its way has arrived."""
        ahead = self._ahead.get(key)
        if ahead:
            return ahead[-1].value
        match key:
            case GroupKey(group):
                return self.groups.get(group)
            case OffsetKey(group, topic_id, partition):
                return self.offsets.get(group, {}).get((topic_id, partition))
        return self.instances.get(key)

    def latest_offset(self, key: OffsetKey) -> OffsetRecord | None:
        """The same of an offset."""
        record = self.latest(key)
        assert record is None or isinstance(record, OffsetRecord), f"{key} with {record}"
        return record

    def latest_offsets(self, group: str) -> dict[OffsetKey, OffsetRecord]:
        """The same of all partitions that a group committed in, sorted."""
        keys = {OffsetKey(group, *place) for place in self.offsets.get(group, ())}
        keys |= {key for key in self._ahead if isinstance(key, OffsetKey) and key.group == group}
        found = {key: self.latest_offset(key) for key in sorted(keys)}
        return {key: record for key, record in found.items() if record is not None}

    def keys(self) -> Iterator[Key]:
        """Of everything that is folded; not to be changed meanwhile."""
        yield from map(GroupKey, self.groups)
        for group, offsets in self.offsets.items():
            for place in offsets:
                yield OffsetKey(group, *place)
        yield from self.instances

    def names(self) -> set[str]:
        """Groups of which anything is folded but instances."""
        return self.groups.keys() | self.offsets.keys()
