"""Payload of a roll entry, with which every segment begins.

It makes a segment self-describing: its Raft group, its start, the Raft configuration and the topic settings in effect
there, and the log start when it was written. docs/FORMATS.md has the bytes."""

import struct
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from raftlog.errors import FormatError
from raftlog.types import intern_uuid

ROLL_VERSION = 1
_FIXED = struct.Struct(">B16sQQqqqQ")
_COUNT = struct.Struct(">H")
_MEMBER = struct.Struct(">I16s")


class RollMember(NamedTuple):
    """Replica in a roll: node id and disk uuid (a wiped disk is another member)."""

    node_id: int
    disk_uuid: uuid.UUID


class Roll(NamedTuple):
    """Content of a roll entry. Times in milliseconds; a lone log has term 0 and no members."""

    group_id: uuid.UUID
    base_index: int
    previous_term: int
    log_start_offset: int
    compacted_to: int
    created_ms: int
    configuration_index: int = 0
    voters: tuple[RollMember, ...] = ()
    learners: tuple[RollMember, ...] = ()
    outgoing_voters: tuple[RollMember, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


def encode_roll(roll: Roll) -> bytes:
    """Encode the payload of a roll; equal rolls give equal bytes on every replica, since settings are sorted."""
    parts = [
        _FIXED.pack(
            ROLL_VERSION,
            roll.group_id.bytes,
            roll.base_index,
            roll.previous_term,
            roll.log_start_offset,
            roll.compacted_to,
            roll.created_ms,
            roll.configuration_index,
        )
    ]
    for members in (roll.voters, roll.learners, roll.outgoing_voters):
        parts.append(encode_members(members))
    parts.append(_COUNT.pack(len(roll.settings)))
    for name, value in sorted(roll.settings):
        parts.append(_encode_text(name) + _encode_text(value))
    return b"".join(parts)


def decode_roll(payload: bytes) -> Roll:
    """Decode the payload of a roll; raises `FormatError` if it is short or of another version."""
    try:
        version, group_id, base_index, previous_term, log_start, compacted_to, created_ms, configuration_index = (
            _FIXED.unpack_from(payload)
        )
        if version != ROLL_VERSION:
            raise FormatError(f"roll entry of version {version}; this program reads version {ROLL_VERSION}")
        position = _FIXED.size
        voters, position = decode_members(payload, position)
        learners, position = decode_members(payload, position)
        outgoing, position = decode_members(payload, position)
        settings, position = _decode_settings(payload, position)
    except (struct.error, UnicodeDecodeError) as error:
        raise FormatError(f"roll entry of {len(payload)} bytes cannot be read: {error}") from None
    return Roll(
        uuid.UUID(bytes=group_id),
        base_index,
        previous_term,
        log_start,
        compacted_to,
        created_ms,
        configuration_index,
        voters,
        learners,
        outgoing,
        settings,
    )


def encode_members(members: Iterable[RollMember]) -> bytes:
    """Encode a list of members, in ascending order."""
    packed = [_MEMBER.pack(member.node_id, member.disk_uuid.bytes) for member in sorted(members)]
    return _COUNT.pack(len(packed)) + b"".join(packed)


def decode_members(payload: bytes, position: int) -> tuple[tuple[RollMember, ...], int]:
    """Decode the list of members at `position`; return it and the position after it. Raises `struct.error` if short."""
    (count,) = _COUNT.unpack_from(payload, position)
    position += _COUNT.size
    members = []
    for _ in range(count):
        node_id, disk_uuid = _MEMBER.unpack_from(payload, position)
        members.append(RollMember(node_id, intern_uuid(disk_uuid)))
        position += _MEMBER.size
    return tuple(members), position


def _encode_text(text: str) -> bytes:
    """Return the length and the UTF-8 bytes of a text."""
    encoded = text.encode()
    return _COUNT.pack(len(encoded)) + encoded


def _decode_settings(payload: bytes, position: int) -> tuple[tuple[tuple[str, str], ...], int]:
    """Decode the settings at `position`; return them and the position after them. Raises `struct.error` if short."""
    (count,) = _COUNT.unpack_from(payload, position)
    position += _COUNT.size
    texts = []
    for _ in range(2 * count):
        (length,) = _COUNT.unpack_from(payload, position)
        position += _COUNT.size
        if position + length > len(payload):
            raise struct.error("a setting ends too early")
        texts.append(payload[position : position + length].decode())
        position += length
    return tuple(zip(texts[::2], texts[1::2], strict=True)), position
