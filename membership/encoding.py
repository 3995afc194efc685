"""The messages of gossip as bytes: msgpack lists, read strictly.

A payload is `[fingerprint of the cluster, message, …]`, a message `[kind, field, …]`; docs/MEMBERSHIP.md lists them.
Every deviation (unknown kind, wrong count, type or range, extra bytes) is a `FormatError` that names the problem.
Called only after the wire has authenticated the sender."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.errors import FormatError
from raftlog.membership.digest import BUCKETS
from raftlog.membership.member import (
    DESCRIPTION_BYTES_MAX,
    DISK_UUID_BYTES,
    HOST_BYTES_MAX,
    INCARNATION_MAX,
    Address,
    Announcement,
    Claim,
    MemberState,
)
from raftlog.membership.messages import (
    Ack,
    ClaimRequest,
    DigestBuckets,
    DigestEntries,
    DigestEntry,
    DigestRoot,
    Message,
    Nack,
    Ping,
    PingRequest,
)
from raftlog.types import NodeId

MESSAGES_MAX: Final = 8_192
"""Limit of messages in a payload, and of entries or node ids in a message."""
FRAME_BYTES_MAX: Final = 262_144
"""Largest payload on a stream."""
SEQUENCE_MAX: Final = 2**32 - 1
NODE_ID_MAX: Final = 2**31 - 1
AGE_S_MAX: Final = 2**32 - 1
HASH_MAX: Final = 2**64 - 1
PAYLOAD_OVERHEAD_BYTES: Final = 9
"""Largest size of a payload's list header and fingerprint."""
_BYTES_MAX: Final[Mapping[type[Message], int]] = {Ping: 30, Ack: 7, Nack: 7}

_Check: TypeAlias = Callable[[Any], bool]


def _number(most: int, least: int = 0) -> _Check:
    """Return a check for whole numbers within bounds."""
    return lambda value: type(value) is int and least <= value <= most


def _bytes(check: _Check) -> _Check:
    """Return a check for bytes whose length passes `check`."""
    return lambda value: isinstance(value, bytes) and check(len(value))


def _list(check: _Check, count_max: int = MESSAGES_MAX, count_min: int = 0) -> _Check:
    """Return a check for lists whose items all pass `check`."""
    return lambda value: isinstance(value, list) and count_min <= len(value) <= count_max and all(map(check, value))


def _is_host(value: object) -> bool:
    """Return whether a value is a host name of a valid length."""
    return isinstance(value, str) and 0 < len(value.encode("utf-8", "replace")) <= HOST_BYTES_MAX


def _is_entry(value: object) -> bool:
    """Return whether a value is a `DigestEntry` as a list."""
    checks = (_node_id, _incarnation, _state, _incarnation, _hash)
    return (
        isinstance(value, list)
        and len(value) == len(checks)
        and all(check(field) for check, field in zip(checks, value, strict=True))
    )


_kind = _number(255)
_sequence = _number(SEQUENCE_MAX)
_node_id = _number(NODE_ID_MAX)
_incarnation = _number(INCARNATION_MAX)
_state = _number(max(MemberState))
_hash = _number(HASH_MAX)
_port = _number(65_535, least=1)
_disk_uuid = _bytes(lambda size: size == DISK_UUID_BYTES)


def fingerprint(cluster_id: str) -> bytes:
    """Return 4 bytes that distinguish messages of different clusters, even if the wire does not check the cluster."""
    return hashlib.blake2b(cluster_id.encode(), digest_size=4).digest()


def encode(cluster: bytes, messages: Iterable[Message]) -> bytes:
    """Encode messages as a payload; `cluster` is a `fingerprint`."""
    packed: bytes = msgpack.packb([cluster, *map(_message_to_list, messages)])
    return packed


def _message_to_list(message: Message) -> list[object]:
    """Return a message as a list for msgpack."""
    if isinstance(message, Claim):
        return _claim_to_list(message)
    return [KINDS[type(message)], *message]


def _claim_to_list(claim: Claim) -> list[object]:
    """Return a claim as a list; the announcement is left out if there is none."""
    listed: list[object] = [KINDS[Claim], *claim[:6]]
    if claim.about is not None:
        listed += (claim.about.incarnation, *claim.about.address, claim.about.description)
    return listed


def claim_bytes(claim: Claim) -> int:
    """Return the size of a claim in a payload."""
    return len(msgpack.packb(_claim_to_list(claim)))


def message_bytes_max(message: Message) -> int:
    """Return the maximum size of a message in a datagram; exact for claims."""
    if isinstance(message, Claim):
        return claim_bytes(message)
    if isinstance(message, PingRequest):
        return _BYTES_MAX[Ping] + 5 + len(message.host.encode())
    return _BYTES_MAX[type(message)]


