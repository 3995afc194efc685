"""Keys and values of the log of `__transaction_state`; docs/FORMATS.md has the bytes.

A key is a kind and a transactional id; a record without value (tombstone) deletes the id. Lengths that are read are
checked against limits. Written and folded by the coordinator."""

from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgpack  # type: ignore[import-untyped]  # it has no annotations
import msgspec

from raftlog.errors import FormatError, InvalidArgument

VERSION: Final = 1
"""Version of values; keys have none, because two versions of a key would be two keys."""
KEY_BYTES_MAX: Final = 2_048
VALUE_BYTES_MAX: Final = 4_000_000
NO_PRODUCER: Final = -1
NO_EPOCH: Final = -1
_ITEMS_MAX: Final = 20_000
_KIND: Final = Struct(">h")
_TRANSACTION: Final = 0
"""Kind of key, as Kafka numbers it."""

TransactionPlace: TypeAlias = tuple[UUID, int]
"""Partition by its topic's uuid."""


class ProducerIdAndEpoch(NamedTuple):
    """Identity of an initialized producer; older epochs of its transactional id are fenced."""

    producer_id: int
    epoch: int


class TransactionState(IntEnum):
    """State of a transactional id, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def kafka_name(self) -> str:
        """Kafka's name of the state, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class TransactionRecord(NamedTuple):
    """State of one transactional id."""

    producer_id: int
    epoch: int
    state: TransactionState
    timeout_ms: int
    partitions: tuple[TransactionPlace, ...]
    """Partitions of the transaction, sorted; none unless it is ongoing or prepared."""
    groups: tuple[str, ...]
    """Consumer groups with offsets in the transaction, sorted."""
    started_ms: int
    """Time of the transaction's begin, by the wall clock; 0 without one."""
    changed_ms: int
    """Time of the last change, by the wall clock."""
    replaced_id: int = NO_PRODUCER
    """Producer id, and in `replaced_epoch` its epoch, in the request that led to the present identity (KIP-360)."""
    replaced_epoch: int = NO_EPOCH
    number: int = 0
    """Number of the last transaction; later ones have higher numbers."""


def encode_key(transactional_id: str) -> bytes:
    """Encode the key of a transactional id."""
    return _KIND.pack(_TRANSACTION) + _pack([transactional_id], KEY_BYTES_MAX)


def decode_key(data: bytes) -> str:
    """Decode a key to the transactional id. Raises `FormatError` for an unknown kind and for malformed bytes."""
    if len(data) >= _KIND.size and _KIND.unpack_from(data)[0] == _TRANSACTION:
        match _unpack(data[_KIND.size :], KEY_BYTES_MAX):
            case [str(transactional_id)]:
                return transactional_id
    raise FormatError(f"a key of {len(data)} bytes in __transaction_state cannot be read")


def encode_value(record: TransactionRecord) -> bytes:
    """Encode a record, without trailing fields at their defaults. Raises `InvalidArgument` if it is too large."""
    defaults = TransactionRecord._field_defaults
    names = list(TransactionRecord._fields)
    while names[-1] in defaults and getattr(record, names[-1]) == defaults[names[-1]]:
        names.pop()
    packed = {
        "state": int(record.state),
        "partitions": [[topic_id.bytes, number] for topic_id, number in record.partitions],
    }
    return _pack([VERSION, *(packed.get(name, getattr(record, name)) for name in names)], VALUE_BYTES_MAX)


def decode_value(data: bytes) -> TransactionRecord:
    """Decode a record; missing trailing fields get their defaults. Raises `FormatError`, also for further fields."""
    match _unpack(data, VALUE_BYTES_MAX):
        case [int(version), *_] if version != VERSION:
            raise FormatError(
                f"a record of transactions has version {version}; this release reads {VERSION}: run a newer release"
            )
        case [_, *fields]:
            return _make_record(fields)
    raise FormatError(f"a value of {len(data)} bytes in __transaction_state cannot be read")


def _make_record(fields: list[Any]) -> TransactionRecord:
    """Return the record of unpacked fields. Raises `FormatError`."""
    try:
        return msgspec.convert(fields, TransactionRecord, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise FormatError(
            f"the value is not a record of transactions of this release: {error}; if it has more fields, run a newer "
            "release"
        ) from None


def _pack(fields: list[Any], bytes_max: int) -> bytes:
    """Encode fields. Raises `InvalidArgument` beyond `bytes_max`."""
    try:
        packed: bytes = msgpack.packb(fields)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"a record of transactions cannot be written: {error}") from None
    if len(packed) > bytes_max:
        raise InvalidArgument(f"a record of transactions has {len(packed)} bytes; the limit is {bytes_max}")
    return packed


def _unpack(data: bytes, bytes_max: int) -> Any:
    """Decode a MessagePack value. Raises `FormatError` for invalid or too many bytes."""
    if len(data) > bytes_max:
        raise FormatError(f"a record of transactions has {len(data)} bytes; the limit is {bytes_max}")
    try:
        return msgpack.unpackb(data, max_array_len=_ITEMS_MAX, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise FormatError(f"a record of transactions cannot be read: {type(error).__name__}") from None
