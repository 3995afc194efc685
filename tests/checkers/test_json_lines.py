"""JSON lines of a history: every payload is restored, and invalid lines are refused."""

import pytest

from jepsen.checkers import (
    Assign,
    Fetched,
    GroupOffsets,
    ListOffsets,
    Nemesis,
    OffsetRange,
    Op,
    Poll,
    Register,
    Send,
    Subscribe,
    read_lines,
    write_lines,
)
from raftlog.errors import InvalidArgument
from raftlog.types import Offset, TopicPartition

P = TopicPartition("a.b-c_d", 12)
OPS = [
    Op(0, 5, 1, "invoke", "send", Send(P, (1, "zwei"))),
    Op(1, 6, 1, "ok", "send", Send(P, (1, "zwei"), (Offset(0), Offset(1)))),
    Op(2, 6, 2, "ok", "poll", Poll((Fetched(P, (Offset(0),), (1,)), Fetched(TopicPartition("t", 0), (), ())))),
    Op(3, 7, 2, "info", "assign", Assign(((P, Offset(4)), (TopicPartition("t", 0), None))), "Grüße\n"),
    Op(4, 8, 2, "ok", "subscribe", Subscribe(("a", "b"))),
    Op(5, 9, 2, "fail", "commit", GroupOffsets("g", ((P, Offset(1)),)), "refused"),
    Op(6, 9, 2, "ok", "committed", GroupOffsets("g", ((P, None),))),
    Op(7, 9, 2, "ok", "list", ListOffsets((OffsetRange(P, Offset(1), Offset(2)),), True)),
    Op(8, 10, 2, "info", "crash"),
    Op(9, 11, 3, "invoke", "read", Register("r")),
    Op(10, 12, 3, "ok", "read", Register("r", "seven")),
    Op(11, 12, 4, "invoke", "write", Register("r", 7)),
    Op(12, 13, 5, "ok", "cas", Register("r", 8, 7)),
    Op(13, 2**62, -1, "info", "nemesis", Nemesis("cut n1 | n2")),
]


def test_every_payload_is_restored() -> None:
    lines = list(write_lines(OPS))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert list(read_lines(lines)) == OPS
    assert list(read_lines(line.decode() for line in [b"\n", *lines])) == OPS


def test_equal_partitions_of_a_file_are_one_object() -> None:
    read = list(read_lines(write_lines(OPS[:2])))
    assert read[0].payload[0] is read[1].payload[0]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'{"time": 1, "process": 1, "type": "ok", "kind": "dance"}',
        b'{"time": 1, "process": 1, "type": "perhaps", "kind": "crash"}',
        b'{"time": 1, "process": 1, "type": "ok", "kind": "send", "value": {"partition": "t0"}}',
        b'{"time": 1, "process": 1, "type": "ok", "kind": "send", "value": {"partition": "t/x", "values": []}}',
        b'{"process": 1, "type": "ok", "kind": "crash"}',
        b'{"time": 1, "process": 1, "type": "ok", "kind": "send", "value": [1]}',
        b'{"time": 1, "process": 1, "type": "ok", "kind": "trim", "value": ["t/0"]}',
    ],
)
def test_an_invalid_line_is_named(line: bytes) -> None:
    with pytest.raises(InvalidArgument, match="line 2"):
        list(read_lines([*write_lines(OPS[:1]), line]))
