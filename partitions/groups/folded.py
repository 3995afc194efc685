"""Groups, offsets and consumer instances that the log of one partition of `__consumer_offsets` holds. Pure.

Offsets of open transactions are pending: apart from the committed ones, until the transaction's end."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias
from uuid import UUID

from raftlog.partitions.coordinator.folded import FoldedLog, LogEntry
from raftlog.partitions.groups.records import (
    GroupKey,
    GroupProducerKey,
    GroupProducerRecord,
    GroupRecord,
    InstanceKey,
    InstanceRecord,
    Key,
    OffsetKey,
    OffsetRecord,
    PendingOffsetKey,
    PendingOffsetRecord,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from raftlog.records import NewRecord

Place: TypeAlias = tuple[UUID, int]
"""Partition by its topic's uuid."""
GroupEntry: TypeAlias = LogEntry[Key, Value]


class FoldedGroups(FoldedLog[Key, Value]):
    """State of consumer groups, offsets and instances that results from the log of one partition."""

    def __init__(self, name: str, feature_level: Callable[[], int]) -> None:
        """Create the state before the first record of the log `name`."""
        super().__init__(name)
        self._feature_level = feature_level
        """Feature level of the cluster; records are encoded without fields of higher levels."""
        self.groups: dict[str, GroupRecord] = {}
        self.offsets: dict[str, dict[Place, OffsetRecord]] = {}
        """Committed offsets by group; never an empty mapping."""
        self.instances: dict[InstanceKey, InstanceRecord] = {}
        self.pending: dict[str, dict[int, dict[PendingOffsetKey, PendingOffsetRecord]]] = {}
        """Offsets of open transactions by group and producer id; never an empty mapping."""
        self.pending_count = 0
        self.producers: dict[GroupProducerKey, GroupProducerRecord] = {}
        self._pending_ahead: dict[str, Counter[PendingOffsetKey]] = {}
        """Numbers of expected entries with pending offsets by group; never 0."""

    def encode(self, entry: GroupEntry) -> NewRecord:
        """Return the record of an entry, without fields that the cluster's feature level lacks."""
        key, value = entry
        return NewRecord(None if value is None else encode_value(value, self._feature_level()), encode_key(key))

    def decode(self, key: bytes, value: bytes | None) -> GroupEntry:
        """Return the entry of a record. Raises `FormatError`."""
        decoded = decode_key(key)
        return LogEntry(decoded, None if value is None else decode_value(decoded, value))

    def put(self, key: Key, value: Value | None) -> None:
        """Apply an entry; None deletes the key."""
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
            case PendingOffsetKey(), PendingOffsetRecord():
                pending = self.pending.setdefault(key.group, {}).setdefault(key.producer_id, {})
                self.pending_count += key not in pending
                pending[key] = value
            case PendingOffsetKey(), None:
                self._remove_pending(key)
            case GroupProducerKey(), GroupProducerRecord():
                self.producers[key] = value
            case GroupProducerKey(), None:
                self.producers.pop(key, None)
            case _:
                raise AssertionError(f"a value of another kind than its key {key}")

    def _remove_pending(self, key: PendingOffsetKey) -> None:
        """Remove a pending offset, and mappings that become empty; do nothing if it does not exist."""
        producers = self.pending.get(key.group, {})
        pending = producers.get(key.producer_id, {})
        if pending.pop(key, None) is None:
            return
        self.pending_count -= 1
        if not pending:
            del producers[key.producer_id]
        if not producers:
            del self.pending[key.group]

    def folded_value(self, key: Key) -> Value | None:
        """Return the value of a key in the committed log; None if it has none."""
        match key:
            case GroupKey(group):
                return self.groups.get(group)
            case OffsetKey(group, topic_id, partition):
                return self.offsets.get(group, {}).get((topic_id, partition))
            case PendingOffsetKey():
                return self.pending.get(key.group, {}).get(key.producer_id, {}).get(key)
            case GroupProducerKey():
                return self.producers.get(key)
        return self.instances.get(key)

    def clear(self) -> None:
        """Remove all values, before the log is read again."""
        self.groups.clear()
        self.offsets.clear()
        self.instances.clear()
        self.pending.clear()
        self.pending_count = 0
        self.producers.clear()

    def keys(self) -> Iterator[Key]:
        """Yield all keys with a value."""
        yield from map(GroupKey, self.groups)
        for group, offsets in self.offsets.items():
            for place in offsets:
                yield OffsetKey(group, *place)
        yield from self.instances
        for producers in self.pending.values():
            for pending in producers.values():
                yield from pending
        yield from self.producers

    def expect(self, entries: Iterable[GroupEntry]) -> None:
        """Record entries that are being appended."""
        entries = list(entries)
        super().expect(entries)
        for key in (each.key for each in entries if isinstance(each.key, PendingOffsetKey)):
            self._pending_ahead.setdefault(key.group, Counter())[key] += 1

    def forget(self, entries: Iterable[GroupEntry]) -> None:
        """Remove entries from those being appended, after their append ended."""
        entries = list(entries)
        super().forget(entries)
        for key in (each.key for each in entries if isinstance(each.key, PendingOffsetKey)):
            ahead = self._pending_ahead[key.group]
            ahead[key] -= 1
            if not ahead[key]:
                del ahead[key]
            if not ahead:
                del self._pending_ahead[key.group]

    def latest_offset(self, key: OffsetKey) -> OffsetRecord | None:
        """Return the offset that the partition will have after all expected entries, or None."""
        record = self.latest(key)
        assert record is None or isinstance(record, OffsetRecord), f"{key} with {record}"
        return record

    def latest_offsets(self, group: str) -> dict[OffsetKey, OffsetRecord]:
        """Return the latest offsets of all partitions in which a group committed, sorted."""
        keys = {OffsetKey(group, *place) for place in self.offsets.get(group, ())}
        keys |= {key for key in self._ahead if isinstance(key, OffsetKey) and key.group == group}
        found = {key: self.latest_offset(key) for key in sorted(keys)}
        return {key: record for key, record in found.items() if record is not None}

    def pending_offsets(self, group: str) -> Iterator[PendingOffsetKey]:
        """Iterate over the applied offsets of a group's open transactions."""
        for pending in self.pending.get(group, {}).values():
            yield from pending

    def latest_pending(self, group: str, producer_id: int | None = None) -> dict[PendingOffsetKey, PendingOffsetRecord]:
        """Return the offsets of a group's open transactions, or of one producer's, after all expected entries."""
        pending = self.pending.get(group, {})
        keys = {*self.pending_offsets(group)} if producer_id is None else {*pending.get(producer_id, ())}
        keys |= {key for key in self._pending_ahead.get(group, ()) if producer_id in (None, key.producer_id)}
        found = {key: self.latest(key) for key in sorted(keys)}
        return {key: record for key, record in found.items() if isinstance(record, PendingOffsetRecord)}

    def latest_producer(self, group: str, producer_id: int) -> GroupProducerRecord | None:
        """Return the record of a producer's last transaction marker after all expected entries, or None."""
        record = self.latest(GroupProducerKey(group, producer_id))
        assert record is None or isinstance(record, GroupProducerRecord), f"producer {producer_id} with {record}"
        return record

    def is_producer_ahead(self, group: str, producer_id: int) -> bool:
        """Return whether entries of a producer's transactions in a group are expected."""
        ahead = self._pending_ahead.get(group, ())
        return GroupProducerKey(group, producer_id) in self._ahead or any(
            key.producer_id == producer_id for key in ahead
        )

    def names(self) -> set[str]:
        """Return the names of groups with an applied group record or offset."""
        return self.groups.keys() | self.offsets.keys()
