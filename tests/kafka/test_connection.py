"""Frames, order of requests and answers, and the bounds of one connection."""

import asyncio
import itertools
import logging
import threading
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.connection import KafkaConnection
from raftlog.api.kafka.incoming_frame import IncomingFrame
from raftlog.api.kafka.progress import ANSWER_BYTES_PER_S_MIN, STALL_S, UNCHARGED_ANSWER_BYTES_MAX
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.api.kafka.turns import TURN_S
from raftlog.api.kafka.wire import schemas
from raftlog.errors import NotLeader
from tests.kafka.harness import MIB, Edge, feed, make_frame, make_request, parse_answers, settle
from tests.waiting import until

PRODUCE, FETCH, OFFSETS, HEARTBEAT = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.HEARTBEAT


def close_reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.why for record in caplog.records if record.message == "kafka_connection_closed"]


@pytest.mark.parametrize("piece", range(1, 60))
async def test_requests_do_not_depend_on_the_pieces_of_the_input(edge: Edge, piece: int) -> None:
    edge.is_immediate = True
    connection, transport = edge.connect()
    bodies = [b"", b"a", b"bcd" * 9, b""]
    data = b"".join(make_request(PRODUCE, 3, body, number) for number, body in enumerate(bodies))
    assert feed(connection, data, piece) == b""
    await settle()
    assert parse_answers(transport.written) == list(enumerate(bodies))
    assert [each.message for each in edge.seen] == bodies


@pytest.mark.parametrize("size", [4095, 4096, 4097, 65_535, 65_536, 200_000, 3 * MIB])
@pytest.mark.parametrize("piece", [1 << 30, 1460, 65_531])
async def test_large_frames_hold_memory_until_their_answer(edge: Edge, size: int, piece: int) -> None:
    connection, transport = edge.connect()
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    feed(connection, make_request(PRODUCE, 3, body, 1) + make_request(PRODUCE, 3, b"next", 2), piece)
    await settle()
    assert [each.message for each in edge.seen] == [body, b"next"]
    assert (edge.requests.used >= size) == (size > 4096 - 20), "only small frames are free"
    assert edge.requests.used <= size + 4096
    edge.waiting[0].set_result(b"done")
    await settle()
    assert edge.requests.used == 0
    assert parse_answers(transport.written) == [(1, b"done")]


@pytest.mark.parametrize("first", [2, 3_000, 70_000])
async def test_all_requests_of_one_read_begin_in_its_turn(edge: Edge, first: int) -> None:
    """TLS in uvloop continues in the next turn once a buffer is full; requests proposed in one turn share a sync."""
    connection, _ = edge.connect()
    bodies = [bytes([number]) * 65_000 for number in range(5)]
    data = b"".join(make_request(PRODUCE, 3, body, number) for number, body in enumerate(bodies))
    feed(connection, data[:first])
    await settle()
    assert len(edge.seen) == first // 65_000
    rest = memoryview(data)[first : first + 256 * 1024]
    buffer = connection.get_buffer(len(rest) + 256)
    assert len(buffer) > len(rest), "uvloop continues in another turn once it has filled the buffer"
    buffer[: len(rest)] = rest
    connection.buffer_updated(len(rest))
    await asyncio.sleep(0)
    complete = (first + len(rest)) // (len(data) // len(bodies))
    assert [each.message for each in edge.seen] == bodies[:complete]


@pytest.mark.parametrize("first", [6, 4_000, 64_000])
async def test_a_frame_that_waits_for_memory_keeps_the_bytes_that_were_read(make_edge, first: int) -> None:
    edge: Edge = make_edge(requests=100_000)
    holder, _ = edge.connect()
    feed(holder, make_request(PRODUCE, 3, bytes(80_000)))
    await settle()
    connection, transport = edge.connect()
    bodies = [bytes([number]) * 50_000 for number in range(2)]
    data = b"".join(make_request(PRODUCE, 3, body, number) for number, body in enumerate(bodies))
    left = feed(connection, data[first:], None) if not feed(connection, data[:first]) else data[first:]
    assert not transport.is_reading
    assert len(edge.seen) == 1
    edge.waiting[0].set_result(b"")
    await settle()
    feed(connection, left)
    await settle()
    for number, body in enumerate(bodies):
        assert edge.seen[1 + number].message == body
        edge.waiting[1 + number].set_result(b"%d" % number)
        await settle()
    assert parse_answers(transport.written) == [(0, b"0"), (1, b"1")]
    assert transport.is_reading
    assert edge.requests.used == 0


