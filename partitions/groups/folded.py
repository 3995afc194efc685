"""Groups, offsets and consumer instances that the log of one partition of `__consumer_offsets` holds. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias
from uuid import UUID

from raftlog.partitions.coordinator.folded import FoldedLog, LogEntry
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
    encode_key,
    encode_value,
)
from raftlog.records import NewRecord

Place: TypeAlias = tuple[UUID, int]
"""Partition by its topic's uuid."""
GroupEntry: TypeAlias = LogEntry[Key, Value]


class FoldedGroups(FoldedLog[Key, Value]):
    """State applied from the log of one partition; see the module."""

    def __init__(self, name: str, feature_level: Callable[[], int]) -> None:
        super().__init__(name)
        self._feature_level = feature_level
        """Feature level of the cluster; records have no fields above it."""
        self.groups: dict[str, GroupRecord] = {}
        self.offsets: dict[str, dict[Place, OffsetRecord]] = {}
        """Committed offsets by group; never an empty mapping."""
        self.instances: dict[InstanceKey, InstanceRecord] = {}

    def encode(self, entry: GroupEntry) -> NewRecord:
        key, value = entry
        return NewRecord(None if value is None else encode_value(value, self._feature_level()), encode_key(key))

    def decode(self, key: bytes, value: bytes | None) -> GroupEntry:
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
            case _:
                raise AssertionError(f"a value of another kind than its key {key}")

    def folded_value(self, key: Key) -> Value | None:
        match key:
            case GroupKey(group):
                return self.groups.get(group)
            case OffsetKey(group, topic_id, partition):
                return self.offsets.get(group, {}).get((topic_id, partition))
        return self.instances.get(key)

    def clear(self) -> None:
        self.groups.clear()
        self.offsets.clear()
        self.instances.clear()

    def keys(self) -> Iterator[Key]:
        yield from map(GroupKey, self.groups)
        for group, offsets in self.offsets.items():
            for place in offsets:
                yield OffsetKey(group, *place)
        yield from self.instances

    def latest_offset(self, key: OffsetKey) -> OffsetRecord | None:
        """Return the offset that the partition will have after all expected entries."""
        record = self.latest(key)
        assert record is None or isinstance(record, OffsetRecord), f"{key} with {record}"
        return record

    def latest_offsets(self, group: str) -> dict[OffsetKey, OffsetRecord]:
        """Return the latest offsets of all partitions in which a group committed, sorted."""
        keys = {OffsetKey(group, *place) for place in self.offsets.get(group, ())}
        keys |= {key for key in self._ahead if isinstance(key, OffsetKey) and key.group == group}
        found = {key: self.latest_offset(key) for key in sorted(keys)}
        return {key: record for key, record in found.items() if record is not None}

    def names(self) -> set[str]:
        """Return the names of groups with an applied group record or offset."""
        return self.groups.keys() | self.offsets.keys()
