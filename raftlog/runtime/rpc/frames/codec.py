"""Raft messages of one loop turn to one process, as one frame, and back.

    body:     count (uint16), replicas, row, row, …
    replicas  24 bytes for each replica in the frame: node id, disk uuid
    row       kind, group, positions of sender and receiver among the replicas, then the fields of the message, all of
              fixed width; after an append's fields term and size of each of its entries
    payload:  the batches of all entries

Most turns carry one message or two, so the cost of a single one counts: a row is packed and unpacked in one
call of `struct`, and nothing of a batch is copied into the body. Decoding checks all its input and raises
`BadFrame`, even for a sender that is not the connection's node and disk. Pure; called by connections."""

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from raftlog.raft import EntryId, Message, ReplicaId
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
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.entries import ENTRY_BYTES, EntriesReader, pack_entries
from raftlog.runtime.rpc.frames.frame import FrameKind, encode_frame
from raftlog.runtime.rpc.frames.packing import pack_flat, unpack_flat
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import Buffer, NodeId, intern_uuid

_COUNT = struct.Struct(">H")
_REPLICA = struct.Struct(">q16s")
_REPLICAS_KNOWN_MAX: Final = 4096
_UUID_SIZE: Final = 16
_NUMBER_MAX: Final = (1 << 63) - 1


_HEAD: Final = ">B16sHH"
_SCALARS: Final = frozenset("iq?")
_NO_NUMBER: Final = (False, 0)
_NO_IDENTITY: Final = (False, 0, 0)


class _Layout:
    """Layout of messages of one type: the shapes of the fields after `sender` and `to`, in their order.

    i  term      q  number      ?  flag      qi  index and term      I  number of entries that follow the row
    ?q, ?qi  the same or None: then the flag is off, and the numbers are 0"""

    __slots__ = ("code", "composite", "is_append", "is_plain", "row", "shapes", "type")

    def __init__(self, code: int, message_type: Any, shapes: str) -> None:
        """Describe the row of a message type; `shapes` has the struct code of each field."""
        self.code, self.type, self.shapes = code, message_type, tuple(shapes.split())
        ends = accumulate(map(len, self.shapes), initial=0)
        places = zip(ends, self.shapes, strict=False)  # there is one end more
        composite = [(field, at, shape) for field, (at, shape) in enumerate(places) if shape not in _SCALARS]
        self.composite = tuple(reversed(composite))
        """Fields that are converted, last one first: place among the fields, place among the values, shape."""
        self.is_plain = not composite
        """Whether the fields are the row's values without conversion."""
        self.is_append = message_type is AppendRequest
        self.row = struct.Struct(_HEAD + "".join(self.shapes))
        assert len(message_type._fields) == 2 + len(self.shapes), f"{message_type.__name__} has other fields"


_LAYOUTS: Final = (
    _Layout(1, AppendRequest, "i q qi I q ?"),
    _Layout(2, AppendResponse, "i q ? q q q ?qi"),
    _Layout(3, Heartbeat, "i q q ?qi ?"),
    _Layout(4, HeartbeatResponse, "i q q q ? ?"),
    _Layout(5, PreVoteRequest, "i q i qi"),
    _Layout(6, PreVoteResponse, "i q i ?"),
    _Layout(7, VoteRequest, "i q qi ?"),
    _Layout(8, VoteResponse, "i q ?"),
    _Layout(9, TimeoutNow, "i"),
    _Layout(10, ReadIndexRequest, "i q"),
    _Layout(11, ReadIndexResponse, "i q ?q"),
    _Layout(12, InstallOffer, "i q qi q"),
    _Layout(13, InstallResponse, "i q qi ? q"),
    _Layout(14, Wake, "i"),
    _Layout(15, WakeResponse, "i"),
)
_BY_CODE: Final = {layout.code: layout for layout in _LAYOUTS}
_BY_TYPE: Final = {layout.type: layout for layout in _LAYOUTS}
MESSAGE_TYPES: Final[tuple[Any, ...]] = tuple(_BY_TYPE)
_PREVIOUS_AT: Final = AppendRequest._fields.index("previous")
_ENTRIES_AT: Final = AppendRequest._fields.index("entries")

ENVELOPE_BYTES: Final = _REPLICA.size * 2 + max(layout.row.size for layout in _LAYOUTS)
"""Maximum size of a message without its entries."""


def size_of(envelope: Envelope) -> int:
    """Return an upper bound of an envelope's size in a frame, in bytes."""
    message = envelope.message
    if type(message) is not AppendRequest:
        return ENVELOPE_BYTES
    size = ENVELOPE_BYTES
    for entry in message.entries:
        size += entry.size_bytes + ENTRY_BYTES
    return size


# packing


def encode_turn(envelopes: Sequence[Envelope]) -> list[Buffer]:
    """Return one frame with all these messages, at least one, in their order."""
    table: dict[int, int] = {}
    """Places in `replicas` by object identity: equal ids are normally one object, and hashing a UUID is slow."""
    replicas: list[ReplicaId] = []
    sender: ReplicaId | None = None
    to: ReplicaId | None = None
    pair: tuple[int, int] = (0, 0)
    rows: list[bytes] = []
    payload: list[Buffer] = []
    for key, message in envelopes:
        if message.sender is not sender or message.to is not to:
            sender, to = message.sender, message.to
            for replica in (sender, to):
                if id(replica) not in table:
                    table[id(replica)] = len(replicas)
                    replicas.append(replica)
            pair = table[id(sender)], table[id(to)]
        layout = _BY_TYPE[type(message)]
        values = message[2:] if layout.is_plain else _to_row_values(layout, message)
        rows.append(layout.row.pack(layout.code, key, *pair, *values))
        if layout.is_append:
            pack_entries(message, rows, payload)  # type: ignore[arg-type]  # its layout says what it is
    packed = [_REPLICA.pack(node_id, disk_uuid.bytes) for node_id, disk_uuid in replicas]
    return encode_frame(FrameKind.TURN, b"".join((_COUNT.pack(len(packed)), *packed, *rows)), payload)


