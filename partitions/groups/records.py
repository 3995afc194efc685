"""Keys and values of the log `__consumer_offsets` from feature level 3 on; docs/FORMATS.md section 11 has the bytes.

A key names a kind and what it is about; a record without value (tombstone) ends what its key said. The events of
feature level 2 (`watermarks`) are keyed by the group's name, which never begins with a byte below 0x20; these keys
begin with 0x00. Nothing read is trusted for its length. Written and folded by the coordinator.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from raftlog.types import Offset

METADATA_BYTES_MAX: Final = 4096
"""What a commit may say about itself."""
INSTANCE_BYTES_MAX: Final = 65_536


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
    protocols: tuple[Protocol, ...]
    assignment: bytes


class GroupRecord(NamedTuple):
    """A generation: once when its members are known, and again when they are assigned."""

    protocol_type: str
    generation: int
    protocol: str
    leader: str
    """"" while the group is empty, and where the coordinator assigns."""
    is_assigned: bool
    members: tuple[MemberRecord, ...]
    changed_ms: int
    """Wall clock."""


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
    raise NotImplementedError


def is_keyed(key: bytes | None) -> bool:
    """Whether a record's key is one of these; otherwise the record is an event of feature level 2."""
    raise NotImplementedError


def decode_key(data: bytes) -> Key:
    """Raises `FormatError` for a kind that this version does not know, or bytes that are no key."""
    raise NotImplementedError


def encode_value(value: Value) -> bytes:
    """Raises `InvalidArgument` above the bounds."""
    raise NotImplementedError


def decode_value(key: Key, data: bytes) -> Value:
    """The value that belongs to a key of this kind; raises `FormatError`. Tombstones (no value) are the caller's."""
    raise NotImplementedError
