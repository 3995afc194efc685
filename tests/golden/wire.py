"""Samples of messages between brokers; see `frames`."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from raftlog.errors import (
    CorruptBatch,
    JournalDamaged,
    NotAtBatchBorder,
    NotLeader,
    OffsetOutOfRange,
    Overloaded,
    RaftlogError,
    UndecodableBatch,
)
from raftlog.raft import Entry, EntryId, EntryKind, ReplicaId, messages
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.rpc.authentication import Proof, decode_proof, encode_proof
from raftlog.runtime.rpc.calls import (
    Answer,
    Call,
    decode_answer,
    decode_call,
    encode_answer,
    encode_call,
    encode_failure,
)
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.frames.bulk_codec import answer_of, call_of, request_of, result_of
from raftlog.runtime.rpc.frames.codec import TurnDecoder, decode_heartbeat, encode_heartbeat, encode_turn
from raftlog.runtime.rpc.frames.frame import HEAD_SIZE, Frame, FrameKind
from raftlog.runtime.rpc.handshake import (
    BOOT_ID_SIZE,
    NONCE_SIZE,
    PROTOCOL_VERSION,
    Channel,
    HandshakeRefusal,
    Hello,
    PeerIdentity,
    Reason,
    decode_hello,
    decode_refusal,
    encode_hello,
    encode_refusal,
    pack_hello,
)
from raftlog.runtime.transfer import bulk
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import Buffer, Index, NodeId, Offset, Term
from tests.controller.machine.fleet import disk_uuid
from tests.golden.operations import OPERATIONS, make_answers, make_value
from tests.golden.requests import REQUESTS, make_plain

CONFIG = RpcConfig()
GROUP = uuid.UUID(int=5)
ME, OTHER = ReplicaId(NodeId(1), disk_uuid(1)), ReplicaId(NodeId(2), disk_uuid(2))
LAST = EntryId(Index(6), Term(2))
BATCH = bytes(build_batch([NewRecord(b"value", b"key", 1_700_000_000_000)]))


class Sample(NamedTuple):
    """Format with a value whose encoded bytes are `encode(value)`; `encode(decode(bytes))` returns the same bytes."""

    name: str
    value: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _join(buffers: Sequence[Buffer]) -> bytes:
    return b"".join(buffers)


def _body_of(data: bytes) -> bytes:
    return data[HEAD_SIZE : HEAD_SIZE + int.from_bytes(data[8:12])]


def _make_frame(data: bytes, kind: FrameKind) -> Frame:
    body = _body_of(data)
    return Frame(kind, memoryview(body), data[HEAD_SIZE + len(body) :])


ERRORS: Sequence[RaftlogError] = (
    Overloaded("too much"),
    NotLeader("elsewhere"),
    NotLeader("there", OTHER),
    OffsetOutOfRange(Offset(1), Offset(2), Offset(3)),
    NotAtBatchBorder(Offset(2), Offset(1), Offset(3)),
    CorruptBatch("0.log", 61, Offset(3), "its CRC is wrong"),  # type: ignore[arg-type]  # positions are numbers
    JournalDamaged("0.journal", 61, "its CRC is wrong"),  # type: ignore[arg-type]
    UndecodableBatch(Offset(1), Offset(2), Offset(3), "a length lies", "t", 0),
)


def _frame_samples() -> Iterator[Sample]:
    identity = PeerIdentity("c", NodeId(3), disk_uuid(3), 4, 5, "host", 1, 2, "h:2")
    hello = Hello(PROTOCOL_VERSION, Channel.BULK, bytes(BOOT_ID_SIZE), identity, bytes(NONCE_SIZE))
    yield Sample(
        "HELLO", hello, lambda hello: _join(encode_hello(pack_hello(hello))), lambda data: decode_hello(_body_of(data))
    )
    refusal = HandshakeRefusal(Reason.CLUSTER_ID, "another cluster", "c", True)
    yield Sample(
        "REFUSAL", refusal, lambda refusal: _join(encode_refusal(refusal)), lambda data: decode_refusal(_body_of(data))
    )
    proof = Proof(bytes(32), b"refusal")
    yield Sample("PROOF", proof, lambda proof: _join(encode_proof(proof)), lambda data: decode_proof(_body_of(data)))
    heartbeat = ProcessHeartbeat(disk_uuid(1), 3, 9)
    yield Sample(
        "BEAT",
        heartbeat,
        lambda heartbeat: _join(encode_heartbeat(heartbeat)),
        lambda data: decode_heartbeat(_body_of(data)),
    )
    for error in ERRORS:
        leader = ", leader known" if isinstance(error, NotLeader) and error.leader else ""
        yield Sample(
            f"FAILURE {type(error).__name__}{leader}",
            error,
            lambda error: _join(encode_failure(7, error, CONFIG)),
            lambda data: decode_answer(_make_frame(data, FrameKind.FAILURE), CONFIG)[1],
        )


ENTRY = Entry(Index(7), Term(2), EntryKind.DATA, len(BATCH), BATCH)
RAFT: Sequence[Any] = (
    messages.AppendRequest(ME, OTHER, Term(3), 4, LAST, (ENTRY,), Index(6), True),
    messages.AppendResponse(ME, OTHER, Term(3), 4, False, Index(5), Index(7), Index(6), LAST),
    messages.Heartbeat(ME, OTHER, Term(3), 4, Index(6), LAST, True),
    messages.HeartbeatResponse(ME, OTHER, Term(3), 4, Index(6), Index(5), True, False),
    messages.PreVoteRequest(ME, OTHER, Term(3), 4, Term(5), LAST),
    messages.PreVoteResponse(ME, OTHER, Term(3), 4, Term(5), True),
    messages.VoteRequest(ME, OTHER, Term(3), 4, LAST, True),
    messages.VoteResponse(ME, OTHER, Term(3), 4, True),
    messages.TimeoutNow(ME, OTHER, Term(3)),
    messages.ReadIndexRequest(ME, OTHER, Term(3), 4),
    messages.ReadIndexResponse(ME, OTHER, Term(3), 4, Index(6)),
    messages.InstallOffer(ME, OTHER, Term(3), 4, LAST, Index(6)),
    messages.InstallResponse(ME, OTHER, Term(3), 4, LAST, True, Index(9)),
    messages.Wake(ME, OTHER, Term(3)),
    messages.WakeResponse(ME, OTHER, Term(3)),
)


def _decode_turn(data: bytes) -> Any:
    return TurnDecoder().decode(memoryview(_body_of(data)), _make_frame(data, FrameKind.TURN).payload, ME)[0].message


def _turn_samples() -> Iterator[Sample]:
    for message in RAFT:
        yield Sample(
            f"TURN {type(message).__name__}",
            message,
            lambda message: _join(encode_turn([Envelope(GROUP.bytes, message)])),
            _decode_turn,
        )


STORED = bulk.StoredEntry(Index(7), Term(3), BATCH)
BULK: Sequence[tuple[Any, Sequence[Any]]] = (
    (
        bulk.LogRequest(GROUP.bytes),
        (bulk.LogResult(LAST, Offset(10), STORED), bulk.LogResult(LAST, Offset(10), STORED, 2)),
    ),
    (bulk.EntriesRequest(GROUP.bytes, Index(7), Index(9), 1_000), (bulk.EntriesResult((STORED,)),)),
    (
        bulk.LogFetchRequest(GROUP.bytes, Term(3), 4, LAST, 1_000),
        (bulk.FetchResult(Index(6), Index(9), (ENTRY,)), bulk.LogsDiverge()),
    ),
    (
        bulk.FilesRequest(GROUP.bytes, Offset(9)),
        (bulk.FilesResult((1, 2), Offset(9), LAST, Offset(0), (Offset(0), Offset(4))),),
    ),
    (bulk.PieceRequest(GROUP.bytes, (1, 2), Offset(4), 3, 1_000), (bulk.PieceResult((BATCH,)),)),
)


def _bulk_samples() -> Iterator[Sample]:
    for asked, answers in BULK:
        name = call_of(asked, 50).name
        yield Sample(
            f"CALL {name}",
            asked,
            lambda asked: _join(encode_call(7, call_of(asked, 50), CONFIG)),
            lambda data: request_of(decode_call(_make_frame(data, FrameKind.CALL), CONFIG)[1]),
        )
        for number, found in enumerate(answers):
            yield Sample(
                f"ANSWER {name}" + (f", {number}" if number else ""),
                found,
                lambda found: _join(encode_answer(7, answer_of(found), CONFIG)),
                lambda data, asked=asked: result_of(
                    asked, decode_answer(_make_frame(data, FrameKind.ANSWER), CONFIG)[1]
                ),  # type: ignore[arg-type]
            )


def _request_samples() -> Iterator[Sample]:
    for name, (header, answer) in REQUESTS.items():
        payload = (b"piece", b"another one")
        yield Sample(
            f"CALL {name}",
            Call(name, make_plain(header), payload, 50),
            lambda call: _join(encode_call(7, call, CONFIG)),
            lambda data: decode_call(_make_frame(data, FrameKind.CALL), CONFIG)[1],
        )
        yield Sample(
            f"ANSWER {name}",
            Answer(make_plain(answer), payload),
            lambda answer: _join(encode_answer(7, answer, CONFIG)),
            lambda data: decode_answer(_make_frame(data, FrameKind.ANSWER), CONFIG)[1],
        )


def _operation_samples() -> Iterator[Sample]:
    for operation in OPERATIONS:
        asked = make_value(operation._request)
        yield Sample(f"request {operation.name}", asked, operation.pack_request, operation.unpack_request)
        for number, answer in enumerate(make_answers(operation)):
            yield Sample(
                f"answer {operation.name}" + (f", {number}" if number else ""),
                answer,
                lambda answer, pack=operation.pack_answer: _join(encode_answer(7, pack(answer), CONFIG)),
                lambda data, unpack=operation.unpack_answer: unpack(
                    decode_answer(_make_frame(data, FrameKind.ANSWER), CONFIG)[1]
                ),
            )


def wire_samples() -> Iterator[Sample]:
    """Yield all samples of messages between brokers."""
    for part in (_frame_samples, _turn_samples, _bulk_samples, _request_samples, _operation_samples):
        yield from part()
