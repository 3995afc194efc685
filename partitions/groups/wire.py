"""What travels between a node that is asked about a group and the group's coordinator, as plain lists.

docs/REPLICATION.md names the requests. They fit into a header; what may be large comes back as a payload. Both sides
are brokers of one cluster that know each other; what does not have its shape is refused all the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from raftlog.errors import InvalidArgument, OutcomeUnknown
from raftlog.partitions.groups.folded import Place
from raftlog.partitions.groups.records import OffsetRecord, Protocol
from raftlog.partitions.groups.requests import (
    GroupDescription,
    GroupHeartbeat,
    Join,
    Joined,
    JoinedMember,
    Leave,
    MemberDescription,
    MemberIdGiven,
    MemberToLeave,
    Sync,
    Synced,
)
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit
from raftlog.runtime.rpc import Answer, BadFrame
from raftlog.runtime.rpc.failures import as_fields, from_fields
from raftlog.runtime.rpc.packing import pack_value, unpack_value
from raftlog.types import Offset

PAYLOAD_BYTES_MAX: Final = 16 << 20
ITEMS_MAX: Final = 1 << 20
_T = TypeVar("_T")


def plain(value: Any) -> Any:
    """Tuples as lists, all the way down."""
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value


def malformed(what: str) -> InvalidArgument:
    return InvalidArgument(f"{what} that cannot be read; does the other broker run another release?")


def _made(make: type[_T], kinds: Sequence[type | tuple[type, ...]], fields: Any) -> _T:
    """A plain tuple type from a list of just these kinds."""
    if type(fields) is not list or len(fields) != len(kinds):
        raise malformed(f"a {make.__name__}")
    for field, kind in zip(fields, kinds, strict=True):
        if type(field) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise malformed(f"a {make.__name__}")
    return make(*fields)


_TEXT_OR_NONE: Final = (str, type(None))


def join_of(fields: Any) -> Join:
    kinds = (str, str, list, str, _TEXT_OR_NONE, str, str, int, int, bool, bool, bool)
    join = _made(Join, kinds, fields)
    return join._replace(protocols=tuple(_made(Protocol, (str, bytes), each) for each in join.protocols))


def joined_of(fields: Any) -> Joined | MemberIdGiven:
    if type(fields) is list and len(fields) == 1:
        return _made(MemberIdGiven, (str,), fields)
    joined = _made(Joined, (str, int, str, str, list, str, bool), fields)
    kinds = (str, _TEXT_OR_NONE, bytes)
    return joined._replace(members=tuple(_made(JoinedMember, kinds, each) for each in joined.members))


def sync_of(fields: Any) -> Sync:
    sync = _made(Sync, (str, str, int, _TEXT_OR_NONE, list, _TEXT_OR_NONE, _TEXT_OR_NONE), fields)
    pairs = [_made(Protocol, (str, bytes), each) for each in sync.assignments]
    return sync._replace(assignments=tuple((member_id, assignment) for member_id, assignment in pairs))


def synced_of(fields: Any) -> Synced:
    return _made(Synced, (bytes, int, str, str), fields)


def heartbeat_of(fields: Any) -> GroupHeartbeat:
    return _made(GroupHeartbeat, (str, str, int, _TEXT_OR_NONE, int), fields)


def leave_of(fields: Any) -> Leave:
    leave = _made(Leave, (str, list), fields)
    return leave._replace(members=tuple(_made(MemberToLeave, (str, _TEXT_OR_NONE), each) for each in leave.members))


def errors_to(errors: Iterable[Any]) -> list[Any]:
    """For each: nil, or the error."""
    return [None if error is None else as_fields(error) for error in errors]


def errors_of(fields: Any) -> list[Any]:
    return [None if each is None else from_fields(each) for each in fields]


def member_of(fields: Any) -> MemberIdentity | None:
    return None if fields is None else _made(MemberIdentity, (str, int, _TEXT_OR_NONE), fields)


# offsets by place


def offsets_to(offsets: Mapping[Place, tuple[Any, ...]]) -> list[Any]:
    """Rows of uuid, partition and the fields."""
    return [[topic_id.bytes, partition, *fields] for (topic_id, partition), fields in offsets.items()]


def commits_of(rows: Any) -> dict[Place, OffsetCommit]:
    return {
        place: OffsetCommit(Offset(offset), metadata, epoch)
        for place, (offset, metadata, epoch) in _by_place(rows, (int, str, int)).items()
    }


def records_of(rows: Any) -> dict[Place, OffsetRecord]:
    return {
        place: OffsetRecord(Offset(offset), epoch, metadata, committed_ms)
        for place, (offset, epoch, metadata, committed_ms) in _by_place(rows, (int, int, str, int)).items()
    }


def numbers_of(rows: Any) -> dict[Place, int]:
    return {place: int(offset) for place, (offset,) in _by_place(rows, (int,)).items()}


def _by_place(rows: Any, kinds: tuple[type, ...]) -> dict[Place, list[Any]]:
    found: dict[Place, list[Any]] = {}
    for row in rows if type(rows) is list else [rows]:
        match row:
            case [bytes(topic_id), int(partition), *fields] if len(topic_id) == 16:
                if tuple(map(type, fields)) == kinds:
                    found[UUID(bytes=topic_id), partition] = fields
                    continue
        raise malformed("an offset")
    return found


# descriptions


def description_of(fields: Any) -> GroupDescription:
    described = _made(GroupDescription, (str, str, str, str, int, str, list, int), fields)
    kinds = (str, _TEXT_OR_NONE, str, str, bytes, bytes)
    return described._replace(members=tuple(_made(MemberDescription, kinds, each) for each in described.members))


def large(value: Any) -> Answer:
    """An answer whose value travels as payload."""
    return Answer(None, (pack_value(value, PAYLOAD_BYTES_MAX, ITEMS_MAX),))


def value_of(answer: Answer) -> Any:
    """What `large` packed."""
    try:
        (piece,) = answer.payload
        return unpack_value(piece, ITEMS_MAX)
    except (ValueError, BadFrame):
        raise OutcomeUnknown("another broker answered something that cannot be read") from None