async def test_an_announced_length_reserves_no_memory(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, (100 * MIB).to_bytes(4, "big") + bytes(10))
    assert edge.requests.used == 0
    feed(connection, bytes(5_000))
    assert edge.requests.used <= 2 * 5_010
    transport.close()
    await settle()


async def test_pipelined_requests_begin_at_once_and_are_answered_in_order(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, b"".join(make_request(PRODUCE, 3, b"%d" % number, number) for number in range(5)))
    await settle()
    assert [each.message for each in edge.seen] == [b"0", b"1", b"2", b"3", b"4"]
    for number in (3, 1, 4, 2):
        edge.waiting[number].set_result(b"%d" % number)
        await settle()
    assert transport.written == b""
    edge.waiting[0].set_result(b"0")
    await settle()
    assert parse_answers(transport.written) == [(number, b"%d" % number) for number in range(5)]
    assert transport.writes == 1


async def test_other_requests_wait_for_all_earlier_ones(edge: Edge) -> None:
    connection, transport = edge.connect()
    data = [make_request(PRODUCE, 3, b"a", 1), make_request(FETCH, 4, b"b", 2), make_request(PRODUCE, 3, b"c", 3)]
    feed(connection, b"".join(data))
    await settle()
    assert [each.message for each in edge.seen] == [b"a"]
    assert not transport.is_reading, "requests behind the one that waits stay in the socket"
    for number in range(3):
        assert len(edge.waiting) == number + 1
        edge.waiting[number].set_result(b"done")
        await settle()
    assert [each.message for each in edge.seen] == [b"a", b"b", b"c"]
    assert [number for number, _ in parse_answers(transport.written)] == [1, 2, 3]
    assert transport.is_reading


async def test_two_pipelined_apis_share_the_order(edge: Edge) -> None:
    connection, _ = edge.connect()
    feed(connection, make_request(PRODUCE, 3, b"a") + make_request(OFFSETS, 1, b"b"))
    await settle()
    assert [each.key for each in edge.seen] == [PRODUCE, OFFSETS]


async def test_the_number_of_begun_requests_is_bounded(make_edge) -> None:
    edge: Edge = make_edge(settings=KafkaSettings(pipelined_requests_max=3))
    connection, transport = edge.connect()
    left = feed(connection, b"".join(make_request(PRODUCE, 3, b"%d" % number, number) for number in range(10)))
    await settle()
    assert len(edge.seen) == 3
    assert not transport.is_reading
    for number in range(10):
        edge.waiting[number].set_result(b"")
        await settle()
        left = feed(connection, left)
        await settle()
        assert len(edge.seen) == min(10, number + 4)
    assert [number for number, _ in parse_answers(transport.written)] == list(range(10))


async def test_a_request_without_an_answer_does_not_block_later_ones(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(PRODUCE, 3, b"", 1) + make_request(PRODUCE, 3, b"", 2))
    await settle()
    edge.waiting[0].set_result(None)
    edge.waiting[1].set_result(b"b")
    await settle()
    assert parse_answers(transport.written) == [(2, b"b")]


async def test_the_client_id_of_a_request_is_that_of_its_header(edge: Edge) -> None:
    edge.is_immediate = True
    connection, _ = edge.connect()
    for name in (b"one", b"one", b"two", None, b""):
        feed(connection, make_request(FETCH, 4, client_id=name))
    assert [each.caller.client_id for each in edge.seen] == ["one", "one", "two", "", ""]
    assert edge.seen[0].caller is edge.seen[1].caller
    assert edge.seen[0].caller[2:] == ("192.0.2.7", "kafka")


