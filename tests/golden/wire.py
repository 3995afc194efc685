"""Samples of what travels between brokers; see `frames`."""

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
from raftlog.runtime.rpc.frames.codec import TurnDecoder, decode_beat, encode_beat, encode_turn
from raftlog.runtime.rpc.frames.frame import HEAD_SIZE, Frame, FrameKind
from raftlog.runtime.rpc.handshake import (
    LIFE_SIZE,
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
from raftlog.runtime.transport import Envelope, ProcessBeat
from raftlog.types import Buffer, Index, NodeId, Offset, Term
from tests.controller.machine.fleet import disk
from tests.golden.operations import OPERATIONS, answers_of, value_of
from tests.golden.requests import REQUESTS, plain

CONFIG = RpcConfig()
GROUP = uuid.UUID(int=5)
ME, OTHER = ReplicaId(NodeId(1), disk(1)), ReplicaId(NodeId(2), disk(2))
LAST = EntryId(Index(6), Term(2))
BATCH = bytes(build_batch([NewRecord(b"value", b"key", 1_700_000_000_000)]))


class Sample(NamedTuple):
    """A format: `encode(value)` are its bytes, and so are `encode(decode(bytes))`."""

    name: str
    value: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _joined(buffers: Sequence[Buffer]) -> bytes:
    return b"".join(buffers)


def _body(data: bytes) -> bytes:
    return data[HEAD_SIZE : HEAD_SIZE + int.from_bytes(data[8:12])]


def _frame(data: bytes, kind: FrameKind) -> Frame:
    body = _body(data)
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


def _frames() -> Iterator[Sample]:
    identity = PeerIdentity("c", NodeId(3), disk(3), 4, 5, "host", 1, 2, "h:2")
    hello = Hello(PROTOCOL_VERSION, Channel.BULK, bytes(LIFE_SIZE), identity, bytes(NONCE_SIZE))
    yield Sample(
        "HELLO", hello, lambda hello: _joined(encode_hello(pack_hello(hello))), lambda data: decode_hello(_body(data))
    )
    refusal = HandshakeRefusal(Reason.CLUSTER_ID, "another cluster", "c", True)
    yield Sample(
        "REFUSAL", refusal, lambda refusal: _joined(encode_refusal(refusal)), lambda data: decode_refusal(_body(data))
    )
    proof = Proof(bytes(32), b"refusal")
    yield Sample("PROOF", proof, lambda proof: _joined(encode_proof(proof)), lambda data: decode_proof(_body(data)))
    beat = ProcessBeat(disk(1), 3, 9)
    yield Sample("BEAT", beat, lambda beat: _joined(encode_beat(beat)), lambda data: decode_beat(_body(data)))
    for error in ERRORS:
        leader = ", leader known" if isinstance(error, NotLeader) and error.leader else ""
        yield Sample(
            f"FAILURE {type(error).__name__}{leader}",
            error,
            lambda error: _joined(encode_failure(7, error, CONFIG)),
            lambda data: decode_answer(_frame(data, FrameKind.FAILURE), CONFIG)[1],
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


def _turn_of(data: bytes) -> Any:
    return TurnDecoder().decode(memoryview(_body(data)), _frame(data, FrameKind.TURN).payload, ME)[0].message


def _turns() -> Iterator[Sample]:
    for message in RAFT:
        yield Sample(
            f"TURN {type(message).__name__}",
            message,
            lambda message: _joined(encode_turn([Envelope(GROUP.bytes, message)])),
            _turn_of,
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


def _bulk() -> Iterator[Sample]:
    for asked, answers in BULK:
        name = call_of(asked, 50).name
        yield Sample(
            f"CALL {name}",
            asked,
            lambda asked: _joined(encode_call(7, call_of(asked, 50), CONFIG)),
            lambda data: request_of(decode_call(_frame(data, FrameKind.CALL), CONFIG)[1]),
        )
        for number, found in enumerate(answers):
            yield Sample(
                f"ANSWER {name}" + (f", {number}" if number else ""),
                found,
                lambda found: _joined(encode_answer(7, answer_of(found), CONFIG)),
                lambda data, asked=asked: result_of(asked, decode_answer(_frame(data, FrameKind.ANSWER), CONFIG)[1]),  # type: ignore[arg-type]
            )


def _requests() -> Iterator[Sample]:
    for name, (header, answer) in REQUESTS.items():
        payload = (b"piece", b"another one")
        yield Sample(
            f"CALL {name}",
            Call(name, plain(header), payload, 50),
            lambda call: _joined(encode_call(7, call, CONFIG)),
            lambda data: decode_call(_frame(data, FrameKind.CALL), CONFIG)[1],
        )
        yield Sample(
            f"ANSWER {name}",
            Answer(plain(answer), payload),
            lambda answer: _joined(encode_answer(7, answer, CONFIG)),
            lambda data: decode_answer(_frame(data, FrameKind.ANSWER), CONFIG)[1],
        )


def _operations() -> Iterator[Sample]:
    for operation in OPERATIONS:
        asked = value_of(operation._request)
        yield Sample(f"request {operation.name}", asked, operation.pack_request, operation.unpack_request)
        for number, answer in enumerate(answers_of(operation)):
            yield Sample(
                f"answer {operation.name}" + (f", {number}" if number else ""),
                answer,
                lambda answer, pack=operation.pack_answer: _joined(encode_answer(7, pack(answer), CONFIG)),
                lambda data, unpack=operation.unpack_answer: unpack(
                    decode_answer(_frame(data, FrameKind.ANSWER), CONFIG)[1]
                ),
            )


def wire_samples() -> Iterator[Sample]:
    """Return all of them."""
    for part in (_frames, _turns, _bulk, _requests, _operations):
        yield from part()
