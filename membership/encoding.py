"""The messages of gossip as bytes: msgpack lists, read strictly.

A payload is `[fingerprint of the cluster, message, …]`, a message `[kind, field, …]`; docs/MEMBERSHIP.md lists them.
Anything else (another kind, count, type or range, a byte too many) is a `FormatError` that says what was wrong; nothing
is guessed. Nobody calls this before the wire has proved who sent the bytes.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.errors import FormatError
from raftlog.membership.digest import BUCKETS
from raftlog.membership.member import (
    DESCRIPTION_BYTES_MAX,
    DISK_UUID_BYTES,
    HOST_BYTES_MAX,
    INCARNATION_MAX,
    About,
    Address,
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
"""In one payload; and entries, or node ids, in one message."""
FRAME_BYTES_MAX: Final = 262_144
"""A payload on a stream, at most."""
SEQUENCE_MAX: Final = 2**32 - 1
NODE_ID_MAX: Final = 2**31 - 1
AGE_S_MAX: Final = 2**32 - 1
HASH_MAX: Final = 2**64 - 1
PAYLOAD_OVERHEAD_BYTES: Final = 9
"""A payload's list header and fingerprint, at most."""
_BYTES_MAX: Final[Mapping[type[Message], int]] = {Ping: 30, Ack: 7, Nack: 7}

KINDS: Final[Mapping[type[Message], int]] = {
    Ping: 1,
    Ack: 2,
    Nack: 3,
    PingRequest: 4,
    Claim: 5,
    DigestRoot: 6,
    DigestBuckets: 7,
    DigestEntries: 8,
    ClaimRequest: 9,
}


def fingerprint(cluster_id: str) -> bytes:
    """4 bytes that keep two clusters' messages apart, whatever the wire checks."""
    return hashlib.blake2b(cluster_id.encode(), digest_size=4).digest()


def encode(cluster: bytes, messages: Iterable[Message]) -> bytes:
    """Return a payload; `cluster` is a `fingerprint`."""
    packed: bytes = msgpack.packb([cluster, *map(_listed, messages)])
    return packed


def _listed(message: Message) -> list[object]:
    if isinstance(message, Claim):
        return _listed_claim(message)
    return [KINDS[type(message)], *message]


def _listed_claim(claim: Claim) -> list[object]:
    listed: list[object] = [KINDS[Claim], *claim[:6]]
    if claim.about is not None:
        listed += (claim.about.incarnation, *claim.about.address, claim.about.description)
    return listed


def claim_bytes(claim: Claim) -> int:
    """Return the size of a claim in a payload."""
    return len(msgpack.packb(_listed_claim(claim)))


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
    return [_message(each) for each in listed[1:]]


def _message(listed: object) -> Message:
    if not isinstance(listed, list) or not listed or not _is_number(listed[0], 255):
        raise FormatError("gossip: a message is not a list that begins with its kind")
    read = _READERS.get(listed[0])
    if read is None:
        raise FormatError(f"gossip: unknown kind of message {listed[0]}")
    return read(listed[1:])


def _ping(fields: list[Any]) -> Ping:
    _expect("ping", fields, _sequence, _node_id, _disk_uuid)
    return Ping(*fields)


def _ack(fields: list[Any]) -> Ack:
    _expect("ack", fields, _sequence)
    return Ack(*fields)


def _nack(fields: list[Any]) -> Nack:
    _expect("nack", fields, _sequence)
    return Nack(*fields)


def _ping_request(fields: list[Any]) -> PingRequest:
    _expect("ping request", fields, _sequence, _node_id, _disk_uuid, _host, _port)
    return PingRequest(*fields)


def _claim(fields: list[Any]) -> Claim:
    about = None
    if len(fields) == len(_CLAIM) + len(_ABOUT):
        _expect("claim", fields, *_CLAIM, *_ABOUT)
        about = About(fields[6], Address(fields[7], fields[8]), fields[9])
    else:
        _expect("claim", fields, *_CLAIM)
    claim = Claim(NodeId(fields[0]), fields[1], fields[2], MemberState(fields[3]), NodeId(fields[4]), fields[5], about)
    if claim.state is MemberState.ALIVE and (about is None or about.incarnation != claim.incarnation):
        raise FormatError(
            "gossip: a claim that a member is alive does not say what it said of itself at that incarnation"
        )
    if about is not None and about.incarnation > claim.incarnation:
        raise FormatError("gossip: a claim is older than what it says of the member")
    return claim


