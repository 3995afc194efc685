"""Messages of a turn encoded to a frame and decoded, and refusal of all other input."""

import struct
import tracemalloc
import uuid
from typing import Any, get_args

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.raft import Entry, EntryId, EntryKind, Message, ReplicaId
from raftlog.raft.messages import AppendRequest
from raftlog.runtime.log.control_entries import build_no_op_batch
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.endpoint import bounds_of_callers
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.codec import TurnDecoder, decode_heartbeat, encode_heartbeat, encode_turn, size_of
from raftlog.runtime.rpc.frames.frame import (
    CHECKED_SIZE,
    FRAME_VERSION,
    HEAD_SIZE,
    Frame,
    FrameKind,
    FrameReader,
    encode_frame,
)
from raftlog.runtime.rpc.frames.packing import pack_flat
from raftlog.runtime.rpc.handshake import Channel
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.topic_config import MIB
from raftlog.types import Buffer, Index, NodeId, Term
from tests.rpc.messages import BY_TYPE, ME, RECEIVERS, append, heartbeat, turns, turns_of

DISK = uuid.UUID(int=1)
CONFIG = RpcConfig(read_buffer_bytes=4096)


def join_buffers(buffers: list[Any]) -> bytes:
    return b"".join(buffers)


def read_frames(data: bytes, chunk: int = 1 << 20) -> list[Frame]:
    """Return the frames that a reader decodes from the bytes in pieces of at most `chunk`."""
    reader = FrameReader(bounds_of_callers(CONFIG, Channel.RAFT), CONFIG.read_buffer_bytes)
    found = []
    at = 0
    while at < len(data):
        if reader.missing_room:
            reader.grow()
        buffer = reader.get_buffer()
        size = min(len(buffer), chunk, len(data) - at)
        buffer[:size] = data[at : at + size]
        reader.advance(size)
        at += size
        while (frame := reader.next_frame()) is not None:
            found.append(Frame(frame.kind, memoryview(bytes(frame.body)), frame.payload))
    return found


def decode_one(data: bytes, chunk: int = 1 << 20) -> list[Envelope]:
    (frame,) = read_frames(data, chunk)
    assert frame.kind is FrameKind.TURN
    return TurnDecoder().decode(frame.body, frame.payload, ME)


def seal(data: bytearray) -> bytes:
    """Return the data with a matching CRC."""
    crc = crc32c(bytes(data[HEAD_SIZE:]), crc32c(bytes(data[:CHECKED_SIZE])))
    struct.pack_into(">I", data, CHECKED_SIZE, crc)
    return bytes(data)


def check_decoded_or_refused(body: Buffer, payload: Any) -> None:
    """Check that decoding raises only `BadFrame`, or returns envelopes that can be encoded."""
    try:
        found = TurnDecoder().decode(body, payload, ME)
    except BadFrame:
        return
    assert decode_one(join_buffers(encode_turn(found))) == found


def test_every_message_type_is_drawn() -> None:
    assert set(BY_TYPE) == set(get_args(Message))


