"""Answers of later releases with unknown fields at their end, and answers of earlier releases with fewer fields."""

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from raftlog.errors import OffsetOutOfRange, OutcomeUnknown
from raftlog.partitions.controller.disk_replacement import _parse_report
from raftlog.partitions.controller.first_start import unpack_view
from raftlog.partitions.controller.proposals import _read_decision
from raftlog.partitions.coordinator.operation import CoordinatorOperation
from raftlog.partitions.operations.move_reports import _decode_report, _ReplicaReport
from raftlog.partitions.placement.balancing.progress import _read_report
from raftlog.partitions.placement.balancing.report import BalancerReport, MisplacedReplica, decode_report
from raftlog.partitions.placement.recovery.replica_status import LostEntry, ReplicaStatus, pack_status, unpack_status
from raftlog.partitions.routing.router import decode_numbers
from raftlog.raft import EntryId, ReplicaId
from raftlog.runtime.rpc.calls import Answer, decode_answer
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.failures import decode_error, encode_error
from raftlog.runtime.rpc.frames.bulk_codec import answer_of, result_of
from raftlog.runtime.rpc.frames.frame import Frame, FrameKind
from raftlog.runtime.rpc.frames.packing import pack_value
from raftlog.runtime.transfer.bulk import (
    BulkRequest,
    EntriesRequest,
    EntriesResult,
    FetchResult,
    FilesRequest,
    FilesResult,
    LogFetchRequest,
    LogRequest,
    LogResult,
    StoredEntry,
)
from raftlog.types import Index, NodeId, Offset, Term
from tests.golden.operations import OPERATIONS, make_answers

GROUP = uuid.UUID(int=5).bytes
ME = ReplicaId(NodeId(1), uuid.UUID(int=9))
LAST = EntryId(Index(6), Term(2))
LOG = LogResult(LAST, Offset(10), StoredEntry(Index(7), Term(3), b"a roll"), 2)
MISPLACED = MisplacedReplica("t", 0, 3, "no host")
REPORT = BalancerReport("ready", "continuous", [], [3], 1.5, 0, 2, ["why"], [MISPLACED])
STANDING = ReplicaStatus(
    ME,
    Term(3),
    True,
    NodeId(1),
    LAST,
    LAST,
    Offset(0),
    Offset(9),
    (ME,),
    (),
    None,
    (LostEntry(Offset(1), Offset(2), "bad"),),
)
TOLD = _ReplicaReport(b"g", True, 3, [1], [2], 100, [[2, 5, 7]], None)


@pytest.mark.parametrize(
    ("decode", "row"),
    [
        (decode_report, REPORT.pack()),
        (unpack_status, pack_status(STANDING)),
        (_decode_report, list(TOLD)),
        (_read_report, [3, [[b"g", [1], [2]]], [b"h"], b"", False]),
        (lambda row: _read_decision(Answer(row)), [7, 5, None]),
        (lambda row: _parse_report(Answer(row)), ["later", "it answers"]),
        (lambda row: unpack_view(ME, None, row), ["empty", "a:1", ["a:1"], None, []]),
        (lambda row: decode_numbers(Answer(row), 2), [1, 2]),
        (lambda row: str(decode_error(row)), encode_error(OffsetOutOfRange(Offset(1), Offset(2), Offset(3)))),
    ],
)
def test_unknown_fields_of_an_answer_are_ignored(decode: Callable[[Any], object], row: list[Any]) -> None:
    assert decode([*row, "later", {"x": 1}]) == decode(row)


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (LogRequest(GROUP), LOG),
        (EntriesRequest(GROUP, Index(7), Index(7), 9), EntriesResult((StoredEntry(Index(7), Term(2), b"x"),))),
        (LogFetchRequest(GROUP, Term(3), 4, LAST, 9), FetchResult(Index(6), Index(6), ())),
        (FilesRequest(GROUP, Offset(9)), FilesResult((1, 2), Offset(9), LAST, Offset(0), (Offset(0), Offset(4)))),
    ],
)
def test_unknown_fields_of_a_bulk_answer_are_ignored(request_: BulkRequest, found: object) -> None:
    answer = answer_of(found)
    assert result_of(request_, answer) == found
    assert result_of(request_, answer._replace(value=[*answer.value, b"later", 9])) == found


def test_missing_numbers_have_their_defaults() -> None:
    assert decode_numbers(Answer([1, 2]), 2, 0) == [1, 2, 0]
    assert decode_numbers(Answer([1, 2, 1]), 2, 0) == [1, 2, 1]
    assert decode_numbers(Answer([1, 2, 1, "later"]), 2, 0) == [1, 2, 1]
    for wrong in ([1], [1, "2"], [1, 2, None], None, 3):
        with pytest.raises(OutcomeUnknown):
            decode_numbers(Answer(wrong), 2, 0)


def test_the_answer_for_an_uncompacted_log_round_trips() -> None:
    found = LOG._replace(files=0)
    assert result_of(LogRequest(GROUP), answer_of(found)) == found


@pytest.mark.parametrize(
    ("kind", "fields"), [(FrameKind.ANSWER, [1, "x", b""]), (FrameKind.FAILURE, [1, ["Overloaded", False, ["x"]]])]
)
def test_unknown_fields_of_the_frame_are_ignored(kind: FrameKind, fields: list[Any]) -> None:
    config = RpcConfig()

    def read(row: list[Any]) -> str:
        body = pack_value(row, config.header_bytes_max, config.list_items_max)
        return repr(decode_answer(Frame(kind, memoryview(body), b""), config))

    assert read([*fields, 7]) == read(fields)


GROWING = [operation for operation in OPERATIONS if operation.name != "groups.delete_offsets"]  # numbers and no rows


@pytest.mark.parametrize("operation", GROWING, ids=lambda operation: operation.name)
def test_unknown_fields_of_a_coordinators_answer_are_ignored(operation: CoordinatorOperation[Any, Any]) -> None:
    for value in make_answers(operation):
        answer = operation.pack_answer(value)
        head, *batches = answer.payload
        row = msgspec.msgpack.decode(head)
        longer = with_more_fields(row)
        found = operation.unpack_answer(Answer(None, (msgspec.msgpack.encode(longer), *batches)))
        assert repr(found) == repr(value)


def with_more_fields(value: Any) -> Any:
    """Return an answer with one more field: in itself, or in each of its rows."""
    if isinstance(value, dict):
        return {key: with_more_fields(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    has_rows = all(isinstance(each, list) for each in value)
    return [with_more_fields(each) for each in value] if has_rows else [*value, "later"]
