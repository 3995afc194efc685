"""Requests whose head was accepted before: answered without parsing, with the same checks, and never misread."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.http_parser import HttpRequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from raftlog.api.http.server import app as app_module
from raftlog.api.http.server import connection as connection_module
from raftlog.api.http.server import repeated_requests as requests_module
from raftlog.api.http.server.app import HttpApp
from raftlog.api.http.server.repeated_requests import FoundRequest, RepeatedRequest, RepeatedRequests, read_head
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.records import NewRecord, build_batch
from raftlog.security.permissions import (
    USER_PREFIX,
    Acl,
    AclEffect,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
)
from raftlog.security.sasl import MECHANISMS
from tests.api.conftest import Api
from tests.api.raw import RawAnswer, parse_answer, request_head
from tests.waiting import until

ME = Caller(ANONYMOUS, "", "127.0.0.1", "http")
JSON = "Content-Type: application/json"
BATCHES = "Content-Type: application/vnd.raftlog.batches"
ONE = b'{"records":[{"value":1}]}'
TWO = b'{"records":[{"value":1},{"value":"two"}]}'
ALICE = aiohttp.encode_basic_auth("alice", "pencil")


class Client:
    """Raw connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, api: Api) -> "Client":
        return cls(*await asyncio.open_connection(*api.address))

    async def send(self, *pieces: bytes) -> None:
        """Send pieces, each after the server had time to receive the one before it."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.wait_for(self._settle(), 5)

    async def _settle(self) -> None:
        """Let the server's loop, which is this one, receive what was sent."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def read_answer(self) -> RawAnswer:
        """Return the next answer, whose head has a `Content-Length`."""
        async with asyncio.timeout(10):
            head = await self._reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            return parse_answer(head + await self._reader.readexactly(size))

    async def is_closed(self) -> bool:
        async with asyncio.timeout(10):
            return not await self._reader.read(1)

    async def post(self, body: bytes, *headers: str, target: str = "/topics/t") -> RawAnswer:
        await self.send(post(body, *headers, target=target))
        return await self.read_answer()

    async def post_batches(self, body: bytes, *headers: str) -> RawAnswer:
        await self.send(post(body, *headers, target="/topics/t/partitions/0", kind=BATCHES))
        return await self.read_answer()

    def close(self) -> None:
        self._writer.close()


