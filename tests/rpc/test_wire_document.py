"""Section 15 of docs/FORMATS.md compared with the code: frames, handshake, Raft messages, errors."""

import hmac
import struct
import uuid

import msgpack  # type: ignore[import-untyped]  # it has no annotations
from crc32c import crc32c

from raftlog.cluster_secret import ClusterSecret
from raftlog.errors import NotLeader
from raftlog.raft import ReplicaId
from raftlog.raft.messages import Heartbeat
from raftlog.runtime.rpc.authentication import ProvingSide, credentials_of, encode_proof, transcript_of
from raftlog.runtime.rpc.calls import Answer, Call, encode_answer, encode_call, encode_failure
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.failures import _FIELDS
from raftlog.runtime.rpc.frames.codec import _LAYOUTS, encode_heartbeat, encode_turn
from raftlog.runtime.rpc.frames.frame import FRAME_VERSION, HEAD_SIZE, MAGIC, FrameKind
from raftlog.runtime.rpc.handshake import (
    BOOT_ID_SIZE,
    NONCE_SIZE,
    PROTOCOL_VERSION,
    REFUSAL_BYTES_MAX,
    TEXT_BYTES_MAX,
    Channel,
    HandshakeRefusal,
    Hello,
    PeerIdentity,
    Reason,
    encode_hello,
    encode_refusal,
    pack_hello,
    pack_refusal,
)
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_LEAST, Buffer, Index, NodeId, Term
from tests.layouts import DOCUMENT, read_layout, table_after

CONFIG = RpcConfig()
DISK = uuid.UUID(int=7)
SECTION = DOCUMENT.split("## 15. ")[1]
CODES = {"int32": "i", "int64": "q", "bool": "?", "uint32": "I"}


def decode_by_table(frame: list[Buffer]) -> tuple[FrameKind, list[object], bytes]:
    """Return kind, body and payload of a frame, decoded only by the document's table."""
    data = b"".join(frame)
    head = read_layout("rpc frame head")
    fields = head.decode(data)
    body_end = head.size + fields["body_length"]
    assert len(data) == body_end + fields["payload_length"]
    assert fields["crc"] == crc32c(data[head.size :], crc32c(data[: head.size - 4]))
    assert (fields["magic"], fields["version"], fields["reserved"]) == (MAGIC, FRAME_VERSION, 0)
    return FrameKind(fields["kind"]), msgpack.unpackb(data[head.size : body_end]), data[body_end:]


def test_numbers_in_the_text_match_the_code() -> None:
    assert read_layout("rpc frame head").size == HEAD_SIZE
    assert f"at most {CONFIG.frame_bytes_max >> 20} MiB, during the handshake" in SECTION
    assert f"at most {CONFIG.hello_bytes_max >> 10} KiB" in SECTION
    assert f"(at most {REFUSAL_BYTES_MAX:,} bytes)" in SECTION
    assert f"at most {CONFIG.header_bytes_max >> 20} MiB with at most {CONFIG.list_items_max:,} items" in SECTION


def test_kinds_and_reasons_match_the_code() -> None:
    kinds = {int(cells[0]): cells[1] for cells in table_after("frame kinds")}
    assert kinds == {kind.value: kind.name.lower() for kind in FrameKind}
    reasons = {int(cells[0]): cells[1] for cells in table_after("refusal reasons")}
    assert reasons == {reason.value: reason.name.lower() for reason in Reason}


def test_the_documented_handshake_matches_the_code() -> None:
    identity = PeerIdentity("c", NodeId(3), DISK, 4, 5, "host")
    hello = Hello(PROTOCOL_VERSION, Channel.BULK, bytes(BOOT_ID_SIZE), identity, bytes(NONCE_SIZE))
    kind, body, _ = decode_by_table(encode_hello(pack_hello(hello)))
    documented = [cells[0] for cells in table_after("hello fields")]
    assert documented == ["protocol_version", "channel", "boot_id", *PeerIdentity._fields, "nonce"]
    assert kind is FrameKind.HELLO
    assert body == [
        PROTOCOL_VERSION,
        2,
        bytes(BOOT_ID_SIZE),
        b"c",
        3,
        DISK.bytes,
        4,
        5,
        b"host",
        FEATURE_LEVEL_LEAST,
        FEATURE_LEVEL_KNOWN,
        b"",
        bytes(NONCE_SIZE),
    ]
    types = [cells[1] for cells in table_after("hello fields")]
    assert types.count(f"{BOOT_ID_SIZE} bytes") == types.count(f"{NONCE_SIZE} bytes") == 1
    assert f"at most {TEXT_BYTES_MAX}, as the cluster id" in SECTION
    channels = ", ".join(f"{channel.value} {channel.name}" for channel in Channel)
    assert f"| channel | number | {channels} |" in SECTION
    assert decode_by_table(encode_refusal(HandshakeRefusal(Reason.WRONG_DISK, "why", "c", True)))[:2] == (
        FrameKind.REFUSAL,
        [7, b"why", b"c", 1],
    )