def _digest_root(fields: list[Any]) -> DigestRoot:
    _expect("digest root", fields, _hash)
    return DigestRoot(*fields)


def _digest_buckets(fields: list[Any]) -> DigestBuckets:
    _expect("digest buckets", fields, lambda each: _is_list(each, _hash, BUCKETS) and len(each) == BUCKETS)
    return DigestBuckets(tuple(fields[0]))


def _digest_entries(fields: list[Any]) -> DigestEntries:
    _expect("digest entries", fields, lambda each: _is_list(each, _bucket, BUCKETS), _is_entries)
    return DigestEntries(tuple(fields[0]), tuple(DigestEntry(*each) for each in fields[1]))


def _wanted(fields: list[Any]) -> ClaimRequest:
    _expect("wanted", fields, lambda each: _is_list(each, _node_id, MESSAGES_MAX))
    return ClaimRequest(tuple(fields[0]))


def _expect(what: str, fields: list[Any], *checks: Callable[[Any], bool]) -> None:
    if len(fields) != len(checks):
        raise FormatError(f"gossip: a {what} has {len(fields)} fields; {len(checks)} were expected")
    for position, (field, check) in enumerate(zip(fields, checks, strict=True)):
        if not check(field):
            raise FormatError(f"gossip: field {position} of a {what} has the wrong type or is out of range")


def _is_number(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


def _is_list(value: object, check: Callable[[Any], bool], count_max: int) -> bool:
    return isinstance(value, list) and len(value) <= count_max and all(map(check, value))


def _is_entries(value: object) -> bool:
    return _is_list(value, _is_entry, MESSAGES_MAX)


def _is_entry(value: object) -> bool:
    checks = (_node_id, _incarnation, _state, _incarnation, _hash)
    return (
        isinstance(value, list)
        and len(value) == len(checks)
        and all(check(field) for check, field in zip(checks, value, strict=True))
    )


def _sequence(value: object) -> bool:
    return _is_number(value, SEQUENCE_MAX)


def _node_id(value: object) -> bool:
    return _is_number(value, NODE_ID_MAX)


def _incarnation(value: object) -> bool:
    return _is_number(value, INCARNATION_MAX)


def _state(value: object) -> bool:
    return _is_number(value, max(MemberState))


def _age_s(value: object) -> bool:
    return _is_number(value, AGE_S_MAX)


def _hash(value: object) -> bool:
    return _is_number(value, HASH_MAX)


def _bucket(value: object) -> bool:
    return _is_number(value, BUCKETS - 1)


def _port(value: object) -> bool:
    return _is_number(value, 65_535) and value != 0


def _host(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.encode("utf-8", "replace")) <= HOST_BYTES_MAX


def _disk_uuid(value: object) -> bool:
    return isinstance(value, bytes) and len(value) == DISK_UUID_BYTES


def _description(value: object) -> bool:
    return isinstance(value, bytes) and len(value) <= DESCRIPTION_BYTES_MAX


_CLAIM: Final = (_node_id, _disk_uuid, _incarnation, _state, _node_id, _age_s)
_ABOUT: Final = (_incarnation, _host, _port, _description)
_READERS: Final[Mapping[int, Callable[[list[Any]], Message]]] = {
    KINDS[Ping]: _ping,
    KINDS[Ack]: _ack,
    KINDS[Nack]: _nack,
    KINDS[PingRequest]: _ping_request,
    KINDS[Claim]: _claim,
    KINDS[DigestRoot]: _digest_root,
    KINDS[DigestBuckets]: _digest_buckets,
    KINDS[DigestEntries]: _digest_entries,
    KINDS[ClaimRequest]: _wanted,
}
