"""Schema of the controller's values: their form in MessagePack, and their limits.

A record is a frozen dataclass whose fields are `Annotated` with a `Shape`; it is packed as the list of its fields,
in their order, without those at the end that have their defaults. So a record without values for later fields has
the bytes, and the hash, that earlier releases give it. A record that breaks a rule cannot be made at all.

    unpack(pack(record)) = record,   and the same record gives the same bytes everywhere

No value depends on the order of a set or mapping, on a locale or on the Unicode tables of a Python version. Pure;
commands, the rows of the state and its snapshots are made of these."""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, Generic, NamedTuple, Self, TypeVar, get_type_hints
from uuid import UUID

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.errors import FormatError, InvalidArgument
from raftlog.raft import ReplicaId
from raftlog.types import FEATURE_LEVEL_FIRST, Buffer, Index, NodeId, intern_uuid

T = TypeVar("T")
NUMBER_MAX = (1 << 63) - 1
NODE_ID_MAX = (1 << 31) - 1
UUID_BYTES = 16
TEXT_BYTES_MAX = 255
PARTITIONS_MAX = 10_000
"""Limit of partitions of one topic."""
REPLICAS_MAX = 15
"""Limit of replicas of one partition."""
LISTENERS_MAX = 8
"""Limit of listeners of one kind of one broker."""
LISTENER_NAME_BYTES_MAX = 32
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class ShapeError(ValueError):
    """Value that does not fit its shape.

    It becomes `InvalidArgument` when a record is made, `FormatError` when it is read."""


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """Description of a kind of values for records.

    `check` raises `ShapeError`; `unpack` raises it for anything but packed values of this kind."""

    name: str
    check: Callable[[T], None]
    pack: Callable[[T], Any]
    unpack: Callable[[Any], T]


def whole(name: str, low: int, high: int) -> Shape[Any]:
    """Return the shape of a whole number within bounds, both included."""

    def check(value: Any) -> None:
        """Raise `ShapeError` unless the value is a whole number in the bounds."""
        if type(value) is not int or not low <= value <= high:
            raise ShapeError(f"{value!r} is not a whole number in {low} … {high}")

    return Shape(name, check, lambda value: value, lambda raw: raw)


def text(name: str, bytes_min: int, bytes_max: int) -> Shape[str]:
    """Return the shape of text with a bounded number of bytes in UTF-8, without control characters."""

    def check(value: str) -> None:
        """Raise `ShapeError` unless the value is text of a permitted size without control characters."""
        if type(value) is not str:
            raise ShapeError(f"{value!r} is not text")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ShapeError(f"{value!r} is not text that UTF-8 can hold") from None
        if not bytes_min <= size <= bytes_max:
            raise ShapeError(f"text of {size} bytes; it can have {bytes_min} to {bytes_max}")
        if _CONTROL.search(value):
            raise ShapeError(f"{value!r} holds control characters")

    return Shape(name, check, lambda value: value, lambda raw: raw)


def blob(name: str, bytes_min: int, bytes_max: int) -> Shape[bytes]:
    """Return the shape of a bounded number of bytes. Errors do not show the bytes, which may be secret."""

    def check(value: bytes) -> None:
        """Raise `ShapeError` unless the value is bytes of a permitted length."""
        if type(value) is not bytes:
            raise ShapeError(f"{type(value).__name__} where bytes are needed")
        if not bytes_min <= len(value) <= bytes_max:
            raise ShapeError(f"{len(value)} bytes; there can be {bytes_min} to {bytes_max}")

    return Shape(name, check, lambda value: value, lambda raw: raw)


def _check_uuid(value: UUID) -> None:
    """Raise `ShapeError` unless the value is a UUID."""
    if type(value) is not UUID:
        raise ShapeError(f"{value!r} is not a UUID")


def _check_uuid_bytes(raw: Any) -> None:
    """Raise `ShapeError` unless the value is the 16 bytes of a UUID."""
    if type(raw) is not bytes or len(raw) != UUID_BYTES:
        raise ShapeError(f"{raw!r} is not the 16 bytes of a UUID")


def _unpack_uuid(raw: Any) -> UUID:
    """Return the UUID of 16 bytes. Raises `ShapeError`."""
    _check_uuid_bytes(raw)
    return intern_uuid(raw)


