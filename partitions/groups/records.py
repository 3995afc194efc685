"""Keys and values of the log of `__consumer_offsets`; docs/FORMATS.md, section 11, has the bytes.

A key has a kind and the identity of an object; a record without value (tombstone) deletes that object. Lengths that
are read are checked against limits. Written and folded by the coordinator."""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import msgpack  # type: ignore[import-untyped]  # it has no annotations
import msgspec

from raftlog.errors import FormatError, InvalidArgument
from raftlog.types import FEATURE_LEVEL_FIRST, FEATURE_LEVEL_TRANSACTIONS, Offset

Row = TypeVar("Row", bound=NamedTuple)
VERSION: Final = 1
"""Version of values; keys have none, because two versions of a key would be two keys."""
KEY_BYTES_MAX: Final = 4096
METADATA_BYTES_MAX: Final = 4096
"""Limit of the metadata of a commit."""
OFFSET_BYTES_MAX: Final = METADATA_BYTES_MAX + 64
GROUP_BYTES_MAX: Final = 2_000_000
INSTANCE_BYTES_MAX: Final = 65_536
_ITEMS_MAX: Final = 10_000
_KIND: Final = Struct(">h")
_OFFSET, _GROUP, _INSTANCE, _PENDING_OFFSET, _PRODUCER = 1, 2, 16, 17, 18
"""Kinds of keys; the first two as Kafka numbers them."""
_UUID_BYTES: Final = 16


class GroupKey(NamedTuple):
    """Key of the record of a group."""

    group: str


class OffsetKey(NamedTuple):
    """Key of a committed offset, with the topic's uuid: a recreated topic of the same name has other keys."""

    group: str
    topic_id: UUID
    partition: int


class InstanceKey(NamedTuple):
    """Key of a consumer instance of the REST API."""

    group: str
    instance: str


class PendingOffsetKey(NamedTuple):
    """Key of an offset that a transaction committed and that is pending until its end."""

    group: str
    producer_id: int
    topic_id: UUID
    partition: int


class GroupProducerKey(NamedTuple):
    """Key of the record about the last transaction marker of a producer in a group."""

    group: str
    producer_id: int


Key: TypeAlias = GroupKey | OffsetKey | InstanceKey | PendingOffsetKey | GroupProducerKey


class Protocol(NamedTuple):
    """Assignor that a member supports, and the metadata for it (ConsumerProtocolSubscription)."""

    name: str
    metadata: bytes


class MemberRecord(NamedTuple):
    """Member in the record of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    can_lead: bool
    assignment: bytes
    protocols: tuple[Protocol, ...]


class GroupRecord(NamedTuple):
    """Generation of a group; stored once its members are known, and again once they are assigned."""

    protocol_type: str
    generation: int
    protocol: str
    leader: str
    """Group leader; "" while the group is empty, and when the coordinator assigns."""
    is_assigned: bool
    changed_ms: int
    """Time of the last change, by the wall clock."""
    members: tuple[MemberRecord, ...]


class OffsetRecord(NamedTuple):
    """Committed offset of a partition."""

    offset: Offset
    leader_epoch: int
    """Leader epoch of the commit; −1: unknown."""
    metadata: str
    committed_ms: int


class PendingOffsetRecord(NamedTuple):
    """Offset of a partition that is committed in an open transaction; `epoch` is the producer's."""

    offset: Offset
    leader_epoch: int
    metadata: str
    committed_ms: int
    epoch: int

    def committed(self) -> OffsetRecord:
        """Return the record to store when the transaction commits."""
        return OffsetRecord(*self[:4])


class GroupProducerRecord(NamedTuple):
    """Last transaction marker of a producer in a group.

    Markers with older epochs are fenced. A marker with at most this number is a repetition."""

    epoch: int
    coordinator_epoch: int
    ended_ms: int
    number: int = 0


InstanceRecord: TypeAlias = Mapping[str, Any]
"""Record of a consumer instance, opaque here: JSON values and bytes; at most INSTANCE_BYTES_MAX."""

Value: TypeAlias = GroupRecord | OffsetRecord | InstanceRecord | PendingOffsetRecord | GroupProducerRecord


def encode_key(key: Key) -> bytes:
    """Encode a key; equal keys have equal bytes."""
    match key:
        case GroupKey(group):
            return _pack_key(_GROUP, [group])
        case OffsetKey(group, topic_id, partition):
            return _pack_key(_OFFSET, [group, topic_id.bytes, partition])
        case InstanceKey(group, instance):
            return _pack_key(_INSTANCE, [group, instance])
        case PendingOffsetKey(group, producer_id, topic_id, partition):
            return _pack_key(_PENDING_OFFSET, [group, producer_id, topic_id.bytes, partition])
        case GroupProducerKey(group, producer_id):
            return _pack_key(_PRODUCER, [group, producer_id])


