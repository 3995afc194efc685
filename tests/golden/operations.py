"""Requests and answers of coordinator operations, made from their types with a value in each field."""

import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from raftlog.errors import RaftlogError, UnknownMember
from raftlog.partitions.consumers import operations as of_instances
from raftlog.partitions.consumers.results import MovedPosition, PollDelivery, RecordPiece
from raftlog.partitions.coordinator.operation import CoordinatorOperation, operations_of
from raftlog.partitions.groups import operations as of_groups
from raftlog.partitions.transactions import operations as of_transactions
from raftlog.types import Offset

OPERATIONS: tuple[CoordinatorOperation[Any, Any], ...] = (
    *operations_of(of_groups),
    *operations_of(of_instances),
    *operations_of(of_transactions),
)
_PLAIN: Mapping[Any, Any] = {
    int: 7,
    str: "text",
    bytes: b"bytes",
    bool: True,
    float: 1.5,
    UUID: UUID(int=7),
    Any: "anything",
    type(None): None,
    None: None,
}
DELIVERY = PollDelivery(
    "binary",
    [RecordPiece("t", 0, Offset(3), Offset(4), [b"batch"])],
    [MovedPosition("t", 1, 7, None, Offset(1), Offset(5))],
    40,
)


def make_value(kind: Any) -> Any:
    """Return a value of a type, always the same."""
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return make_value(arguments[0])
    if origin is tuple:
        return tuple(map(make_value, [each for each in arguments if each is not ...]))
    if origin is not None and issubclass(origin, Mapping):
        return {make_value(arguments[0]): make_value(arguments[1])}
    if origin is not None:
        return [make_value(arguments[0])]
    if issubclass(kind, RaftlogError):
        return UnknownMember("there is none")
    hints = get_type_hints(kind)
    return kind(*(make_value(hints[name]) for name in _field_names(kind)))


def _field_names(kind: Any) -> tuple[str, ...]:
    return kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else kind._fields


def make_answers(operation: CoordinatorOperation[Any, Any]) -> Iterator[Any]:
    """Yield an answer of each type that the operation can return, except nil."""
    if operation.name == "consumers.poll":
        yield DELIVERY
        return
    kind = operation._answer
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    yield from (make_value(each) for each in kinds if each is not type(None))