@pytest.mark.parametrize("message_type", BY_TYPE, ids=lambda message_type: message_type.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_round_trip_of_every_type(message_type: type, data: st.DataObject) -> None:
    envelopes = data.draw(turns_of(message_type))
    encoded = join_buffers(encode_turn(envelopes))
    assert decode_one(encoded) == envelopes
    assert len(encoded) - HEAD_SIZE <= sum(map(size_of, envelopes)) + 256, "the estimate is an upper bound"


@settings(max_examples=40)
@given(turns, st.integers(1, 5000))
def test_round_trip_of_mixed_turns_in_any_pieces(envelopes: list[Envelope], chunk: int) -> None:
    result = decode_one(join_buffers(encode_turn(envelopes)), chunk)
    assert result == envelopes
    assert [type(each.message) for each in result] == [type(each.message) for each in envelopes]
    for each in result:
        assert type(each) is Envelope
        if isinstance(each.message, AppendRequest):
            assert all(len(entry.payload) == entry.size_bytes for entry in each.message.entries)


def test_several_frames_of_one_read_are_decoded() -> None:
    turn, beat = join_buffers(encode_turn([heartbeat(1)])), join_buffers(encode_heartbeat(ProcessHeartbeat(DISK, 3, 4)))
    found = read_frames(beat + turn + turn + beat)
    assert [frame.kind for frame in found] == [FrameKind.BEAT, FrameKind.TURN, FrameKind.TURN, FrameKind.BEAT]
    assert decode_heartbeat(found[0].body) == ProcessHeartbeat(DISK, 3, 4)


def test_large_batches_are_written_without_a_copy() -> None:
    envelope = append(7, 100_000, 10)
    assert isinstance(envelope.message, AppendRequest)
    buffers = encode_turn([envelope])
    assert any(buffer is envelope.message.entries[0].payload for buffer in buffers)
    assert decode_one(join_buffers(buffers)) == [envelope]


def test_a_small_batch_does_not_keep_a_large_frame_alive() -> None:
    (received,) = decode_one(join_buffers(encode_turn([append(7, 100_000, 10)])))
    assert isinstance(received.message, AppendRequest)
    large, small = (entry.payload for entry in received.message.entries)
    assert isinstance(large, memoryview)
    assert isinstance(small, bytes)


@pytest.mark.parametrize("peer", [ME._replace(node_id=NodeId(2)), ME._replace(disk_uuid=uuid.UUID(int=9))])
def test_messages_in_the_name_of_another_node_or_disk_are_refused(peer: ReplicaId) -> None:
    (frame,) = read_frames(join_buffers(encode_turn([heartbeat(1)])))
    with pytest.raises(BadFrame, match=f"{peer} sends messages in the name of {ME}"):
        TurnDecoder().decode(frame.body, frame.payload, peer)


def test_entries_whose_terms_fall_are_refused() -> None:
    envelope = append(7, 10, 10)
    assert isinstance(envelope.message, AppendRequest)
    first, second = envelope.message.entries
    fallen = envelope.message._replace(entries=(first, second._replace(term=Term(first.term - 1))))
    with pytest.raises(BadFrame, match="after term 5"):
        decode_one(join_buffers(encode_turn([Envelope(envelope.group, fallen)])))


@pytest.mark.parametrize("codec", range(1, 8))
def test_a_compressed_control_batch_is_refused_before_decompression(codec: int) -> None:
    """Some KiB on the wire could decompress to hundreds of MiB."""
    batch = bytearray(build_no_op_batch(1_000))
    batch[22] |= codec
    entry = Entry(Index(8), Term(5), EntryKind.NO_OP, len(batch), bytes(batch))
    message = AppendRequest(ME, RECEIVERS[0], Term(5), 1, EntryId(Index(7), Term(5)), (entry,), Index(7))
    with pytest.raises(BadFrame, match="is compressed"):
        decode_one(join_buffers(encode_turn([Envelope(bytes(16), message)])))


@settings(max_examples=80)
@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_raise_only_bad_frame(data: bytes, has_head: bool) -> None:
    """Random bytes are sent as a stream, and as the body of an otherwise valid frame."""
    stream = join_buffers(encode_frame(FrameKind.TURN, data)) if has_head else data
    try:
        for frame in read_frames(stream):
            TurnDecoder().decode(frame.body, frame.payload, ME)
    except BadFrame:
        return
    assert not has_head or not data


@settings(max_examples=80)
@given(turns, st.data())
def test_a_changed_byte_is_detected_by_the_checksum(envelopes: list[Envelope], data: st.DataObject) -> None:
    encoded = bytearray(join_buffers(encode_turn(envelopes)))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    try:
        found = read_frames(bytes(encoded))
    except BadFrame:
        return
    assert not found, "a frame that waits for more bytes, because its length was changed"


@settings(max_examples=160)
@given(turns, st.data())
def test_mutated_frames_with_a_valid_checksum_raise_only_bad_frame(
    envelopes: list[Envelope], data: st.DataObject
) -> None:
    """A hostile or faulty peer can send such frames."""
    encoded = bytearray(join_buffers(encode_turn(envelopes)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEAD_SIZE, len(encoded) - 1))
        encoded[at] = data.draw(st.integers(0, 255))
    (frame,) = read_frames(seal(encoded))
    check_decoded_or_refused(frame.body, frame.payload)


@settings(max_examples=120)
@given(turns, st.data())
def test_bodies_with_replaced_bytes_raise_only_bad_frame(envelopes: list[Envelope], data: st.DataObject) -> None:
    (frame,) = read_frames(join_buffers(encode_turn(envelopes)))
    body = bytearray(frame.body)
    at = data.draw(st.integers(0, len(body)))
    body[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    check_decoded_or_refused(bytes(body), frame.payload)


def test_a_truncated_body_is_refused_or_has_whole_messages() -> None:
    envelopes = [heartbeat(1), append(7, 100, 200), heartbeat(2)]
    (frame,) = read_frames(join_buffers(encode_turn(envelopes)))
    whole = []
    for size in range(len(frame.body)):
        try:
            whole.append(TurnDecoder().decode(frame.body[:size], frame.payload, ME))
        except BadFrame:
            continue
    assert whole == [envelopes[:2]]


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff",
        b"\xff\xff" + bytes(24),
        b"\x00\x01" + bytes(24) + b"\x01" + bytes(16 + 4 + 4 + 8 + 12) + b"\xff\xff\xff\xff" + bytes(9),
        b"",
    ],
    ids=["replicas", "replicas but one", "entries", "nothing"],
)
def test_claimed_lengths_allocate_nothing(body: bytes) -> None:
    frame = join_buffers(encode_frame(FrameKind.TURN, body))
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame):
            decode_one(frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB


@pytest.mark.parametrize(
    ("kind", "body_size", "payload_size"),
    [(3, 2**32 - 1, 0), (3, 0, 2**32 - 1), (4, 5000, 0), (1, 10, 0), (99, 10, 0), (5, 2 * MIB, 0), (6, 10, 0)],
)
def test_heads_out_of_bounds_are_refused(kind: int, body_size: int, payload_size: int) -> None:
    head = struct.pack(">4sBBHIII", b"RLOG", FRAME_VERSION, kind, 0, body_size, payload_size, 0)
    with pytest.raises(BadFrame):
        read_frames(head)


def test_the_first_byte_reveals_another_protocol() -> None:
    with pytest.raises(BadFrame):
        read_frames(b"G")
    with pytest.raises(BadFrame):
        read_frames(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(BadFrame, match="layout 3"):
        read_frames(b"RLOG\x03" + bytes(15))


@pytest.mark.parametrize(
    "parts",
    [
        [DISK.bytes, 1],
        [DISK.bytes, 1, 2, 3],
        [DISK.bytes, -1, 2],
        [DISK.bytes, 1, 2**63],
        [1, 1, 2],
        [b"1", 1, 2],
        [None] * 3,
    ],
)
def test_invalid_beats_are_refused(parts: list[Any]) -> None:
    with pytest.raises(BadFrame):
        decode_heartbeat(pack_flat(parts))
