"""Requests over real sockets: answered, too slow, refused; and traffic counts of brokers."""

import socket
import threading
from typing import Any

import pytest

from raftlog.errors import Unavailable
from raftlog.loadgen import SocketWire, scrape
from raftlog.loadgen.wire import LOST, NEVER_SENT, Arrival
from tests.bench.answering import serve_answers


def wait_for_arrivals(wire: SocketWire, count: int) -> list[Arrival]:
    """Wait for `count` arrivals; return them ordered by token."""
    arrivals: list[Arrival] = []
    while len(arrivals) < count:
        arrivals += wire.wait(wire.now() + 10)
    return sorted(arrivals)


def request(address: str, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()


def test_requests_share_persistent_connections() -> None:
    body = "x" * 300_000

    def answer(path: str, _body: Any) -> tuple[int, bytes]:
        return (200, (path + body).encode()) if path != "/no" else (404, b"no")

    with serve_answers(answer) as port, SocketWire(10.0) as wire:
        address = f"127.0.0.1:{port}"
        for round_ in range(3):
            for token in range(5):
                wire.send(token, 0, address, request(address, f"/{round_}-{token}"))
            arrivals = wait_for_arrivals(wire, 5)
            assert [each.status for each in arrivals] == [200] * 5
            assert [each.body for each in arrivals] == [f"/{round_}-{token}{body}".encode() for token in range(5)]
        wire.send(9, 0, address, request(address, "/no"))
        assert [each[:3] for each in wait_for_arrivals(wire, 1)] == [(9, 404, b"no")]


def test_requests_without_an_answer_in_time_are_lost_and_the_wire_continues() -> None:
    gate = threading.Event()

    def answer(path: str, _body: Any) -> tuple[int, bytes]:
        if path == "/slow":
            gate.wait()
        return 200, b"[]"

    with serve_answers(answer) as port, SocketWire(0.2) as wire:
        address = f"127.0.0.1:{port}"
        wire.send(1, 0, address, request(address, "/slow"))
        assert wait_for_arrivals(wire, 1)[0].status == LOST
        wire.send(2, 0, address, request(address, "/quick"))
        assert wait_for_arrivals(wire, 1)[0].status == 200
        gate.set()


def test_a_request_without_a_listener_counts_as_never_sent() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        with SocketWire(5.0) as wire:
            wire.send(1, 0, address, request(address, "/"))
            assert wait_for_arrivals(wire, 1)[0].status == NEVER_SENT


def test_wait_returns_at_its_deadline() -> None:
    with SocketWire(5.0) as wire:
        begin = wire.now()
        assert wire.wait(begin + 0.01) == []
        assert wire.now() >= begin + 0.01


METRICS = """\
# HELP raftlog_rpc_messages_total Logical messages between brokers.
# TYPE raftlog_rpc_messages_total counter
raftlog_rpc_messages_total{direction="in",kind="beat"} 100.0
raftlog_rpc_messages_total{direction="out",kind="beat"} 7.0
raftlog_rpc_messages_total{direction="out",kind="answer"} 3.0
# TYPE raftlog_rpc_bytes_total counter
raftlog_rpc_bytes_total{channel="raft",direction="out"} 1000.0
raftlog_rpc_bytes_total{channel="bulk",direction="out"} 50.0
raftlog_rpc_bytes_total{channel="bulk",direction="in"} 9.0
# TYPE raftlog_rpc_writes_total counter
raftlog_rpc_writes_total{channel="raft"} 5.0
"""


def test_message_counts_are_sums_of_sent_messages() -> None:
    with serve_answers(lambda path, body: (200, METRICS.encode())) as port:
        found = scrape([f"127.0.0.1:{port}"] * 2)
    assert found.by_kind == {"beat": 14, "answer": 6}
    assert (found.messages, found.bytes, found.writes) == (20, 2100, 10)
    assert found.subtract(found).messages == 0
    assert found.as_json(10)["messages_per_operation"] == 2.0


def test_a_broker_without_a_report_leaves_no_total() -> None:
    with serve_answers(lambda path, body: (503, b"")) as port, pytest.raises(Unavailable):
        scrape([f"127.0.0.1:{port}"])
