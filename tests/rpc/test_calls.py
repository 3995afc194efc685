"""Requests, answers, errors and bulk requests, encoded to frames and decoded."""

import contextlib
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog import errors
from raftlog.errors import (
    CorruptBatch,
    FormatError,
    InvalidArgument,
    NotLeader,
    OffsetOutOfRange,
    OutcomeUnknown,
    RaftlogError,
    Unavailable,
)
from raftlog.raft import Entry, EntryId, EntryKind, ReplicaId
from raftlog.records import build_batch
from raftlog.runtime.log.control_entries import build_no_op_batch
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
from raftlog.runtime.rpc.errors import BadFrame, NotConnected
from raftlog.runtime.rpc.failures import decode_error, encode_error
from raftlog.runtime.rpc.frames.bulk_codec import answer_of, call_of, request_of, result_of
from raftlog.runtime.rpc.frames.frame import HEAD_SIZE, Frame, FrameKind
from raftlog.runtime.rpc.frames.packing import pack_value
from raftlog.runtime.transfer.bulk import (
    BulkRequest,
    EntriesRequest,
    EntriesResult,
    FetchResult,
    LogFetchRequest,
    LogRequest,
    LogResult,
    LogsDiverge,
    StoredEntry,
)
from raftlog.topic_config import KIB
from raftlog.types import Index, NodeId, Offset, Position, Term

CONFIG = RpcConfig(header_bytes_max=64 * KIB, list_items_max=100)
GROUP = uuid.UUID(int=5).bytes

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=10,
)
payloads = st.lists(st.binary(max_size=200), max_size=5).map(tuple)


def make_frame(buffers: list[Any], kind: FrameKind) -> Frame:
    data = b"".join(buffers)
    body_size = int.from_bytes(data[8:12], "big")
    return Frame(kind, memoryview(data)[HEAD_SIZE : HEAD_SIZE + body_size], data[HEAD_SIZE + body_size :])


@settings(max_examples=40)
@given(st.integers(0, 2**63 - 1), st.text(max_size=30), values, payloads, st.integers(1, 2**31))
def test_calls_round_trip(correlation: int, name: str, value: Any, payload: tuple[bytes, ...], timeout_ms: int) -> None:
    call = Call(name, value, payload, timeout_ms)
    assert decode_call(make_frame(encode_call(correlation, call, CONFIG), FrameKind.CALL), CONFIG) == (
        correlation,
        call,
    )


@settings(max_examples=40)
@given(st.integers(0, 2**63 - 1), values, payloads)
def test_answers_round_trip(correlation: int, value: Any, payload: tuple[bytes, ...]) -> None:
    frame = make_frame(encode_answer(correlation, Answer(value, payload), CONFIG), FrameKind.ANSWER)
    assert decode_answer(frame, CONFIG) == (correlation, Answer(value, payload))


@settings(max_examples=120)
@given(st.one_of(st.binary(max_size=60), values.map(lambda value: pack_value(value, 1 << 20, 1000))), st.binary())
def test_invalid_input_raises_only_bad_frame(body: bytes, payload: bytes) -> None:
    for kind in (FrameKind.ANSWER, FrameKind.FAILURE):
        with contextlib.suppress(BadFrame):
            correlation, outcome = decode_answer(Frame(kind, memoryview(body), payload), CONFIG)
            assert isinstance(correlation, int)
            assert isinstance(outcome, Answer if kind is FrameKind.ANSWER else Exception)
    with contextlib.suppress(BadFrame):
        call = decode_call(Frame(FrameKind.CALL, memoryview(body), payload), CONFIG)
        frame = make_frame(encode_call(call, CONFIG), FrameKind.CALL)
        assert decode_call(frame, CONFIG) == call


@pytest.mark.parametrize(
    "value",
    [object(), (1, 2), {(1, 2): 3}, 2**70, [0] * 101, {str(at): 1 for at in range(101)}, bytes(64 * KIB), "\ud800"],
    ids=["object", "tuple", "tuples as keys", "number", "list", "mapping", "size", "text"],
)
def test_unsendable_records_are_refused_before_a_request(value: Any) -> None:
    with pytest.raises(InvalidArgument):
        encode_call(1, Call("x", value), CONFIG)


def test_deep_values_round_trip_or_are_refused() -> None:
    for depth in (100, 400, 600):
        value: Any = 0
        for _ in range(depth):
            value = [value]
        try:
            frame = make_frame(encode_call(1, Call("x", value), CONFIG), FrameKind.CALL)
        except InvalidArgument:
            assert depth > 400
            continue
        assert decode_call(frame, CONFIG)[1].value == value


def test_a_request_without_time_left_is_not_sent() -> None:
    with pytest.raises(InvalidArgument, match="0 ms left; it was not sent"):
        encode_call(1, Call("x", timeout_ms=0), CONFIG)


def test_frames_above_the_bound_are_refused() -> None:
    config = RpcConfig(frame_bytes_max=64 * KIB, turn_bytes=KIB, header_bytes_max=KIB)
    with pytest.raises(InvalidArgument, match="the bound is 65536 bytes"):
        encode_call(1, Call("x", None, (bytes(64 * KIB),)), config)


# errors


