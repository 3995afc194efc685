"""Keys and values of the log `__consumer_offsets`; docs/FORMATS.md section 11 has the bytes.

A key names a kind and what it is about; a record without value (tombstone) ends what its key said. Nothing read is
trusted for its length. Written and folded by the coordinator.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.errors import FormatError, InvalidArgument
from raftlog.types import FEATURE_LEVEL_FIRST, Offset

Row = TypeVar("Row", bound=NamedTuple)
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


LATER_FIELDS: Final[dict[tuple[type[Any], str], int]] = {}
"""Fields that were added to a record, which have defaults there: the feature level from which on they may have another
value, for example `(OffsetRecord, "principal"): 2`."""


def encode_value(value: Value, level: int = FEATURE_LEVEL_FIRST) -> bytes:
    """Return the value as the log has it at a feature level; raise `InvalidArgument` for what does not fit in there."""
    match value:
        case GroupRecord():
            members = [_fields(each, level, protocols=list(map(list, each.protocols))) for each in value.members]
            return _packed([VERSION, *_fields(value, level, members=members)], GROUP_BYTES_MAX)
        case OffsetRecord():
            return _packed([VERSION, *_fields(value, level)], OFFSET_BYTES_MAX)
        case _:
            return _packed([VERSION, dict(value)], INSTANCE_BYTES_MAX)


def _fields(record: Any, level: int, **packed: list[Any]) -> list[Any]:
    """The fields of a record, some of them packed, without those at the end that have their defaults."""
    defaults = record._field_defaults
    names = list(record._fields)
    while names[-1] in defaults and getattr(record, names[-1]) == defaults[names[-1]]:
        names.pop()
    needed = [LATER_FIELDS.get((type(record), name), FEATURE_LEVEL_FIRST) for name in names]
    if max(needed) > level:
        raise InvalidArgument(
            f"a {type(record).__name__} needs feature level {max(needed)}; the cluster runs at {level}"
        )
    return [packed.get(name, getattr(record, name)) for name in names]


def decode_value(key: Key, data: bytes) -> Value:
    """The value that belongs to a key of this kind; raises `FormatError`. Tombstones (no value) are the caller's."""
    match key, _unpacked(data, GROUP_BYTES_MAX):
        case _, [int(version), *_] if version != VERSION:
            raise FormatError(f"a record of groups in version {version}; this program knows version {VERSION}")
        case GroupKey(), [_, *fields]:
            group = _record(GroupRecord, (str, int, str, str, bool, int, list), fields)
            return group._replace(members=tuple(map(_member, group.members)))
        case OffsetKey(), [_, *fields]:
            return _record(OffsetRecord, (int, int, str, int), fields)
        case InstanceKey(), [_, dict(instance)]:
            return instance
    raise _wrong(f"the value of a {type(key).__name__}", data)


def _member(raw: Any) -> MemberRecord:
    text = (str, type(None))
    member = _record(MemberRecord, (str, text, str, str, int, int, bool, bytes, list), raw)
    return member._replace(protocols=tuple(_record(Protocol, (str, bytes), each) for each in member.protocols))


def _record(make: type[Row], kinds: tuple[Any, ...], raw: Any) -> Row:
    """Make a record; fields that miss at the end get their defaults, and an unknown one is refused."""
    if type(raw) is list and len(raw) > len(kinds):
        raise FormatError(
            f"a {make.__name__} with {len(raw)} fields, of which this release knows {len(kinds)}: run a newer release"
        )
    try:
        if all(isinstance(field, kind) for field, kind in zip(raw, kinds, strict=False)):
            return make(*raw)
    except TypeError:  # a field without default is missing, or it is no list
        pass
    raise FormatError(f"a {make.__name__} that cannot be read")


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