def decode_key(data: bytes) -> Key:
    """Decode a key. Raises `FormatError` for an unknown kind and for malformed bytes."""
    if len(data) < _KIND.size:
        raise _format_error("a key", data)
    kind = int(_KIND.unpack_from(data)[0])
    match kind, _unpack(data[_KIND.size :], KEY_BYTES_MAX):
        case int(), [str(group)] if kind == _GROUP:
            return GroupKey(group)
        case int(), [str(group), bytes(topic_id), int(partition)] if kind == _OFFSET and len(topic_id) == _UUID_BYTES:
            return OffsetKey(group, UUID(bytes=topic_id), partition)
        case int(), [str(group), str(instance)] if kind == _INSTANCE:
            return InstanceKey(group, instance)
        case int(), [str(group), int(producer), bytes(topic_id), int(partition)] if (
            kind == _PENDING_OFFSET and len(topic_id) == _UUID_BYTES
        ):
            return PendingOffsetKey(group, producer, UUID(bytes=topic_id), partition)
        case int(), [str(group), int(producer)] if kind == _PRODUCER:
            return GroupProducerKey(group, producer)
    raise _format_error(f"a key of kind {kind}", data)


LATER_FIELDS: Final[dict[tuple[type[Any], str], int]] = {}
"""Feature level of each field that was added to a record later, below which it must have its default.

Example: `(OffsetRecord, "principal"): 2`."""
LATER_RECORDS: Final[Mapping[type[Any], int]] = {
    PendingOffsetRecord: FEATURE_LEVEL_TRANSACTIONS,
    GroupProducerRecord: FEATURE_LEVEL_TRANSACTIONS,
}
"""Feature level of each record that was added later, below which it is not written."""


def encode_value(value: Value, level: int = FEATURE_LEVEL_FIRST) -> bytes:
    """Encode a value for the log.

    Raises `InvalidArgument` if the value is too large, or has fields of higher feature levels."""
    match value:
        case GroupRecord():
            members = [_fields(each, level) for each in value.members]
            return _pack([VERSION, *_fields(value, level, members=members)], GROUP_BYTES_MAX)
        case OffsetRecord() | PendingOffsetRecord() | GroupProducerRecord():
            return _pack([VERSION, *_fields(value, level)], OFFSET_BYTES_MAX)
        case _:
            return _pack([VERSION, dict(value)], INSTANCE_BYTES_MAX)


def _fields(record: Any, level: int, **packed: list[Any]) -> list[Any]:
    """Return the fields of a record, some of them packed, without trailing ones that have their defaults."""
    defaults = record._field_defaults
    names = list(record._fields)
    while names[-1] in defaults and getattr(record, names[-1]) == defaults[names[-1]]:
        names.pop()
    needed = [LATER_FIELDS.get((type(record), name), FEATURE_LEVEL_FIRST) for name in names]
    needed.append(LATER_RECORDS.get(type(record), FEATURE_LEVEL_FIRST))
    if max(needed) > level:
        raise InvalidArgument(
            f"a {type(record).__name__} needs feature level {max(needed)}; the cluster runs at {level}"
        )
    return [packed.get(name, getattr(record, name)) for name in names]


def decode_value(key: Key, data: bytes) -> Value:
    """Decode the value of a key of this kind. Raises `FormatError`. Tombstones (no value) are up to the caller."""
    match key, _unpack(data, GROUP_BYTES_MAX):
        case _, [int(version), *_] if version != VERSION:
            raise FormatError(
                f"a record of consumer groups has version {version}; this release reads {VERSION}: run a newer release"
            )
        case GroupKey(), [_, *fields]:
            return _make_record(GroupRecord, fields)
        case OffsetKey(), [_, *fields]:
            return _make_record(OffsetRecord, fields)
        case InstanceKey(), [_, dict(instance)]:
            return instance
        case PendingOffsetKey(), [_, *fields]:
            return _make_record(PendingOffsetRecord, fields)
        case GroupProducerKey(), [_, *fields]:
            return _make_record(GroupProducerRecord, fields)
    raise _format_error(f"the value of a {type(key).__name__}", data)


def _make_record(kind: type[Row], raw: list[Any]) -> Row:
    """Make a record; missing trailing fields get their defaults, and additional fields raise `FormatError`."""
    try:
        return msgspec.convert(raw, kind, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise FormatError(
            f"the value is not a {kind.__name__} of this release: {error}; if it has more fields, run a newer release"
        ) from None


def _pack_key(kind: int, fields: list[Any]) -> bytes:
    """Return the bytes of a key: its kind, then the fields."""
    return _KIND.pack(kind) + _pack(fields, KEY_BYTES_MAX)


def _pack(fields: list[Any], bytes_max: int) -> bytes:
    """Encode the fields of a record. Raises `InvalidArgument` beyond `bytes_max`."""
    try:
        packed: bytes = msgpack.packb(fields)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"a record of consumer groups cannot be written: {error}") from None
    if len(packed) > bytes_max:
        raise InvalidArgument(f"a record of consumer groups has {len(packed)} bytes; the limit is {bytes_max}")
    return packed


def _unpack(data: bytes, bytes_max: int) -> Any:
    """Decode a MessagePack value. Raises `FormatError` for invalid or too many bytes."""
    if len(data) > bytes_max:
        raise FormatError(f"a record of consumer groups has {len(data)} bytes; the limit is {bytes_max}")
    try:
        return msgpack.unpackb(data, max_array_len=_ITEMS_MAX, max_map_len=_ITEMS_MAX, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise FormatError(f"a record of consumer groups cannot be read: {type(error).__name__}") from None


def _format_error(what: str, data: bytes) -> FormatError:
    """Return the error for a key or value that cannot be decoded; `what` names it."""
    return FormatError(f"{what} of {len(data)} bytes in __consumer_offsets cannot be read")