def _check_flag(value: bool) -> None:
    """Raise `ShapeError` unless the value is a boolean."""
    if type(value) is not bool:
        raise ShapeError(f"{value!r} is neither true nor false")


def optional(shape: Shape[T]) -> Shape[T | None]:
    """Return the shape of a value or nil."""

    def check(value: T | None) -> None:
        """Raise `ShapeError` unless the value is None or has the shape."""
        if value is not None:
            shape.check(value)

    return Shape(
        f"{shape.name} or nil",
        check,
        lambda value: None if value is None else shape.pack(value),
        lambda raw: None if raw is None else shape.unpack(raw),
    )


def listing(name: str, shape: Shape[T], count_min: int, count_max: int) -> Shape[tuple[T, ...]]:
    """Return the shape of a tuple with a bounded number of values of one shape."""

    def check(values: tuple[T, ...]) -> None:
        """Raise `ShapeError` unless the value is a tuple of a permitted length whose items have the shape."""
        if type(values) is not tuple:
            raise ShapeError(f"{values!r} is not a tuple")
        if not count_min <= len(values) <= count_max:
            raise ShapeError(f"{len(values)} items; there can be {count_min} to {count_max}")
        for value in values:
            shape.check(value)

    return Shape(name, check, lambda values: list(map(shape.pack, values)), lambda raw: _unpack_each(raw, shape.unpack))


def _unpack_each(raw: Any, unpack: Callable[[Any], T]) -> tuple[T, ...]:
    """Return the unpacked elements of a list. Raises `ShapeError` for anything but a list."""
    if type(raw) is not list:
        raise ShapeError(f"{type(raw).__name__} where a list is needed")
    return tuple(map(unpack, raw))


def _check_replica(value: ReplicaId) -> None:
    """Raise `ShapeError` unless the value is a replica id."""
    if type(value) is not ReplicaId:
        raise ShapeError(f"{value!r} is not a replica")
    _NODE_ID.check(value.node_id)
    _check_uuid(value.disk_uuid)


def _unpack_replica(raw: Any) -> ReplicaId:
    """Return the replica id of a list of node id and disk uuid. Raises `ShapeError`."""
    if type(raw) is not list or len(raw) != 2:
        raise ShapeError(f"{raw!r} is not a node id and a disk uuid")
    _NODE_ID.check(raw[0])
    _check_uuid_bytes(raw[1])
    return _replica(raw[0], raw[1])


@lru_cache(maxsize=4096)
def _replica(node_id: int, disk_uuid: bytes) -> ReplicaId:
    """Return one shared object for each replica, because few replicas occur in thousands of rows."""
    return ReplicaId(NodeId(node_id), intern_uuid(disk_uuid))


def _check_placement(rows: tuple[tuple[ReplicaId, ...], ...]) -> None:
    """Raise `ShapeError` unless each partition has replicas on distinct nodes."""
    if type(rows) is not tuple or not 1 <= len(rows) <= PARTITIONS_MAX:
        raise ShapeError(f"1 to {PARTITIONS_MAX} partitions are needed")
    checked: set[int] = set()  # by identity: the same few objects stand in thousands of partitions
    for partition, replicas in enumerate(rows):
        if type(replicas) is not tuple or not 1 <= len(replicas) <= REPLICAS_MAX:
            raise ShapeError(f"partition {partition} needs a tuple of 1 to {REPLICAS_MAX} replicas")
        for replica in replicas:
            if id(replica) not in checked:
                _check_replica(replica)
                checked.add(id(replica))
        if len({replica.node_id for replica in replicas}) != len(replicas):
            raise ShapeError(f"partition {partition} names a node twice")


def _pack_placement(rows: tuple[tuple[ReplicaId, ...], ...]) -> Any:
    """Pack every replica once, in ascending order, then the partitions by positions in that list."""
    objects = {id(replica): replica for replicas in rows for replica in replicas}
    table = sorted(set(objects.values()))
    ranks = {replica: place for place, replica in enumerate(table)}
    places = {identity: ranks[replica] for identity, replica in objects.items()}
    return [list(map(_REPLICA.pack, table)), [[places[id(replica)] for replica in replicas] for replicas in rows]]