REFUSED = {
    "negative": (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
    "empty": (make_frame(b""), "shorter than a request header"),
    "short": (make_frame(bytes(9)), "shorter than a request header"),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "is the client one for Kafka's protocol"),
    "unknown API": (make_request(999, 0), "the API 999 v0 is not served"),
    "negative API": (make_request(-1, 0), "the API -1 v0 is not served"),
    "unknown version": (make_request(HEARTBEAT, 5), "Heartbeat v5 is not served"),
    "negative version": (make_request(HEARTBEAT, -1), "Heartbeat v-1 is not served"),
    "API without handlers": (make_request(ApiKey.JOIN_GROUP, 0), "JoinGroup v0 is not served"),
    "long client id": (make_frame(b"\0\x0c\0\0\0\0\0\0\0\x09ab"), "a client id of 9 bytes"),
    "negative client id": (make_frame(b"\0\x0c\0\0\0\0\0\0\xff\xfeab"), "a client id of -2 bytes"),
    "client id in no encoding": (make_request(HEARTBEAT, 0, client_id=b"\xff\xfe"), "the client id is not UTF-8"),
    "tags end early": (make_frame(make_request(HEARTBEAT, 4)[4:-1] + b"\x01\x00\x09"), "9 bytes at byte 19"),
    "body ends early": (make_request(HEARTBEAT, 0, b"\0\x05ab"), "5 bytes at byte 2"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_input_closes_the_connection_with_one_event(
    edge: Edge, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    data, reason = REFUSED[name]
    caplog.set_level(logging.WARNING)
    connection, transport = edge.connect()
    other, other_transport = edge.connect()
    feed(connection, make_request(PRODUCE, 3, b"first", 1))
    await settle()
    edge.waiting[0].set_result(b"first")
    feed(connection, data + make_request(PRODUCE, 3, b"never"))
    await settle()
    assert parse_answers(transport.written) == [(1, b"first")], "earlier requests are answered"
    assert transport.is_closed
    assert len(edge.seen) == 1
    assert len(close_reasons(caplog)) == 1
    assert reason in close_reasons(caplog)[0]
    assert edge.counters.closed == 1
    feed(other, make_request(PRODUCE, 3, b"other"))
    await settle()
    assert edge.seen[-1].message == b"other"
    assert not other_transport.is_closed


async def test_a_failed_handler_ends_its_connection_only(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = edge.connect()
    feed(connection, b"".join(make_request(PRODUCE, 3, b"", number) for number in (1, 2, 3)))
    await settle()
    edge.waiting[2].set_result(b"c")
    edge.waiting[1].set_result(KeyError("defect"))
    await settle()
    assert not transport.is_closed, "the first request may still be answered"
    edge.waiting[0].set_result(b"a")
    await settle()
    assert parse_answers(transport.written) == [(1, b"a")], "no answer may take the place of another"
    assert transport.is_closed
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError]
    assert edge.counters.errors["Produce"] == 1


async def test_a_broken_invariant_reaches_the_loop(edge: Edge) -> None:
    found: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context))
    connection, transport = edge.connect()
    feed(connection, make_request(PRODUCE, 3))
    await settle()
    edge.waiting[0].set_result(AssertionError("3 > 2"))
    await settle()
    assert [str(context["exception"]) for context in found] == ["3 > 2"]
    assert transport.is_closed


async def test_an_error_without_a_field_in_the_answer_closes_the_connection(
    edge: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(PRODUCE, 3))
    await settle()
    edge.waiting[0].set_result(NotLeader("elsewhere"))
    await settle()
    assert transport.is_closed
    assert "its answer has no error code" in close_reasons(caplog)[0]


async def test_reading_pauses_without_free_memory(make_edge) -> None:
    edge: Edge = make_edge(requests=MIB)
    first, _ = edge.connect()
    second, second_transport = edge.connect()
    feed(first, make_request(PRODUCE, 3, bytes(MIB - 100_000), 1))
    await settle()
    left = feed(second, make_request(PRODUCE, 3, bytes(300_000), 2) + make_request(PRODUCE, 3, b"x", 3))
    assert not second_transport.is_reading
    assert edge.requests.used <= MIB
    assert edge.requests.waiting_count == 1
    edge.waiting[0].set_result(b"")
    await settle()
    assert feed(second, left) == b""
    await settle()
    assert [len(each.message) for each in edge.seen] == [MIB - 100_000, 300_000, 1]
    for future in edge.waiting[1:]:
        future.set_result(b"")
    await settle()
    assert edge.requests.used == 0


async def test_small_requests_do_not_wait_for_large_ones(make_edge) -> None:
    """A commit of many partitions is one of them."""
    edge: Edge = make_edge(requests=MIB, reserve=MIB // 8)
    first, _ = edge.connect()
    second, _ = edge.connect()
    third, third_transport = edge.connect()
    feed(first, make_request(PRODUCE, 3, bytes(MIB), 1)[:-1])
    feed(second, make_request(PRODUCE, 3, bytes(100_000), 2))
    assert edge.requests.waiting_count == 1, "a frame above 64 KiB does not take the reserve"
    assert feed(third, make_request(PRODUCE, 3, bytes(60_000), 3)) == b""
    await settle()
    assert [len(each.message) for each in edge.seen] == [60_000]
    assert third_transport.is_reading
    used = edge.requests.used
    edge.waiting[0].set_result(b"")
    await settle()
    assert used - edge.requests.used >= 60_000


async def test_a_closed_connection_releases_its_memory(make_edge) -> None:
    edge: Edge = make_edge(requests=MIB)
    first, first_transport = edge.connect()
    second, second_transport = edge.connect()
    feed(first, make_request(PRODUCE, 3, bytes(MIB), 1)[:-1])
    feed(second, make_request(PRODUCE, 3, bytes(300_000), 2))
    assert edge.requests.waiting_count == 1
    second_transport.close()
    first_transport.close()
    await settle()
    assert edge.requests.used == edge.requests.waiting_count == 0
    assert edge.counters.connections == 0


async def test_small_pipelined_frames_count_towards_the_budget_from_a_bound_on(edge: Edge) -> None:
    connection, _ = edge.connect()
    feed(connection, b"".join(make_request(PRODUCE, 3, bytes(2000), number) for number in range(20)))
    await settle()
    assert len(edge.seen) == 20
    assert edge.requests.used >= 20 * 2000 - 16 * 1024
    for future in edge.waiting:
        future.set_result(b"")
    await settle()
    assert edge.requests.used == 0


async def test_a_client_that_does_not_read_gets_no_further_answers(edge: Edge) -> None:
    edge.is_immediate = True
    connection, transport = edge.connect()
    connection.pause_writing()
    left = feed(connection, make_request(FETCH, 4, b"a", 1) + make_request(FETCH, 4, b"b", 2))
    assert edge.seen == []
    assert not transport.is_reading
    connection.resume_writing()
    feed(connection, left)
    assert parse_answers(transport.written) == [(1, b"a"), (2, b"b")]


async def test_requests_that_arrive_at_once_do_not_hold_the_loop(make_edge) -> None:
    """Each takes a tenth of a turn's time; two clients send 100 at once each."""
    looks = itertools.count()
    edge: Edge = make_edge(clock=lambda: next(looks) * TURN_S / 10)
    edge.is_immediate = True
    clients = [edge.connect() for _ in range(3)]
    for connection, _ in clients[:2]:
        feed(connection, b"".join(make_request(FETCH, 4, b"", number) for number in range(100)))
    assert len(edge.seen) <= 10
    for turn in range(1, 4):
        await asyncio.sleep(0)
        assert len(edge.seen) <= 10 + turn * 10
    feed(clients[2][0], make_request(FETCH, 4, b"other", 7))
    await asyncio.sleep(0)
    assert parse_answers(clients[2][1].written) == [(7, b"other")]
    answered = [len(parse_answers(transport.written)) for _, transport in clients[:2]]
    assert max(answered) < 40
    assert abs(answered[0] - answered[1]) <= 10
    await until(lambda: len(edge.seen) == 201)
    for _, transport in clients[:2]:
        assert parse_answers(transport.written) == [(number, b"") for number in range(100)]
        assert transport.is_reading


async def test_many_connections_share_the_time_of_a_turn(make_edge) -> None:
    looks = itertools.count()
    edge: Edge = make_edge(clock=lambda: next(looks) * TURN_S / 10)
    edge.is_immediate = True
    clients = [edge.connect() for _ in range(100)]
    for connection, _ in clients:
        feed(connection, b"".join(make_request(FETCH, 4, b"", number) for number in range(20)))
    assert len(edge.seen) <= 10
    await until(lambda: len(edge.seen) == 2_000)
    for _, transport in clients:
        assert parse_answers(transport.written) == [(number, b"") for number in range(20)]


async def test_an_error_of_one_connection_leaves_no_other_waiting(make_edge, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = itertools.count()
    edge: Edge = make_edge(clock=lambda: next(looks) * TURN_S)
    edge.is_immediate = True
    (failing, _), (other, answers) = edge.connect(), edge.connect()
    for connection in (failing, other):
        feed(connection, b"".join(make_request(FETCH, 4, b"", number) for number in range(5)))
    resume = KafkaConnection.begin_kept_requests

    def fail(connection: KafkaConnection) -> None:
        if connection is failing:
            raise RuntimeError("a defect")
        resume(connection)

    monkeypatch.setattr(KafkaConnection, "begin_kept_requests", fail)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    await until(lambda: len(parse_answers(answers.written)) == 5)


async def test_a_connection_that_waits_for_its_turn_can_be_lost(make_edge) -> None:
    looks = itertools.count()
    edge: Edge = make_edge(clock=lambda: next(looks) * TURN_S)
    edge.is_immediate = True
    (lost, transport), (other, answers) = edge.connect(), edge.connect()
    for connection in (lost, other):
        feed(connection, b"".join(make_request(FETCH, 4, b"", number) for number in range(5)))
    transport.abort()
    await until(lambda: len(parse_answers(answers.written)) == 5)
    assert len(edge.seen) < 10


async def test_kept_requests_of_a_client_that_has_disconnected_do_not_begin(make_edge) -> None:
    """The transport closes in the turn before its protocol learns of it."""
    looks = itertools.count()
    edge: Edge = make_edge(clock=lambda: next(looks) * TURN_S)
    edge.is_immediate = True
    connection, transport = edge.connect()
    feed(connection, b"".join(make_request(FETCH, 4, b"", number) for number in range(5)))
    begun = len(edge.seen)
    transport.is_closed = True
    await settle()
    assert len(edge.seen) == begun < 5
    connection.connection_lost(None)


async def test_an_answer_to_a_client_that_has_disconnected_is_discarded(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(FETCH, 4))
    transport.is_closed = True
    edge.waiting[0].set_result(b"late")
    await until(lambda: connection.is_idle)
    assert edge.counters.bytes_out == 0
    connection.connection_lost(None)


async def test_large_answers_to_the_requests_of_one_read_pause_it(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport pauses the protocol during a write, as those of uvloop do."""
    edge.is_immediate, edge.repeats = True, UNCHARGED_ANSWER_BYTES_MAX
    connection, transport = edge.connect()
    write = transport.writelines

    def write_and_pause(buffers: Any) -> None:
        write(buffers)
        connection.pause_writing()

    monkeypatch.setattr(transport, "writelines", write_and_pause)
    assert feed(connection, b"".join(make_request(FETCH, 4, b"x", number) for number in range(5))) == b""
    for count in range(1, 6):
        assert len(edge.seen) == count
        connection.resume_writing()
    assert [number for number, _ in parse_answers(transport.written)] == [0, 1, 2, 3, 4]


async def test_large_answers_hold_memory_until_they_are_read(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(FETCH, 4))
    connection.pause_writing()
    edge.waiting[0].set_result(bytes(2 * UNCHARGED_ANSWER_BYTES_MAX))
    await settle()
    assert edge.answers.used == len(transport.written)
    connection.resume_writing()
    assert edge.answers.used == 0


async def test_a_stalled_reader_is_disconnected(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    edge.is_immediate = True
    connection, transport = edge.connect()
    feed(connection, make_request(FETCH, 4, bytes(1000)))
    now = asyncio.get_running_loop().time()
    transport.unsent = 900
    connection.sweep(now)
    transport.unsent = 800
    connection.sweep(now + STALL_S + 1)
    assert not transport.is_closed, "some bytes were read"
    connection.sweep(now + 2 * STALL_S)
    assert not transport.is_closed
    connection.sweep(now + 2 * STALL_S + 2)
    assert transport.is_closed
    assert close_reasons(caplog) == ["800 bytes of answers are not read, or too slowly, for 60 s"]


async def test_a_client_that_holds_memory_must_read(edge: Edge) -> None:
    edge.is_immediate = True
    connection, transport = edge.connect()
    now = asyncio.get_running_loop().time() + 10 * STALL_S
    feed(connection, make_request(FETCH, 4, bytes(10 * MIB)))
    transport.unsent = 9 * MIB
    connection.sweep(now)
    assert not transport.is_closed, "the answer is new"
    while not transport.is_closed and transport.unsent > MIB:
        transport.unsent -= 5 * ANSWER_BYTES_PER_S_MIN + 1
        now += 5.0
        connection.sweep(now)
    assert not transport.is_closed, "it was fast enough"
    begun = now
    while not transport.is_closed:
        transport.unsent -= 4 * ANSWER_BYTES_PER_S_MIN
        now += 5.0
        connection.sweep(now)
    assert now - begun == STALL_S + 5.0


async def test_an_idle_connection_is_closed_without_an_event(make_edge, caplog: pytest.LogCaptureFixture) -> None:
    edge: Edge = make_edge(settings=KafkaSettings(idle_ms_max=60_000))
    connection, transport = edge.connect()
    now = asyncio.get_running_loop().time()
    feed(connection, make_request(FETCH, 4))
    await settle()
    await edge.connections.sweep(now + 100)
    await edge.connections.sweep(now + 200)
    assert not transport.is_closed, "a request is pending"
    edge.waiting[0].set_result(b"")
    await settle()
    await edge.connections.sweep(now + 259)
    assert not transport.is_closed
    await edge.connections.sweep(now + 261)
    assert transport.is_closed
    assert close_reasons(caplog) == []


async def test_a_frame_that_holds_memory_must_arrive_in_time(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(PRODUCE, 3, bytes(MIB))[:20_000])
    now = asyncio.get_running_loop().time()
    connection.sweep(now + 5)
    feed(connection, bytes(90_000))
    connection.sweep(now + 10)
    assert not transport.is_closed
    feed(connection, bytes(1_000))
    connection.sweep(now + 15)
    assert transport.is_closed
    assert "less than 16384 bytes in a second" in close_reasons(caplog)[0]
    await settle()
    assert edge.requests.used == 0


async def test_a_muted_client_is_not_slow(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(PRODUCE, 3, bytes(MIB))[:20_000])
    connection._mute(100)
    now = asyncio.get_running_loop().time()
    for seconds in (5, 10, 15):
        connection.sweep(now + seconds)
    assert not transport.is_closed


def test_a_frame_allocates_memory_for_its_first_bytes_alone() -> None:
    frame = IncomingFrame(MIB, memoryview(bytes(200_000)), is_charged=False)
    assert (frame.capacity, frame.missing) == (200_000, 400_000)


async def test_connections_beyond_the_bound_are_closed(make_edge) -> None:
    edge: Edge = make_edge(settings=KafkaSettings(connections_max=2))
    transports = [edge.connect()[1] for _ in range(3)]
    await settle()
    assert [transport.is_closed for transport in transports] == [False, False, True]
    assert (edge.counters.connections, edge.counters.connections_refused) == (2, 1)


async def test_waiting_requests_are_cancelled_when_their_client_disconnects(edge: Edge) -> None:
    for key in (FETCH, ApiKey.SYNC_GROUP, PRODUCE):
        connection, transport = edge.connect()
        feed(connection, make_request(key, 4))
        await settle()
        transport.close()
        await settle()
    assert [future.cancelled() for future in edge.waiting] == [True, True, False]


async def test_handlers_learn_that_the_connection_of_a_request_is_lost(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(FETCH, 4))
    await settle()
    lost: list[str] = []
    assert edge.seen[0].connection is not None
    edge.seen[0].connection.lost_callbacks.append(lambda: lost.append("session"))
    edge.waiting[0].set_result(b"")
    await settle()
    assert lost == []
    transport.close()
    await settle()
    assert lost == ["session"]


async def test_a_large_request_is_decoded_in_a_thread(make_edge, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, decode = [], schemas.decode

    def decode_and_note(*arguments):
        threads.append(threading.current_thread() is threading.main_thread())
        return decode(*arguments)

    monkeypatch.setattr(schemas, "decode", decode_and_note)
    edge: Edge = make_edge()
    connection, _ = edge.connect()
    for count in (1, 10_000):
        body = count.to_bytes(4, "big") + b"\0\5topic" * count + b"\0"
        feed(connection, make_request(ApiKey.METADATA, 4, body, count))
        await until(lambda: len(edge.waiting) != 0)
        assert len(edge.seen[-1].message.topics) == count
        edge.waiting.pop().set_exception(NotLeader("to end the request"))
        await settle()
        connection, _ = edge.connect()
    assert threads == [True, False]


async def test_a_stop_answers_requests_that_have_begun(edge: Edge) -> None:
    busy, busy_transport = edge.connect()
    _, idle_transport = edge.connect()
    feed(busy, make_request(FETCH, 4, b"", 1))
    await settle()
    stopping = asyncio.ensure_future(edge.connections.stop(5.0, 0.0))
    await settle()
    await until(lambda: idle_transport.is_half_closed)
    assert not busy_transport.is_half_closed
    edge.waiting[0].set_result(b"last")
    await settle()
    assert parse_answers(busy_transport.written) == [(1, b"last")]
    assert busy_transport.is_half_closed
    feed(busy, make_request(FETCH, 4))
    assert len(edge.seen) == 1, "nothing begins after the last answer"
    idle_transport.close()
    busy_transport.close()
    await stopping


async def test_a_stop_closes_connections_whose_requests_do_not_end(edge: Edge) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(PRODUCE, 3))
    await settle()
    await edge.connections.stop(0.02, 0.0)
    assert transport.is_closed
    assert edge.waiting[0].cancelled()
    assert len(edge.connections) == 0
