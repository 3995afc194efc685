"""Keys and values of the log `__consumer_offsets`; docs/FORMATS.md section 11 has the bytes.

A key names a kind and what it is about; a record without value (tombstone) ends what its key said. Nothing read is
trusted for its length. Written and folded by the coordinator.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.errors import FormatError, InvalidArgument
from raftlog.types import Offset

VERSION: Final = 1
"""Of values; a key has none, for two versions of a key would be two keys."""
KEY_BYTES_MAX: Final = 4096
METADATA_BYTES_MAX: Final = 4096
"""What a commit may say about itself."""
OFFSET_BYTES_MAX: Final = METADATA_BYTES_MAX + 64
GROUP_BYTES_MAX: Final = 2_000_000
INSTANCE_BYTES_MAX: Final = 65_536
_ITEMS_MAX: Final = 10_000
_KIND: Final = Struct(">h")
_OFFSET, _GROUP, _INSTANCE = 1, 2, 16
"""Kinds; the first two as Kafka numbers them."""
_UUID_BYTES: Final = 16


class GroupKey(NamedTuple):
    group: str


class OffsetKey(NamedTuple):
    """By the uuid of the topic: a later topic of the same name is another."""

    group: str
    topic_id: UUID
    partition: int


class InstanceKey(NamedTuple):
    """A consumer instance of the REST face."""

    group: str
    instance: str


Key: TypeAlias = GroupKey | OffsetKey | InstanceKey


class Protocol(NamedTuple):
    """An assignor that a member can take part in, and what it tells it (ConsumerProtocolSubscription)."""

    name: str
    metadata: bytes


class MemberRecord(NamedTuple):
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
    """A generation: once when its members are known, and again when they are assigned."""

    protocol_type: str
    generation: int
    protocol: str
    leader: str
    """"" while the group is empty, and where the coordinator assigns."""
    is_assigned: bool
    changed_ms: int
    """Wall clock."""
    members: tuple[MemberRecord, ...]


class OffsetRecord(NamedTuple):
    """A committed offset of a partition."""

    offset: Offset
    leader_epoch: int
    """−1: unknown."""
    metadata: str
    committed_ms: int


InstanceRecord: TypeAlias = Mapping[str, Any]
"""What a consumer instance is, opaque here: what JSON can say, and bytes; at most INSTANCE_BYTES_MAX."""

Value: TypeAlias = GroupRecord | OffsetRecord | InstanceRecord


def encode_key(key: Key) -> bytes:
    """The same bytes for the same key, always."""
    match key:
        case GroupKey(group):
            return _keyed(_GROUP, [group])
        case OffsetKey(group, topic_id, partition):
            return _keyed(_OFFSET, [group, topic_id.bytes, partition])
        case InstanceKey(group, instance):
            return _keyed(_INSTANCE, [group, instance])


def decode_key(data: bytes) -> Key:
    """Raises `FormatError` for a kind that this version does not know, or bytes that are no key."""
    if len(data) < _KIND.size:
        raise _wrong("a key", data)
    kind = int(_KIND.unpack_from(data)[0])
    match kind, _unpacked(data[_KIND.size :], KEY_BYTES_MAX):
        case int(), [str(group)] if kind == _GROUP:
            return GroupKey(group)
        case int(), [str(group), bytes(topic_id), int(partition)] if kind == _OFFSET and len(topic_id) == _UUID_BYTES:
            return OffsetKey(group, UUID(bytes=topic_id), partition)
        case int(), [str(group), str(instance)] if kind == _INSTANCE:
            return InstanceKey(group, instance)
    raise _wrong(f"a key of kind {kind}", data)


def encode_value(value: Value) -> bytes:
    """Raises `InvalidArgument` above the bounds."""
    match value:
        case GroupRecord():
            return _packed([VERSION, *value[:-1], list(map(_member, value.members))], GROUP_BYTES_MAX)
        case OffsetRecord():
            return _packed([VERSION, *value], OFFSET_BYTES_MAX)
        case _:
            return _packed([VERSION, dict(value)], INSTANCE_BYTES_MAX)


def decode_value(key: Key, data: bytes) -> Value:
    """The value that belongs to a key of this kind; raises `FormatError`. Tombstones (no value) are the caller's."""
    raw = _unpacked(data, GROUP_BYTES_MAX)
    match key, raw:
        case _, [int(version), *_] if version != VERSION:
            raise FormatError(f"a record of groups in version {version}; this program knows version {VERSION}")
        case GroupKey(), [_, str(), int(), str(), str(), bool(), int(), list(members)]:
            return GroupRecord._make([*raw[1:-1], tuple(map(_decoded_member, members))])
        case OffsetKey(), [_, int(), int(), str(), int()]:
            return OffsetRecord(*raw[1:])
        case InstanceKey(), [_, dict(instance)]:
            return instance
    raise _wrong(f"the value of a {type(key).__name__}", data)


def _member(member: MemberRecord) -> list[Any]:
    return [*member[:-1], [[name, metadata] for name, metadata in member.protocols]]


def _decoded_member(raw: Any) -> MemberRecord:
    match raw:
        case [str(), str() | None, str(), str(), int(), int(), bool(), bytes(), list(protocols)]:
            return MemberRecord._make([*raw[:-1], tuple(map(_decoded_protocol, protocols))])
    raise FormatError("a member in the record of a group that cannot be read")


def _decoded_protocol(raw: Any) -> Protocol:
    match raw:
        case [str(name), bytes(metadata)]:
            return Protocol(name, metadata)
    raise FormatError("a protocol in the record of a group that cannot be read")


def _keyed(kind: int, fields: list[Any]) -> bytes:
    return _KIND.pack(kind) + _packed(fields, KEY_BYTES_MAX)


def _packed(fields: list[Any], bytes_max: int) -> bytes:
    try:
        packed: bytes = msgpack.packb(fields)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"a record of groups cannot be written: {error}") from None
    if len(packed) > bytes_max:
        raise InvalidArgument(f"a record of groups of {len(packed)} bytes cannot be written; it can have {bytes_max}")
    return packed


def _unpacked(data: bytes, bytes_max: int) -> Any:
    if len(data) > bytes_max:
        raise FormatError(f"{len(data)} bytes in a record of groups, where {bytes_max} is the most")
    try:
        return msgpack.unpackb(data, max_array_len=_ITEMS_MAX, max_map_len=_ITEMS_MAX, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise FormatError(f"a record of groups that cannot be read: {type(error).__name__}") from None


def _wrong(what: str, data: bytes) -> FormatError:
    return FormatError(f"{what} that cannot be read, in {len(data)} bytes of the log of groups")
