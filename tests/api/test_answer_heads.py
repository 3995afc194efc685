"""Answers written at once with a head that is cached for one second, and answers that aiohttp sends."""

import asyncio

import orjson
import pytest
from aiohttp.http import SERVER_SOFTWARE

from raftlog.api.http.server import answer_heads
from raftlog.api.http.server.answer_heads import head_of
from tests.api.raw import parse_answer, request_head

SECOND = 1_700_000_000
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock of the cached heads by one that stands still."""
    now = [SECOND + 0.5]
    monkeypatch.setattr(answer_heads.time, "time", lambda: now[0])
    answer_heads._heads.clear()
    return now


def test_a_head_is_cached_until_its_second_ends(clock):
    first = head_of(200, "OK", JSON)
    assert first == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
        b"Server: %b\r\nContent-Length: " % SERVER_SOFTWARE.encode()
    )
    assert head_of(200, "OK", dict(JSON)) is first
    clock[0] += 0.5
    assert b"Date: Tue, 14 Nov 2023 22:13:21 GMT" in head_of(200, "OK", JSON)


def test_each_status_and_set_of_headers_has_its_own_head(clock):
    first = head_of(200, "OK", JSON)
    assert head_of(404, "Not Found", JSON).startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert b"\r\nX-Raftlog-Leader: 2\r\n" in head_of(200, "OK", {**JSON, "X-Raftlog-Leader": "2"})
    assert b"\r\nX-Raftlog-Leader: 3\r\n" in head_of(200, "OK", {**JSON, "X-Raftlog-Leader": "3"})
    assert head_of(200, "OK", JSON) is first


def test_the_number_of_cached_heads_is_bounded(clock):
    for number in range(10 * answer_heads._HEADS_MAX):
        assert b": %d\r\n" % number in head_of(200, "OK", {"X-Raftlog-Next-Offset": str(number)})
        assert len(answer_heads._heads) <= answer_heads._HEADS_MAX


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\0b"])
def test_a_header_value_with_a_line_end_is_refused(value):
    with pytest.raises(ValueError, match="line end"):
        head_of(200, "OK", {"X-Raftlog-Next-Offset": value})


async def test_both_ways_of_answering_return_the_same_on_one_connection(api):
    await api.create_topic()
    reader, writer = await asyncio.open_connection(*api.address)
    answers = []
    for method, version in (("GET", "HTTP/1.1"), ("HEAD", "HTTP/1.1"), ("GET", "HTTP/1.1"), ("GET", "HTTP/1.0")):
        alive = ("Connection: keep-alive",) if version == "HTTP/1.0" else ()
        writer.write(request_head(method, "/topics", "Host: 127.0.0.1", *alive, version=version))
        top = await reader.readuntil(b"\r\n\r\n")
        length = int(parse_answer(top).headers["content-length"])
        answers.append(parse_answer(top + (await reader.readexactly(length) if method == "GET" else b"")))
    writer.close()
    assert [answer.body for answer in answers] == [["t"], b"", ["t"], ["t"]]
    first = answers[0].headers
    for answer in answers:
        assert (answer.status, answer.headers["content-type"]) == (200, first["content-type"])
        assert answer.headers.keys() - {"connection"} == first.keys()
        assert answer.headers["server"] == first["server"]
    assert answers[3].headers["connection"] == "keep-alive"


async def test_pipelined_requests_are_answered_in_order_and_the_last_answer_closes_the_connection(api):
    await api.create_topic()
    reader, writer = await asyncio.open_connection(*api.address)
    records = [orjson.dumps({"records": [{"value": number}]}) for number in range(20)]
    for place, body in enumerate(records):
        last = ("Connection: close",) if place == len(records) - 1 else ()
        headers = ("Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(body)}", *last)
        writer.write(request_head("POST", "/topics/t", *headers) + body)
    async with asyncio.timeout(10):
        sent = await reader.read()
    writer.close()
    bodies = [parse_answer(b"HTTP/1.1 " + part).body for part in sent.split(b"HTTP/1.1 ")[1:]]
    assert [body["offsets"][0]["offset"] for body in bodies] == list(range(20))
    assert sent.count(b"Connection: close") == 1