def payload_bytes_max(messages: Iterable[Message]) -> int:
    """Return the maximum total size of the messages of a datagram."""
    return PAYLOAD_OVERHEAD_BYTES + sum(map(message_bytes_max, messages))


def decode(payload: bytes, cluster: bytes) -> list[Message]:
    """Decode a payload; raise `FormatError` if it is malformed or of another cluster."""
    if len(payload) > FRAME_BYTES_MAX:
        raise FormatError(f"gossip: {len(payload):,} bytes of messages; at most {FRAME_BYTES_MAX:,} are read")
    try:
        listed = msgpack.unpackb(payload, use_list=True, strict_map_key=True, max_map_len=0, max_ext_len=0)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise FormatError(f"gossip: the messages are not msgpack: {error}") from error
    if not isinstance(listed, list) or not listed or len(listed) > MESSAGES_MAX + 1:
        raise FormatError("gossip: the messages are not a list")
    if listed[0] != cluster:
        raise FormatError("gossip: messages of another cluster")
    return [_message_from_list(each) for each in listed[1:]]


def _message_from_list(listed: object) -> Message:
    """Check and convert a decoded list. Raises `FormatError`."""
    if not isinstance(listed, list) or not listed or not _kind(listed[0]):
        raise FormatError("gossip: a message is not a list that begins with its kind")
    kind, *fields = listed
    form = _BY_KIND.get(kind)
    if form is None:
        raise FormatError(f"gossip: unknown kind of message {kind}")
    has_optional = len(fields) == len(form.checks) + len(form.rest)
    checks = (*form.checks, *form.rest) if has_optional else form.checks
    if len(fields) != len(checks):
        raise FormatError(f"gossip: a {form.name} has {len(fields)} fields; {len(checks)} were expected")
    for position, (field, check) in enumerate(zip(fields, checks, strict=True)):
        if not check(field):
            raise FormatError(f"gossip: field {position} of a {form.name} has the wrong type or is out of range")
    return form.make(*fields)


def _claim_from_fields(
    node_id: NodeId, disk_uuid: bytes, incarnation: int, state: int, by: NodeId, age_s: int, *announced: Any
) -> Claim:
    """Return the claim with these fields; `announced` are the fields of its announcement.

    The types are checked. Raises `FormatError` if the fields contradict each other."""
    about = Announcement(announced[0], Address(*announced[1:3]), announced[3]) if announced else None
    claim = Claim(node_id, disk_uuid, incarnation, MemberState(state), by, age_s, about)
    if claim.state is MemberState.ALIVE and (about is None or about.incarnation != incarnation):
        raise FormatError("gossip: a claim that a member is alive lacks its announcement at that incarnation")
    if about is not None and about.incarnation > incarnation:
        raise FormatError("gossip: a claim is older than its announcement of the member")
    return claim


def _build_entries(buckets: list[int], entries: list[Any]) -> DigestEntries:
    """Return the entries of digest buckets, from lists of msgpack."""
    return DigestEntries(tuple(buckets), tuple(DigestEntry(*each) for each in entries))


class _Form(NamedTuple):
    """Encoding of one kind of message: checks of its fields, and the function that builds the message."""

    kind: int
    name: str
    checks: tuple[_Check, ...]
    make: Callable[..., Message]
    rest: tuple[_Check, ...] = ()
    """Further fields: either all of them are present, or none."""


_FORMS: Final[Mapping[type[Message], _Form]] = {
    Ping: _Form(1, "ping", (_sequence, _node_id, _disk_uuid), Ping),
    Ack: _Form(2, "ack", (_sequence,), Ack),
    Nack: _Form(3, "nack", (_sequence,), Nack),
    PingRequest: _Form(4, "ping request", (_sequence, _node_id, _disk_uuid, _is_host, _port), PingRequest),
    Claim: _Form(
        5,
        "claim",
        (_node_id, _disk_uuid, _incarnation, _state, _node_id, _number(AGE_S_MAX)),
        _claim_from_fields,
        (_incarnation, _is_host, _port, _bytes(lambda size: size <= DESCRIPTION_BYTES_MAX)),
    ),
    DigestRoot: _Form(6, "digest root", (_hash,), DigestRoot),
    DigestBuckets: _Form(
        7, "digest buckets", (_list(_hash, BUCKETS, BUCKETS),), lambda buckets: DigestBuckets(tuple(buckets))
    ),
    DigestEntries: _Form(8, "digest entries", (_list(_number(BUCKETS - 1), BUCKETS), _list(_is_entry)), _build_entries),
    ClaimRequest: _Form(9, "wanted", (_list(_node_id),), lambda node_ids: ClaimRequest(tuple(node_ids))),
}
KINDS: Final[Mapping[type[Message], int]] = {message_type: form.kind for message_type, form in _FORMS.items()}
_BY_KIND: Final[Mapping[int, _Form]] = {form.kind: form for form in _FORMS.values()}
