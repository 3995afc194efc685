"""Errors across a connection: an error of `raftlog.errors` in a remote operation is raised at its caller as well.

An error travels as its name, its outcome and its constructor's arguments. One that this version does not define becomes
`OutcomeUnknown` or `Unavailable`, by its outcome, so the caller concludes no more than the other side stated."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from raftlog import errors
from raftlog.errors import (
    CorruptBatch,
    JournalDamaged,
    NotAtBatchBorder,
    NotLeader,
    OffsetOutOfRange,
    OutcomeUnknown,
    RaftlogError,
    Unavailable,
    UndecodableBatch,
)
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.types import NodeId

MESSAGE_CHARACTERS_MAX: Final = 2_000
_FIELDS: Final[dict[type[RaftlogError], tuple[tuple[str, type], ...]]] = {
    OffsetOutOfRange: (("offset", int), ("first", int), ("end", int)),
    NotAtBatchBorder: (("offset", int), ("below", int), ("above", int)),
    CorruptBatch: (("file", str), ("position", int), ("offset", int), ("why", str)),
    JournalDamaged: (("file", str), ("position", int), ("why", str)),
    UndecodableBatch: (
        ("base_offset", int),
        ("offset", int),
        ("next_offset", int),
        ("why", str),
        ("topic", str),
        ("partition", int),
    ),
}
"""Errors whose constructors take more than a message."""


def _walk_subclasses(root: type[RaftlogError]) -> Iterator[type[RaftlogError]]:
    """Yield a class and all its subclasses, at any depth."""
    yield root
    for branch in root.__subclasses__():
        yield from _walk_subclasses(branch)


_BY_NAME: Final = {
    error.__name__: error for error in _walk_subclasses(RaftlogError) if error.__module__ == errors.__name__
}


def encode_error(error: RaftlogError) -> list[Any]:
    """Encode an error as a header value: name, whether its outcome is unknown, arguments."""
    name = _find_base_name(type(error))
    fields = _FIELDS.get(_BY_NAME[name])
    if fields is not None:
        return [name, error.outcome == "unknown", [getattr(error, field) for field, _ in fields]]
    arguments: list[Any] = [str(error)[:MESSAGE_CHARACTERS_MAX]]
    if isinstance(error, NotLeader) and isinstance(error.leader, ReplicaId):
        arguments += [error.leader.node_id, error.leader.disk_uuid.bytes]
    return [name, error.outcome == "unknown", arguments]


def decode_error(value: Any) -> RaftlogError:
    """Decode an error from a header value; raises `BadFrame` for any other value."""
    match value:
        case [str(name), bool(is_unknown), [*arguments], *_]:
            pass
        case _:
            raise BadFrame("a failure that cannot be read")
    error_type = _BY_NAME.get(name)
    if error_type is None or (error_type.outcome == "unknown") != is_unknown:
        error_type = OutcomeUnknown if is_unknown else Unavailable
    fields = _FIELDS.get(error_type)
    if fields is not None:
        known = arguments[: len(fields)]
        if tuple(map(type, known)) != tuple(wanted for _, wanted in fields):
            raise BadFrame(f"a failure {name} with other arguments than it has")
        return error_type(*known)
    message = " ".join(argument for argument in arguments if type(argument) is str)
    if error_type is NotLeader:
        return NotLeader(message, _decode_leader(arguments[1:]))
    return error_type(message)


def _find_base_name(error_type: type[RaftlogError]) -> str:
    """Return the name of the nearest base class that is in `raftlog.errors`.

    The other side does not have subclasses that are defined elsewhere."""
    return next(base.__name__ for base in error_type.__mro__ if base.__name__ in _BY_NAME)


def _decode_leader(arguments: list[Any]) -> ReplicaId | None:
    """Return the leader that a `NotLeader` names; None if it names none. Raises `BadFrame`."""
    match arguments:
        case []:
            return None
        case [int(node_id), bytes(disk_uuid), *_] if len(disk_uuid) == 16:
            return ReplicaId(NodeId(node_id), UUID(bytes=disk_uuid))
        case _:
            raise BadFrame("a failure NotLeader with a leader that cannot be read")