def _unpack_placement(raw: Any) -> tuple[tuple[ReplicaId, ...], ...]:
    """Return the replicas of each partition from a packed placement. Raises `ShapeError`."""
    if type(raw) is not list or len(raw) != 2:
        raise ShapeError("a placement is a list of replicas and a list of partitions")
    table, rows = _unpack_each(raw[0], _unpack_replica), raw[1]
    places = range(len(table))

    def replicas(row: Any) -> tuple[ReplicaId, ...]:
        """Return the replica ids of one partition, by their numbers in the table. Raises `ShapeError`."""
        if type(row) is not list:
            raise ShapeError(f"{row!r} is not a list of places")
        if not all(type(place) is int and place in places for place in row):
            raise ShapeError(f"{row!r} names a place that is not there")
        return tuple(table[place] for place in row)

    return _unpack_each(rows, replicas)


def named(name: str, names: Shape[str], values: Shape[str], count_max: int) -> Shape[tuple[tuple[str, str], ...]]:
    """Return the shape of a tuple of pairs of name and value, in ascending order of the names."""

    def check(pairs: tuple[tuple[str, str], ...]) -> None:
        """Raise `ShapeError` unless the value is a tuple of pairs with ascending names, each once."""
        if type(pairs) is not tuple or len(pairs) > count_max:
            raise ShapeError(f"{pairs!r} is not a tuple of at most {count_max} {name}")
        for pair in pairs:
            if type(pair) is not tuple or len(pair) != 2:
                raise ShapeError(f"{pair!r} is not a name and a value")
            names.check(pair[0])
            values.check(pair[1])
        found = [key for key, _ in pairs]
        if found != sorted(set(found)):
            raise ShapeError(f"{found} are not in ascending order, each once")

    return Shape(name, check, lambda pairs: [list(pair) for pair in pairs], lambda raw: _unpack_each(raw, _unpack_pair))


def _unpack_pair(raw: Any) -> tuple[str, str]:
    """Return the name and value of a list of two. Raises `ShapeError`."""
    if type(raw) is not list or len(raw) != 2:
        raise ShapeError(f"{raw!r} is not a name and a value")
    return raw[0], raw[1]


_NODE_ID = whole("node id", 0, NODE_ID_MAX)
_REPLICA = Shape("replica", _check_replica, lambda value: [value.node_id, value.disk_uuid.bytes], _unpack_replica)
_NAME = text("name", 1, TEXT_BYTES_MAX)
_VALUE = text("text", 0, TEXT_BYTES_MAX)
_UUID = Shape("uuid", _check_uuid, lambda value: value.bytes, _unpack_uuid)
_FLAG = Shape("flag", _check_flag, lambda value: value, lambda raw: raw)
_NUMBER = whole("number", 0, NUMBER_MAX)
_SETTINGS = named("settings", _NAME, _VALUE, TEXT_BYTES_MAX)
_LISTENERS = named("listeners", text("name", 1, LISTENER_NAME_BYTES_MAX), _NAME, LISTENERS_MAX)

NodeNumber = Annotated[NodeId, _NODE_ID]
Id = Annotated[UUID, _UUID]
OptionalId = Annotated[UUID | None, optional(_UUID)]
Flag = Annotated[bool, _FLAG]
OptionalFlag = Annotated[bool | None, optional(_FLAG)]
Number = Annotated[int, _NUMBER]
IndexNumber = Annotated[Index, _NUMBER]
OptionalIndex = Annotated[Index | None, optional(_NUMBER)]
Name = Annotated[str, _NAME]
Text = Annotated[str, _VALUE]
Names = Annotated[tuple[str, ...], listing("names", _NAME, 0, TEXT_BYTES_MAX)]
Settings = Annotated[tuple[tuple[str, str], ...], _SETTINGS]
KafkaListeners = Annotated[tuple[tuple[str, str], ...], _LISTENERS, 2]
"""HOST:PORT of a broker's listeners by name. From feature level 2 on."""
Replicas = Annotated[tuple[ReplicaId, ...], listing("replicas", _REPLICA, 1, TEXT_BYTES_MAX)]
Placement = Annotated[
    tuple[tuple[ReplicaId, ...], ...], Shape("placement", _check_placement, _pack_placement, _unpack_placement)
]
FeatureLevel = Annotated[int, whole("feature level", 1, 65_535)]


