"""Raft messages of one loop turn to one process, as one frame, and back.

    body:     [kinds, groups, replicas, part, part, …]
    kinds     a byte for each message, in their order; the same kinds in the same order come out
    groups    16 bytes for each message
    replicas  24 bytes for each replica that is named: node id, disk uuid
    parts     for each kind, in the order of first appearance, the columns of its fields (`columns`, `entries`)
    payload:  the batches of all entries

So a thousand heartbeats are a handful of byte strings, and nothing of a batch is copied into the body. Decoding checks
all that it relies on and raises `BadFrame` for the rest; a sender that is not the connection's node is wrong too.
Pure; called by connections.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final
from uuid import UUID

from raftlog.raft import Message, ReplicaId
from raftlog.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallOffer,
    InstallResponse,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
    Wake,
    WakeResponse,
)
from raftlog.runtime.rpc import entries
from raftlog.runtime.rpc.columns import (
    Column,
    Flag,
    Identity,
    Number,
    OptionalIdentity,
    OptionalNumber,
    pack_numbers,
    rows,
    unpack_numbers,
)
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frame import FrameKind, encode_frame
from raftlog.runtime.rpc.packing import pack_flat, unpack_flat
from raftlog.runtime.transport import Envelope, ProcessBeat
from raftlog.types import Buffer, NodeId

_TERM, _NUMBER, _FLAG, _ID = Number("i"), Number("q"), Flag(), Identity()
_GROUP = struct.Struct("16s")
_REPLICA = struct.Struct(">q16s")
_REPLICAS_KNOWN_MAX: Final = 4096
_REPLICAS_IN_FRAME_MAX: Final = 1 << 16
_PLACE_SIZE: Final = 2
_UUID_SIZE: Final = 16
_NUMBER_MAX: Final = (1 << 63) - 1


class _Layout:
    """How messages of one type travel: the columns of their fields behind `sender` and `to`."""

    __slots__ = ("code", "columns", "has_entries", "parts", "type")

    def __init__(self, code: int, message_type: Any, columns: tuple[Column, ...]) -> None:
        self.code, self.type, self.columns = code, message_type, columns
        self.has_entries = message_type is AppendRequest
        self.parts = 2 + sum(column.parts for column in columns) + (entries.PARTS if self.has_entries else 0)
        fields = 2 + len(columns) + self.has_entries
        assert len(message_type._fields) == fields, (
            f"{message_type.__name__} has other fields than its {fields} columns"
        )


_LAYOUTS: Final = (
    # The entries of an append stand behind its other fields; `_ENTRIES_FIELD` is their place.
    _Layout(1, AppendRequest, (_TERM, _NUMBER, _ID, _NUMBER, _FLAG)),
    _Layout(2, AppendResponse, (_TERM, _NUMBER, _FLAG, _NUMBER, _NUMBER, _NUMBER, OptionalIdentity())),
    _Layout(3, Heartbeat, (_TERM, _NUMBER, _NUMBER, OptionalIdentity(), _FLAG)),
    _Layout(4, HeartbeatResponse, (_TERM, _NUMBER, _NUMBER, _NUMBER, _FLAG, _FLAG)),
    _Layout(5, PreVoteRequest, (_TERM, _NUMBER, _TERM, _ID)),
    _Layout(6, PreVoteResponse, (_TERM, _NUMBER, _TERM, _FLAG)),
    _Layout(7, VoteRequest, (_TERM, _NUMBER, _ID, _FLAG)),
    _Layout(8, VoteResponse, (_TERM, _NUMBER, _FLAG)),
    _Layout(9, TimeoutNow, (_TERM,)),
    _Layout(10, ReadIndexRequest, (_TERM, _NUMBER)),
    _Layout(11, ReadIndexResponse, (_TERM, _NUMBER, OptionalNumber())),
    _Layout(12, InstallOffer, (_TERM, _NUMBER, _ID, _NUMBER)),
    _Layout(13, InstallResponse, (_TERM, _NUMBER, _ID, _FLAG, _NUMBER)),
    _Layout(14, Wake, (_TERM,)),
    _Layout(15, WakeResponse, (_TERM,)),
)
_PREVIOUS_FIELD: Final = AppendRequest._fields.index("previous")
_ENTRIES_FIELD: Final = AppendRequest._fields.index("entries")
_BY_CODE: Final = {layout.code: layout for layout in _LAYOUTS}
_CODES: Final = {layout.type: layout.code for layout in _LAYOUTS}
_PARTS_MAX: Final = 3 + sum(layout.parts for layout in _LAYOUTS)

ENVELOPE_BYTES: Final = 96
ENTRY_BYTES: Final = 8
"""A message takes at most the one, and each of its entries the other besides its batch."""


def size_of(envelope: Envelope) -> int:
    """The most that an envelope takes in a frame, in bytes."""
    message = envelope.message
    if type(message) is not AppendRequest:
        return ENVELOPE_BYTES
    size = ENVELOPE_BYTES
    for entry in message.entries:
        size += entry.size_bytes + ENTRY_BYTES
    return size


def encode_turn(envelopes: Sequence[Envelope]) -> list[Buffer]:
    """One frame with all these messages, in their order; there must be at least one."""
    groups, messages = zip(*envelopes, strict=True)
    kinds = bytes(map(_CODES.__getitem__, map(type, messages)))
    table: dict[ReplicaId, int] = {}
    parts: list[bytes] = []
    payload: Sequence[Buffer] = ()
    for code in dict.fromkeys(kinds):
        layout = _BY_CODE[code]
        is_only = kinds.count(code) == len(kinds)
        own = messages if is_only else [each for each, kind in zip(messages, kinds, strict=True) if kind == code]
        fields = list(zip(*own, strict=True))
        extra: list[bytes] = []
        if layout.has_entries:
            extra, payload = entries.pack_entries(fields[_PREVIOUS_FIELD], fields.pop(_ENTRIES_FIELD))
        parts.append(_pack_replicas(fields[0], table))
        parts.append(_pack_replicas(fields[1], table))
        for column, values in zip(layout.columns, fields[2:], strict=True):
            parts.extend(column.pack(values))
        parts.extend(extra)
    keys = b"".join(groups)
    assert len(keys) == _GROUP.size * len(groups), "a group's key has 16 bytes"
    replicas = b"".join(_REPLICA.pack(node_id, disk_uuid.bytes) for node_id, disk_uuid in table)
    return encode_frame(FrameKind.TURN, pack_flat([kinds, keys, replicas, *parts]), payload)


def _pack_replicas(values: Sequence[ReplicaId], table: dict[ReplicaId, int]) -> bytes:
    """Places in the table, two bytes each; a single one when all are the same, as they nearly always are."""
    first = values[0]
    if values.count(first) == len(values):
        values = (first,)
    return pack_numbers("H", [table.setdefault(replica, len(table)) for replica in values])


class TurnDecoder:
    """Turns frames back into messages. Replicas that it met before are the same objects again."""

    def __init__(self) -> None:
        self._replicas: dict[bytes, ReplicaId] = {}
        """At most `_REPLICAS_KNOWN_MAX`."""

    def decode(self, body: Buffer, payload: bytes | memoryview, node: NodeId) -> list[Envelope]:
        """The messages of a frame that came from `node`; raises `BadFrame`."""
        parts = unpack_flat(body, _PARTS_MAX)
        if len(parts) < 3 or set(map(type, parts)) != {bytes}:
            raise BadFrame("a turn of messages whose parts are not byte strings")
        kinds, keys, table = parts[0], parts[1], self._table(parts[2])
        codes = list(dict.fromkeys(kinds))
        layouts = [_BY_CODE[code] for code in codes if code in _BY_CODE]
        if not kinds or len(layouts) < len(codes) or len(parts) != 3 + sum(layout.parts for layout in layouts):
            raise BadFrame(f"a turn of {len(kinds)} messages in {len(parts)} parts that do not fit")
        if len(keys) != _GROUP.size * len(kinds):
            raise BadFrame(f"{len(kinds)} messages with {len(keys)} bytes of groups")
        if payload and _CODES[AppendRequest] not in codes:
            raise BadFrame(f"a payload of {len(payload)} bytes, and no append")
        at = 3
        by_code: dict[int, list[Message]] = {}
        for layout in layouts:
            own = parts[at : at + layout.parts]
            at += layout.parts
            by_code[layout.code] = _unpack_messages(layout, own, kinds.count(layout.code), table, payload, node)
        messages: Iterable[Message]
        if len(by_code) == 1:
            messages = by_code[codes[0]]
        else:
            rest = {code: iter(own) for code, own in by_code.items()}
            messages = map(next, map(rest.__getitem__, kinds))
        groups = chain.from_iterable(_GROUP.iter_unpack(keys))
        return list(rows(Envelope, zip(groups, messages, strict=True)))

    def _table(self, part: bytes) -> list[ReplicaId]:
        size = _REPLICA.size
        if len(part) % size or not part or len(part) > size * _REPLICAS_IN_FRAME_MAX:
            raise BadFrame(f"a table of replicas of {len(part)} bytes")
        return [self._replica(part[at : at + size]) for at in range(0, len(part), size)]

    def _replica(self, packed: bytes) -> ReplicaId:
        known = self._replicas.get(packed)
        if known is None:
            node_id, disk_uuid = _REPLICA.unpack(packed)
            if node_id < 0:
                raise BadFrame(f"a replica on node {node_id}")
            if len(self._replicas) >= _REPLICAS_KNOWN_MAX:
                self._replicas.clear()
            known = self._replicas[packed] = ReplicaId(NodeId(node_id), UUID(bytes=disk_uuid))
        return known


def _unpack_messages(
    layout: _Layout,
    parts: Sequence[bytes],
    count: int,
    table: Sequence[ReplicaId],
    payload: bytes | memoryview,
    node: NodeId,
) -> list[Message]:
    fields: list[Iterable[Any]] = [
        _unpack_replicas(parts[0], count, table, node),
        _unpack_replicas(parts[1], count, table),
    ]
    at = 2
    for column in layout.columns:
        fields.append(column.unpack(parts[at : at + column.parts], count))
        at += column.parts
    if layout.has_entries:
        previous = list(fields[_PREVIOUS_FIELD])
        fields[_PREVIOUS_FIELD] = previous
        fields.insert(_ENTRIES_FIELD, entries.unpack_entries(parts[at:], previous, count, payload))
    return list(rows(layout.type, zip(*fields, strict=True)))


def _unpack_replicas(
    part: bytes, count: int, table: Sequence[ReplicaId], node: NodeId | None = None
) -> Sequence[ReplicaId]:
    """Replicas of the table, all of them on `node` if that is given."""
    is_constant = len(part) == _PLACE_SIZE
    places = unpack_numbers("H", part, 1 if is_constant else count)
    if max(places) >= len(table):
        raise BadFrame(f"replica {max(places)} of a table of {len(table)}")
    if node is not None:
        for place in dict.fromkeys(places):
            if table[place].node_id != node:
                raise BadFrame(f"node {node} sends messages in the name of node {table[place].node_id}")
    replicas = [table[place] for place in places]
    return replicas * count if is_constant else replicas


def encode_beat(beat: ProcessBeat) -> list[Buffer]:
    """The heartbeat between two processes."""
    return encode_frame(FrameKind.BEAT, pack_flat([beat.disk_uuid.bytes, beat.boot_epoch, beat.journal_sequence]))


def decode_beat(body: Buffer) -> ProcessBeat:
    """Raises `BadFrame`."""
    match unpack_flat(body, len(ProcessBeat._fields)):
        case [bytes(disk_uuid), int(boot_epoch), int(journal_sequence)] if (
            len(disk_uuid) == _UUID_SIZE and _is_number(boot_epoch) and _is_number(journal_sequence)
        ):
            return ProcessBeat(UUID(bytes=disk_uuid), boot_epoch, journal_sequence)
    raise BadFrame("a heartbeat that cannot be read")


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _NUMBER_MAX