def one_error_of_each_type() -> list[RaftlogError]:
    """Return one error of each type in `raftlog.errors`."""
    found: list[RaftlogError] = []
    for name in sorted(vars(errors)):
        error_type = getattr(errors, name)
        if not isinstance(error_type, type) or not issubclass(error_type, RaftlogError):
            continue
        if error_type is OffsetOutOfRange:
            found.append(OffsetOutOfRange(5, Offset(6), Offset(9)))
        elif error_type is errors.NotAtBatchBorder:
            found.append(errors.NotAtBatchBorder(5, Offset(4), Offset(9)))
        elif error_type is CorruptBatch:
            found.append(CorruptBatch("a.log", Position(5), Offset(9), "its CRC differs"))
        elif error_type is errors.JournalDamaged:
            found.append(errors.JournalDamaged("journal", Position(5), "a hole"))
        elif error_type is errors.UndecodableBatch:
            found.append(errors.UndecodableBatch(5, 6, 9, "a length that lies", "orders", 3))
        else:
            found.append(error_type("because"))
    return found


@pytest.mark.parametrize("error", one_error_of_each_type(), ids=lambda error: type(error).__name__)
def test_errors_are_equal_on_the_other_side(error: RaftlogError) -> None:
    _, other = decode_answer(make_frame(encode_failure(7, error, CONFIG), FrameKind.FAILURE), CONFIG)
    assert isinstance(other, RaftlogError)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_an_error_carries_its_leader() -> None:
    leader = ReplicaId(NodeId(3), uuid.UUID(int=9))
    other = decode_error(encode_error(NotLeader("elsewhere", leader)))
    assert isinstance(other, NotLeader)
    assert other.leader == leader


def test_unknown_error_types_keep_their_certainty() -> None:
    assert type(decode_error(encode_error(NotConnected("away")))) is Unavailable
    assert type(decode_error(["FromTheFuture", True, ["x"]])) is OutcomeUnknown
    assert type(decode_error(["FromTheFuture", False, ["x"]])) is Unavailable
    assert type(decode_error(["Overloaded", True, ["x"]])) is OutcomeUnknown, (
        "never more certain than the sender reported"
    )


@pytest.mark.parametrize(
    "fields", [None, ["x"], ["NotLeader", False, ["x", 1, b"short"]], ["CorruptBatch", False, ["x"]], [1, False, []]]
)
def test_invalid_errors_are_bad_frames(fields: Any) -> None:
    with pytest.raises(BadFrame):
        decode_error(fields)


# bulk


def encode_and_decode(request: BulkRequest, found: LogResult | EntriesResult) -> tuple[object, object]:
    _, call = decode_call(make_frame(encode_call(1, call_of(request, 50), CONFIG), FrameKind.CALL), CONFIG)
    frame = make_frame(encode_answer(1, answer_of(found), CONFIG), FrameKind.ANSWER)
    _, answer = decode_answer(frame, CONFIG)
    assert isinstance(answer, Answer)
    return request_of(call), result_of(request, answer)


def test_bulk_requests_and_answers_round_trip() -> None:
    log = LogResult(EntryId(Index(6), Term(2)), Offset(10), StoredEntry(Index(7), Term(3), b"a roll"))
    assert encode_and_decode(LogRequest(GROUP), log) == (LogRequest(GROUP), log)
    asked = EntriesRequest(GROUP, Index(7), Index(9), 1000)
    found = EntriesResult(tuple(StoredEntry(Index(7 + at), Term(2), bytes(100 * at)) for at in range(3)))
    assert encode_and_decode(asked, found) == (asked, found)
    assert encode_and_decode(asked, EntriesResult(())) == (asked, EntriesResult(()))


def test_a_fetched_append_round_trips() -> None:
    asked = LogFetchRequest(GROUP, Term(3), 1 << 40, EntryId(Index(6), Term(2)), 1000)
    batches = [bytes(build_batch([b"x" * 10 * at])) for at in range(1, 4)]
    data = [Entry(Index(7 + at), Term(2), EntryKind.DATA, len(batch), batch) for at, batch in enumerate(batches)]
    no_op = bytes(build_no_op_batch(1_000))
    entries = (*data, Entry(Index(10), Term(3), EntryKind.NO_OP, len(no_op), no_op))
    for found in (FetchResult(Index(9), Index(12), entries), FetchResult(Index(9), Index(9), ()), LogsDiverge()):
        assert encode_and_decode(asked, found) == (asked, found)


@pytest.mark.parametrize(
    "call",
    [
        Call("bulk.log", b"short"),
        Call("bulk.log"),
        Call("bulk.entries", [GROUP, 1, 2]),
        Call("bulk.entries", GROUP),
        Call("bulk.append", [GROUP, 1, 2, 3, 4]),
    ],
)
def test_invalid_bulk_requests_are_refused(call: Call) -> None:
    with pytest.raises(BadFrame):
        request_of(call)


def test_other_requests_are_no_bulk_requests() -> None:
    assert request_of(Call("produce", [1])) is None


@pytest.mark.parametrize("answer", [Answer(), Answer([1, 2, 3, 4]), Answer([b"", b""], (b"x",)), Answer([b"x", b"y"])])
def test_answers_to_another_request_are_refused(answer: Answer) -> None:
    with pytest.raises(FormatError):
        result_of(LogRequest(GROUP), answer)
    with pytest.raises(FormatError):
        result_of(EntriesRequest(GROUP, Index(1), Index(2), 3), answer)


@pytest.mark.parametrize("answer", [Answer([1, 2]), Answer([1, 2, bytes(4)]), Answer([1, 2, bytes(4)], (b"no batch",))])
def test_answers_without_an_append_are_refused(answer: Answer) -> None:
    with pytest.raises(FormatError):
        result_of(LogFetchRequest(GROUP, Term(3), 1, EntryId(Index(6), Term(2)), 1000), answer)