class SchemaField(NamedTuple):
    """Field of a record.

    A field that was added later has a default, and its first feature level as second annotation: `Annotated[str,
    text("rack", 0, 255), 2] = ""`."""

    name: str
    shape: Shape[Any]
    default: Any
    level: int

    def is_left_out(self, record: Any) -> bool:
        """Return whether the record has the default of this field, so that the encoding can omit it."""
        return self.default is not MISSING and bool(getattr(record, self.name) == self.default)


class SchemaRecord:
    """Base of frozen dataclasses with annotated fields. Constructors raise `InvalidArgument` for a broken rule."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check the shape of all fields, then the rules between them. Raises `InvalidArgument`."""
        for field in schema_fields(type(self)):
            try:
                field.shape.check(getattr(self, field.name))
            except ShapeError as error:
                raise InvalidArgument(f"{type(self).__name__}: {field.name}: {error}") from None
        self.check_rules()

    def check_rules(self) -> None:
        """Raise `InvalidArgument` if fields contradict each other; subclasses override this check."""

    def pack(self) -> list[Any]:
        """Return the fields as values for MessagePack, without trailing fields that have their defaults."""
        wanted = schema_fields(type(self))
        count = len(wanted)
        while count and wanted[count - 1].is_left_out(self):
            count -= 1
        return [field.shape.pack(getattr(self, field.name)) for field in wanted[:count]]

    def level_needed(self) -> int:
        """Return the feature level that all replicas must support before these fields are written."""
        needed = FEATURE_LEVEL_FIRST
        for field in schema_fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, SchemaRecord):
                needed = max(needed, value.level_needed())
            if field.level > needed and not field.is_left_out(self):
                needed = field.level
        return needed

    @classmethod
    def unpack(cls, raw: Any) -> Self:
        """Return the record of these fields, with defaults for missing trailing ones. Raises `FormatError`.

        An unknown field is refused: a replica that ignored it would change its state."""
        wanted = schema_fields(cls)
        if type(raw) is not list:
            raise FormatError(f"{cls.__name__} cannot be read: it is no list")
        if len(raw) > len(wanted):
            raise FormatError(
                f"{cls.__name__} has {len(wanted)} fields in this release, and {len(raw)} here: run a newer release"
            )
        if len(raw) < len(wanted) and wanted[len(raw)].default is MISSING:
            raise FormatError(f"{cls.__name__} cannot be read: its field {wanted[len(raw)].name} is missing")
        try:
            return cls(*(field.shape.unpack(value) for field, value in zip(wanted, raw, strict=False)))
        except (ShapeError, InvalidArgument) as error:
            raise FormatError(f"{cls.__name__} cannot be read: {error}") from None


_FIELDS: dict[type[Any], tuple[SchemaField, ...]] = {}


def schema_fields(record: type[Any]) -> tuple[SchemaField, ...]:
    """Return the fields of a record, in their order."""
    found = _FIELDS.get(record)
    if found is None:
        notes = {name: hint.__metadata__ for name, hint in get_type_hints(record, include_extras=True).items()}
        found = _FIELDS[record] = tuple(
            SchemaField(field.name, notes[field.name][0], field.default, (*notes[field.name], FEATURE_LEVEL_FIRST)[1])
            for field in fields(record)
        )
    return found


R = TypeVar("R", bound=SchemaRecord)


def nested(record: type[R]) -> Shape[R]:
    """Return the shape of a record as a field of another one; a record was checked when it was made."""

    def check(value: R) -> None:
        """Raise `ShapeError` unless the value is a record of this class."""
        if type(value) is not record:
            raise ShapeError(f"{value!r} is not a {record.__name__}")

    return Shape(record.__name__, check, lambda value: value.pack(), record.unpack)


def settings_of(configs: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return settings as pairs in ascending order of their names."""
    return tuple(sorted(configs.items()))


def pack(value: object) -> bytes:
    """Pack lists, mappings, numbers, text, bytes and nil as MessagePack."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(body: Buffer, label: str, items_max: int) -> Any:
    """Return the values from the bytes of `pack`, with tuples as lists. Raises `FormatError` that names `label`.

    A list that claims to have more than `items_max` items is refused, because memory is allocated for the claimed
    number."""
    try:
        return msgpack.unpackb(body, max_array_len=items_max, max_map_len=items_max, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise FormatError(f"{label} of {len(body)} bytes cannot be read: {type(error).__name__}: {error}") from None