def post(body: bytes, *headers: str, target: str = "/topics/t", kind: str = JSON) -> bytes:
    """Return a request as producers send it."""
    return request_head("POST", target, "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers, kind) + body


Connect = Callable[[Api], Awaitable[Client]]


@pytest.fixture
async def connect() -> Any:
    """Return a function that connects a client."""
    clients: list[Client] = []

    async def connect_one(api: Api) -> Client:
        clients.append(await Client.connect(api))
        return clients[-1]

    yield connect_one
    for client in clients:
        client.close()


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the list of bodies that were answered without parsing their heads."""
    bodies: list[bytes] = []
    original = HttpApp.answer_repeated

    async def answer_repeated(self: HttpApp, connection: Any, found: FoundRequest) -> Any:
        bodies.append(found.body)
        return await original(self, connection, found)

    monkeypatch.setattr(HttpApp, "answer_repeated", answer_repeated)
    return bodies


async def values(api: Api, topic: str = "t") -> list[Any]:
    _, found = await api.get(f"/topics/{topic}/partitions/0/records?offset=0")
    return [record["value"] for record in found]


async def test_the_second_request_with_a_head_is_not_parsed(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    await api.create_topic()
    client = await connect(api)
    first = await client.post(ONE)
    assert not repeated
    second, third = await client.post(ONE), await client.post(TWO)  # of another length
    assert repeated == [ONE, TWO]
    assert first.status == second.status == third.status == 200
    assert second.headers.keys() == first.headers.keys()
    assert [row["offset"] for row in second.body["offsets"] + third.body["offsets"]] == [1, 2, 3]
    assert await values(api) == [1, 1, 1, "two"]


async def test_stored_batches_of_a_repeated_request(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    await api.create_topic()
    client, other = await connect(api), await connect(api)
    batches = [bytes(build_batch([NewRecord(b"%d" % number)])) for number in range(3)]
    answers = [await client.post_batches(batch) for batch in batches]
    parsed = await other.post_batches(batches[0], "X-Other: 1")
    assert repeated == batches[1:]
    assert [each.body["offsets"][0]["offset"] for each in (*answers, parsed)] == [0, 1, 2, 3]
    assert answers[2].headers.keys() == parsed.headers.keys()
    assert {each.headers["x-raftlog-topic-id"] for each in answers} == {parsed.headers["x-raftlog-topic-id"]}
    invalid = await client.post_batches(batches[0][:-1] + b"?")
    assert (invalid.status, len(repeated)) == (400, 3)
    assert await values(api) == [0, 1, 2, 0]


async def test_another_connection_repeats_a_head_too(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    await api.create_topic()
    await (await connect(api)).post(ONE)
    other = await connect(api)
    await until(lambda: [each.is_waiting for each in api.server._connections._open] == [True, True])
    assert (await other.post(ONE)).status == 200
    assert repeated == [ONE]


async def test_errors_of_a_repeated_request(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    """The errors are those of a parsed request, and the connection stays open."""
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    for body in (b"", b"{", b'{"records":[]}', b'{"records":[{"value":1,"x":2}]}', b'{"records":[{"partition":9}]}'):
        again = await client.post(body)
        parsed = await (await connect(api)).post(body, "X-Other: 1")
        assert (again.status, again.body) == (parsed.status, parsed.body)
        assert again.status >= 400
    assert len(repeated) == 5
    await api.broker.delete_topic("t", deadline=deadline_in(10_000))
    assert (await client.post(ONE)).body["error_code"] == 40401
    assert not await values_or_none(api)


async def values_or_none(api: Api) -> bool:
    return (await api.get("/topics/t"))[0] == 200


async def test_a_body_in_pieces(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    """Python's own client sends the body after the head: together they are one repeated request."""
    await api.create_topic()
    client = await connect(api)
    head, body = post(TWO)[: -len(TWO)], TWO
    for pieces in ((head, body), (head, body), (head, body[:9], body[9:]), (head[:20], head[20:], body), (head, body)):
        await client.send(*pieces)
        assert (await client.read_answer()).status == 200
    # The third and the fourth were parsed. After a head in pieces a connection parses all its requests.
    assert repeated == [TWO]
    assert len(await values(api)) == 10


async def test_a_body_that_never_arrives_is_refused_in_time(
    start_api: Any, connect: Connect, repeated: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_HELD_S_MAX", 0.01)
    api = await start_api(body_timeout_ms=50)
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    await client.send(post(ONE)[: -len(ONE)])
    assert (await client.read_answer()).status == 408
    assert not repeated
    assert await values(api) == [1]


async def test_a_held_head_keeps_its_connection_open(start_api: Any, connect: Connect, repeated: list[bytes]) -> None:
    """Neither the idle time nor the stop of the server closes a connection whose request is arriving."""
    api = await start_api(keepalive_timeout_s=0.05)
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    await client.send(post(ONE)[: -len(ONE)])
    (connection,) = api.server._connections._open
    assert not connection.is_waiting
    connection._next_keepalive_close_time = 0.0
    connection._process_keepalive()
    await client.send(ONE)
    assert (await client.read_answer()).status == 200
    assert repeated == [ONE]


async def test_pipelined_requests_are_answered_in_order(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    await client.send(post(ONE), post(TWO) + post(ONE))
    offsets = [(await client.read_answer()).body["offsets"][0]["offset"] for _ in range(3)]
    assert offsets == [1, 2, 4]
    assert repeated == [ONE]


async def test_a_body_is_never_read_as_a_request(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    """The bytes of a body equal a known request, and arrive by themselves, after heads with unusual lengths."""
    await api.create_topic()
    await (await connect(api)).post(ONE)
    inner = post(ONE)
    heads = [
        request_head("POST", "/topics/t", "Host: 127.0.0.1", f"{length}{len(inner)}{space}", JSON)
        for length, space in (("Content-Length: ", ""), ("content-length:", ""), ("CONTENT-LENGTH:  ", " "))
    ]
    heads.append(request_head("POST", "/topics/t", "Host: 127.0.0.1", "Transfer-Encoding: chunked", JSON))
    for head in heads:
        client = await connect(api)
        await client.post(ONE, "Accept: */*")
        chunk = b"%x\r\n" % len(inner)
        await client.send(*([head, chunk, inner, b"\r\n0\r\n\r\n"] if b"chunked" in head else [head, inner]))
        assert (await client.read_answer()).body["error_code"] == 42203  # not JSON
    assert await values(api) == [1] * 5
    assert not repeated[len(heads) :]


async def test_a_permission_that_ends(start_api: Any, connect: Connect, repeated: list[bytes]) -> None:
    api = await start_api({"authorization": "acl"})
    await api.create_topic()
    acl = Acl(
        AclResourceType.TOPIC,
        PatternType.LITERAL,
        "t",
        USER_PREFIX + ANONYMOUS,
        "*",
        AclOperation.WRITE,
        AclEffect.ALLOW,
    )
    await api.broker.security.acls.create([acl], caller=ME, deadline=deadline_in(10_000))
    client = await connect(api)
    assert [(await client.post(ONE)).status for _ in range(2)] == [200, 200]
    await api.broker.security.acls.delete([AclFilter()], caller=ME, deadline=deadline_in(10_000))
    refused = await client.post(ONE)
    assert (refused.status, refused.body["error_code"]) == (403, 40301)
    assert len(repeated) == 2


async def test_a_login_is_needed_for_each_connection(start_api: Any, connect: Connect, repeated: list[bytes]) -> None:
    """A head with a valid login is not enough: the connection must have logged in, and the user must be unchanged."""
    api = await start_api(mechanisms=MECHANISMS)
    users = api.broker.security.users
    await users.create("alice", "pencil", caller=ME, deadline=deadline_in(10_000))
    await api.create_topic()
    login = f"Authorization: {ALICE}"
    client = await connect(api)
    assert [(await client.post(ONE, login)).status for _ in range(3)] == [200] * 3
    assert len(repeated) == 2
    assert (await client.post(ONE)).status == 401
    assert (await client.post(ONE, login)).status == 200  # another login, by the usual way
    assert len(repeated) == 2
    await users.delete("alice", caller=ME, deadline=deadline_in(10_000))
    assert (await client.post(ONE, login)).status == 401
    assert (await (await connect(api)).post(ONE, login)).status == 401
    assert len(repeated) == 2


async def test_a_stop_closes_the_connection_after_the_answer(
    api: Api, connect: Connect, repeated: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated request that the stop meets is answered, and the answer says that the connection ends."""
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    produce, entered, go_on = api.broker.produce_records, asyncio.Event(), asyncio.Event()

    async def produce_later(*args: Any, **options: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await produce(*args, **options)

    monkeypatch.setattr(api.broker, "produce_records", produce_later)
    await client.send(post(ONE))
    async with asyncio.timeout(5):
        await entered.wait()
    stopping = asyncio.create_task(api.server.stop(5.0))
    await until(api.server._ends.stopping.done)
    go_on.set()
    answered = await client.read_answer()
    assert (answered.status, answered.headers["connection"], len(repeated)) == (200, "close", 1)
    assert await client.is_closed()
    await stopping


async def test_an_unexpected_error_closes_the_connection(
    api: Api, connect: Connect, repeated: list[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    monkeypatch.setattr(connection_module, "encode_json_answer", lambda _: 1 / 0)
    await client.send(post(ONE))
    assert await client.is_closed()
    assert "A repeated request failed" in caplog.text
    assert len(repeated) == 1


async def test_an_answer_is_written_although_the_server_stops_at_the_same_time(
    api: Api, connect: Connect, repeated: list[bytes]
) -> None:
    """The wait of the stop was cancelled in the turn in which the request ended."""
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    (connection,) = api.server._connections._open
    connection._handler_waiter = asyncio.get_running_loop().create_future()
    connection._handler_waiter.cancel()
    assert (await client.post(ONE)).status == 200
    assert len(repeated) == 1


async def test_what_follows_a_held_head_fails_alone(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    """The body comes with the beginning of an invalid request: the first request is answered, then the second."""
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    await client.send(post(ONE)[: -len(ONE)], ONE + b"\0")
    assert [(await client.read_answer()).status for _ in range(2)] == [200, 400]
    assert not repeated
    assert await values(api) == [1, 1]


async def test_a_closing_connection_begins_no_request(api: Api, connect: Connect, repeated: list[bytes]) -> None:
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    await client.send(post(ONE)[: -len(ONE)])
    (connection,) = api.server._connections._open
    connection._force_close = True
    await client.send(ONE)
    assert not repeated
    assert await values(api) == [1]


async def test_durations_begin_with_the_head(
    api: Api, connect: Connect, repeated: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    now = 100.0
    monkeypatch.setattr(requests_module, "stopwatch", lambda: now)
    monkeypatch.setattr(app_module, "stopwatch", lambda: now)
    times = api.server._app.request_metrics.times["produce"]
    before = times.sum_s
    await client.send(post(ONE)[: -len(ONE)])
    now = 100.25
    await client.send(ONE)
    assert (await client.read_answer()).status == 200
    assert repeated == [ONE]
    assert times.sum_s - before == pytest.approx(0.25)


async def test_a_broker_with_quotas_parses_all_requests(
    api: Api, connect: Connect, repeated: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.create_topic()
    client = await connect(api)
    await client.post(ONE)
    monkeypatch.setattr(api.broker.security.rates, "is_on", True)
    assert (await client.post(ONE)).status == 200
    assert not repeated


HEADER_NAMES = st.sampled_from(
    [
        "Host",
        "content-length",
        "Content-Length",
        "Content-length",
        "Accept",
        "Transfer-Encoding",
        "Expect",
        "Connection",
    ]
)
HEADER_VALUES = st.one_of(
    st.integers(0, 40).map(str),
    st.sampled_from(
        ["chunked", "keep-alive", "close", "Upgrade", "100-continue", "+3", "3 ", " 3", "3,3", "0x3", "\t3", ""]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8),
)
LINES = st.builds("{}{}{}".format, HEADER_NAMES, st.sampled_from([": ", ":", " : ", ":\t"]), HEADER_VALUES)
REQUEST_LINES = st.sampled_from(
    [
        "POST /topics/t HTTP/1.1",
        "GET / HTTP/1.1",
        "POST /topics/t HTTP/1.0",
        "POST  / HTTP/1.1",
        "POST / HTTP/1.1 ",
        "PUT / HTTP/1.1",
    ]
)


class ParserProtocol(asyncio.Protocol):
    """Protocol that aiohttp's parser needs beside it."""

    _reading_paused = False

    def pause_reading(self) -> None: ...

    def resume_reading(self, resume_parser: bool = True) -> None: ...


@example("POST /topics/t HTTP/1.1", ["content-length: 0"], "\r\n", b"")
@example("POST /topics/t HTTP/1.1", ["Host: h", "content-length: 3"], "\r\n", b"abc")
@given(REQUEST_LINES, st.lists(LINES, max_size=4), st.sampled_from(["\r\n", "\n", "\r\n "]), st.binary(max_size=40))
def test_a_head_that_is_read_here_means_the_same_to_the_parser(
    first: str, lines: list[str], end: str, rest: bytes
) -> None:
    """Unless the parser refuses it, as one without `Host`: only heads of accepted requests are remembered."""
    head = (end.join((first, *lines)) + "\r\n\r\n").encode()
    arrived = read_head(head + rest)
    if arrived is None:
        return
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(ParserProtocol(), loop, 2**16)
        try:
            messages, upgraded, _ = parser.feed_data(arrived.head + bytes(arrived.body_bytes))
        except BadHttpMessage:
            return
        assert len(messages) == 1
        assert not upgraded
        message, body = messages[0]
        assert int(message.headers.get("Content-Length", 0)) == arrived.body_bytes
        assert body.is_eof()
        assert not message.should_close
        more, _, _ = parser.feed_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")  # the parser is between requests
        assert [each.path for each, _ in more] == ["/"]
    finally:
        loop.close()


async def _never(_body: bytes) -> bytes:
    raise AssertionError


NOTHING = RepeatedRequest(_never, None, (), (), "produce")


def test_heads_are_kept_up_to_a_number_and_a_size() -> None:
    heads = RepeatedRequests(100)
    requests = [post(ONE, target=f"/topics/t{number}") for number in range(1025)]
    for request in requests:
        arrived = read_head(request)
        assert arrived is not None
        heads.remember(arrived, NOTHING)
    assert [heads.find(request) is not None for request in (requests[0], requests[1023], requests[1024])] == [
        False,
        False,
        True,
    ]
    assert read_head(post(ONE, "User-Agent: " + "x" * 1000)) is None


def test_only_one_whole_small_request_is_found() -> None:
    heads = RepeatedRequests(len(TWO) - 1)
    arrived = read_head(post(ONE))
    assert arrived is not None
    heads.remember(arrived, NOTHING)
    found = heads.find(post(ONE))
    assert found is not None
    assert (found.body, found.body_bytes) == (ONE, len(ONE))
    alone = heads.find(post(ONE)[: -len(ONE)])
    assert alone is not None
    assert (alone.body, alone.body_bytes) == (b"", len(ONE))
    for other in (post(TWO), post(ONE)[:-1], post(ONE) + b"x", post(ONE)[1:], b"", post(ONE)[:30], b"x" * 99):
        assert heads.find(other) is None