def _to_row_values(layout: _Layout, message: Message) -> Sequence[Any]:
    """Return the message's fields after `sender` and `to` as values for the row's `struct`."""
    values: list[Any] = [*message[2:]]
    for field, _, shape in layout.composite:
        value = values[field]
        if shape == "I":
            values[field] = len(value)
        elif shape == "qi":
            values[field : field + 1] = value
        elif value is None:
            values[field : field + 1] = _NO_NUMBER if shape == "?q" else _NO_IDENTITY
        else:
            values[field : field + 1] = (True, value) if shape == "?q" else (True, *value)
    return values


# unpacking


class TurnDecoder:
    """Decoder of frames with Raft messages. For equal replica ids it returns the same object."""

    def __init__(self) -> None:
        self._replicas: dict[bytes, ReplicaId] = {}
        """Decoded replicas by their bytes; at most `_REPLICAS_KNOWN_MAX`."""

    def decode(self, body: Buffer, payload: bytes | memoryview, peer: ReplicaId) -> list[Envelope]:
        """Return the messages of a frame that came from `peer`; raise `BadFrame`."""
        try:
            return self._decode(body, payload, peer)
        except (struct.error, LookupError) as error:
            raise BadFrame(f"a turn of {len(body)} bytes cannot be read: {error}") from None

    def _decode(self, body: Buffer, payload: bytes | memoryview, peer: ReplicaId) -> list[Envelope]:
        """Return the messages of a frame. Raises `BadFrame` for invalid numbers or a foreign sender."""
        (count,) = _COUNT.unpack_from(body)
        at = _COUNT.size + count * _REPLICA.size
        replicas = [
            self._decode_replica(bytes(body[start : start + _REPLICA.size])) for start in range(2, at, _REPLICA.size)
        ]
        reader = EntriesReader(payload)
        envelopes = []
        size = len(body)
        while at < size:
            layout = _BY_CODE[body[at]]
            _, key, sender_at, to_at, *values = layout.row.unpack_from(body, at)
            at += layout.row.size
            if min(values) < 0:
                raise BadFrame(f"a {layout.type.__name__} with the number {min(values)}")
            sender = replicas[sender_at]
            if sender is not peer and sender != peer:
                raise BadFrame(f"{peer} sends messages in the name of {sender}")
            fields = [sender, replicas[to_at], *(values if layout.is_plain else _from_row_values(layout, values))]
            if layout.is_append:
                entries = reader.take(body, at, fields[_PREVIOUS_AT].index, fields[_ENTRIES_AT])
                at += ENTRY_BYTES * len(entries)
                fields[_ENTRIES_AT] = entries
            envelopes.append(Envelope(key, layout.type._make(fields)))
        reader.check_end()
        if not envelopes:
            raise BadFrame("a turn without messages")
        return envelopes

    def _decode_replica(self, packed: bytes) -> ReplicaId:
        """Return the replica that is encoded in 24 bytes. Raises `BadFrame` for a negative node id."""
        known = self._replicas.get(packed)
        if known is None:
            node_id, disk_uuid = _REPLICA.unpack(packed)
            if node_id < 0:
                raise BadFrame(f"a replica on node {node_id}")
            if len(self._replicas) >= _REPLICAS_KNOWN_MAX:
                self._replicas.clear()
            known = self._replicas[packed] = ReplicaId(NodeId(node_id), intern_uuid(disk_uuid))
        return known


def _from_row_values(layout: _Layout, values: list[Any]) -> list[Any]:
    """Return the fields of a message from the numbers in its row, which are changed in place."""
    for _, at, shape in layout.composite:
        if shape == "qi":
            values[at : at + 2] = (EntryId(values[at], values[at + 1]),)
        elif shape == "?qi":
            values[at : at + 3] = (EntryId(values[at + 1], values[at + 2]) if values[at] else None,)
        elif shape == "?q":
            values[at : at + 2] = (values[at + 1] if values[at] else None,)
    return values


def encode_heartbeat(heartbeat: ProcessHeartbeat) -> list[Buffer]:
    """Return the frame of a heartbeat between two processes."""
    return encode_frame(
        FrameKind.BEAT, pack_flat([heartbeat.disk_uuid.bytes, heartbeat.boot_epoch, heartbeat.journal_sequence])
    )


def decode_heartbeat(body: Buffer) -> ProcessHeartbeat:
    """Return the heartbeat in a frame's body; raises `BadFrame`."""
    match unpack_flat(body, len(ProcessHeartbeat._fields)):
        case [bytes(disk_uuid), int(boot_epoch), int(journal_sequence)] if (
            len(disk_uuid) == _UUID_SIZE and _is_number(boot_epoch) and _is_number(journal_sequence)
        ):
            return ProcessHeartbeat(intern_uuid(disk_uuid), boot_epoch, journal_sequence)
    raise BadFrame("a heartbeat that cannot be read")


def _is_number(value: object) -> bool:
    """Return whether the value is a number that fits its field."""
    return type(value) is int and 0 <= value <= _NUMBER_MAX