def test_a_proof_can_be_computed_from_the_document() -> None:
    secret, connector, acceptor = b"s" * 32, b"one hello", b"another"
    refusal = pack_refusal(HandshakeRefusal(Reason.WRONG_DISK, "why", "c", True))
    key = hmac.digest(secret, b"raftlog rpc handshake 2", "sha256")
    transcript = struct.pack(">I", len(connector)) + connector + acceptor
    parts = (b"raftlog rpc handshake 2", b"acceptor", transcript, refusal)
    mac = hmac.digest(key, b"".join(struct.pack(">I", len(part)) + part for part in parts), "sha256")
    proof = credentials_of(ClusterSecret((secret,))).prove(
        ProvingSide.ACCEPTOR, transcript_of(connector, acceptor), refusal
    )
    assert decode_by_table(encode_proof(proof))[:2] == (FrameKind.PROOF, [mac, refusal])


def test_the_documented_beats_and_requests_match_the_code() -> None:
    assert decode_by_table(encode_heartbeat(ProcessHeartbeat(DISK, 4, 5)))[:2] == (FrameKind.BEAT, [DISK.bytes, 4, 5])
    sizes = b"\0\0\0\1\0\0\0\2"
    call = Call("data.produce", [b"t", 0], (b"a", b"bc"), 100)
    assert decode_by_table(encode_call(9, call, CONFIG)) == (
        FrameKind.CALL,
        [9, 100, "data.produce", [b"t", 0], sizes],
        b"abc",
    )
    assert decode_by_table(encode_answer(9, Answer(1, (b"a", b"bc")), CONFIG)) == (
        FrameKind.ANSWER,
        [9, 1, sizes],
        b"abc",
    )
    error = NotLeader("no", ReplicaId(NodeId(2), DISK))
    assert decode_by_table(encode_failure(9, error, CONFIG))[1] == [9, ["NotLeader", False, ["no", 2, DISK.bytes]]]


def test_errors_with_arguments_match_the_code() -> None:
    documented = {cells[0]: cells[1] for cells in table_after("error arguments")}
    assert documented.pop("NotLeader").startswith("message; if the leader is known, its node id and disk uuid")
    assert documented == {error.__name__: ", ".join(name for name, _ in fields) for error, fields in _FIELDS.items()}


def test_raft_messages_match_the_code() -> None:
    types = {name: text.partition(";")[0].split(", ") for name, text in table_after("raft types")}
    shapes = {"".join(CODES[part] for part in parts): name for name, parts in types.items()}
    documented = {int(cells[0]): (cells[1], cells[2]) for cells in table_after("raft messages")}
    expected = {}
    for each in _LAYOUTS:
        named = zip((shapes[shape] for shape in each.shapes), each.type._fields[2:], strict=True)
        text = ", ".join(kind if kind == field else f"{kind} {field}" for kind, field in named)
        expected[each.code] = (each.type.__name__, text)
    assert documented == expected


def test_a_row_can_be_encoded_from_the_document() -> None:
    group = bytes(range(16))
    me, you = ReplicaId(NodeId(3), DISK), ReplicaId(NodeId(4), uuid.UUID(int=8))
    beat = Heartbeat(me, you, Term(5), 6, Index(7))
    data = b"".join(encode_turn([Envelope(group, beat)]))[HEAD_SIZE:]
    replicas = struct.pack(">Hq16sq16s", 2, 3, DISK.bytes, 4, you.disk_uuid.bytes)
    assert data == replicas + struct.pack(">B16sHHiqq?qi?", 3, group, 0, 1, 5, 6, 7, False, 0, 0, False)
