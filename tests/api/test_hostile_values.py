"""Values that decoders, encoders and recursion fail on, at every place of every request: none is answered with 500.

The places come from the OpenAPI document, so an operation that is added is tried as well.
"""

import asyncio
import itertools
import re
from pathlib import Path

import orjson
import pytest

import raftlog.api.http
from raftlog.records.json_record import JSON_DEPTH_MAX
from tests.api.described import DOCUMENT, example, operations, places, replaced, target
from tests.api.raw import answer_to, head, post

OPERATIONS = {f"{each.method} {each.path}": each for each in operations(DOCUMENT)}
PARTS = sorted({each.path.split("/")[1] for each in OPERATIONS.values()})
JSON = "Content-Type: application/json"
ARGUMENTS = {
    "broker": "1",
    "cluster": "-",
    "consumer": "c",
    "group": "g",
    "instance": "i",
    "namespace": "kafka",
    "partition": "0",
    "topic": "t",
}
BYTES = [
    b"\xff",
    b'"\xff"',
    b"\xed\xa0\x80",
    "ä".encode(),
    b"[::1",
    b"9" * 5000,
    b'"%b"' % (b"9" * 5000),
    b"a" * 8000,
    b"",
]
HEADERS = [
    "Accept",
    "Content-Encoding",
    "Content-Type",
    "Expect",
    "Host",
    "If-Match",
    "If-None-Match",
    "Origin",
    "Sec-Fetch-Site",
    "X-Raftlog-Headers",
]
IN_PATH = [
    b"%FF",
    b"\xff",
    b"%00",
    b"%ED%A0%80",
    "ä".encode(),
    b"%",
    b"%2F",
    b"..",
    b"{}",
    b"9" * 5000,
    b"-0",
    b"%D9%A3",
]
IN_QUERY = [*IN_PATH, b"", b"1e5", b"9223372036854775808", b"0001-01-01T00:00:00%2B23:59", b"9999-12-31T23:59:59-23:59"]


def nested(depth, open_=b"[", close=b"]"):
    return open_ * depth + (b"1" if open_ != b"[" else b"") + close * depth


VALUES = [
    *(nested(depth) for depth in (100, 253, 254, 255, 256, 300, 900, 1000, 1020, 1024, 1100, 100_000)),
    *(nested(depth, b'{"a":', b"}") for depth in (254, 255, 1000)),
    b"null",
    b"true",
    b"-1",
    b"1.5",
    b"1e400",
    b"9223372036854775808",
    b"9" * 5000,
    b'""',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"%b"' % (b"(" * 5000),
    b'"%b"' % (b"x" * 40_000),
    b'"9999-12-31T23:59:59-23:59"',
    b"[null]",
    b"[{}]",
    b'{"":0}',
]


def operations_of(part):
    return [(name, each) for name, each in OPERATIONS.items() if each.path.split("/")[1] == part]


def arguments(operation):
    names = re.findall(r"{(\w+)}", operation.path)
    name = "raftlog" if "log_level" in operation.path else "retention.ms"
    return {each: ARGUMENTS.get(each, name) for each in names}


def query(operation, timeout_ms=50):
    short = [each for each in operation.parameters("query") if each["name"] == "timeout"]
    needed = [each for each in operation.parameters("query") if each["required"]]
    return {each["name"]: example(DOCUMENT, each["schema"]) for each in needed} | {
        each["name"]: timeout_ms for each in short
    }


def body_of(operation):
    return orjson.dumps(example(DOCUMENT, operation.body)) if operation.body else b""


async def none_fails(api, caplog, requests):
    """Check that each request is answered, and no answer is a failure of the broker."""
    free = asyncio.Semaphore(16)

    async def one(what, request):
        async with free:
            answer = await answer_to(api.address, request)
        if answer.status >= 400 and answer.body:  # HEAD has none
            assert answer.body["outcome"] in ("failed", "unknown", "partial"), what
        return what, answer.status

    found = await asyncio.gather(*(one(what, request) for what, request in requests))
    assert [(what, status) for what, status in found if status == 500] == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.fixture
async def served(start_api):
    api = await start_api({"fetch_wait_ms_max": 50})
    await api.topic()
    return api


@pytest.mark.parametrize("part", PARTS)
async def test_headers(served, caplog, part):
    requests = []
    for name, operation in operations_of(part):
        path, body = target(operation, arguments(operation), query(operation)), body_of(operation)
        for header, value in itertools.product(HEADERS, BYTES):
            lines = {"Host": b"127.0.0.1", "Content-Type": b"application/json", "Connection": b"close"}
            lines |= {"Content-Length": b"%d" % len(body), header: value}
            text = [each.encode() + b": " + line for each, line in lines.items()]
            requests.append(((name, header, value[:10]), head(operation.method, path, *text) + body))
    await none_fails(served, caplog, requests)


@pytest.mark.parametrize("part", PARTS)
async def test_paths_and_queries(served, caplog, part):
    requests = []
    for name, operation in operations_of(part):
        body, given = body_of(operation), arguments(operation)
        for each, value in itertools.product(given, IN_PATH):
            path = operation.path.replace(f"{{{each}}}", "@").encode()
            for other, argument in given.items():
                path = path.replace(f"{{{other}}}".encode(), argument.encode())
            asked = post(path.replace(b"@", value), body, JSON, method=operation.method)
            requests.append(((name, each, value[:10]), asked))
        path = target(operation, given, query(operation)).encode()
        path += b"&" if b"?" in path else b"?"
        for parameter, value in itertools.product(operation.parameters("query"), IN_QUERY):
            where = path + parameter["name"].encode() + b"=" + value
            asked = post(where, body, JSON, method=operation.method)
            requests.append(((name, parameter["name"], value[:10]), asked))
    await none_fails(served, caplog, requests)


@pytest.mark.parametrize("part", PARTS)
async def test_bodies(served, caplog, part):
    requests = []
    for name, operation in operations_of(part):
        if operation.body is None:
            continue
        path, whole = target(operation, arguments(operation), query(operation)), example(DOCUMENT, operation.body)
        types = [JSON]
        if operation.path.startswith("/topics/"):
            types += [
                f"Content-Type: {each}" for each in ("application/vnd.kafka.binary.v2+json", "application/x-ndjson")
            ]
        for at, value, kind in itertools.product(places(whole), VALUES, types):
            body = orjson.dumps(replaced(whole, at, "@")).replace(b'"@"', value)
            requests.append(((name, at, value[:10], kind), post(path, body, kind, method=operation.method)))
    await none_fails(served, caplog, requests)


@pytest.mark.parametrize("method", ["CONNECT", "OPTIONS", "GET", "HEAD", "TRACE", "PRI", "X"])
async def test_request_lines(served, caplog, method):
    targets = [
        b"[::1",
        b"[::1]:80",
        b"*",
        b"a:1",
        b"/",
        b"//",
        b"http://",
        b"http://[::1",
        b"http://[::1]",
        b"http:///x",
    ]
    targets += [
        b"/\xff",
        b"?x",
        b"#",
        b"/topics#\xff",
        b"/%",
        b"http://\xff/",
        b"/topics?\xff=1",
        b"ftp://x/y",
        b"//[::1/x",
    ]
    lines = ("Host: 127.0.0.1", "Connection: close")
    await none_fails(served, caplog, [(each, head(method, each, *lines)) for each in targets])


@pytest.mark.parametrize("host", [b"\xff", b"[::1", b"a b", b"\xed\xa0\x80"])
@pytest.mark.parametrize("path", ["/v3/clusters", "/v3/clusters/-/topics", "http://127.0.0.1/v3/clusters"])
async def test_hosts_that_are_none_get_no_links(served, host, path):
    answer = await answer_to(served.address, head("GET", path, b"Host: " + host, "Connection: close"))
    assert (answer.status, answer.body["error_code"]) == (400, 40002)


async def test_without_a_host_links_have_the_address_of_the_connection(served):
    answer = await answer_to(served.address, head("GET", "/v3/clusters", version="HTTP/1.0"))
    host, port = served.address
    assert answer.body["metadata"]["self"] == f"http://{host}:{port}/v3/clusters"


@pytest.mark.parametrize("tag", [b"\xff", b'"\xff"', b'"%b"' % (b"9" * 5000), b'"9223372036854775808"', b"7", b'W/"7"'])
async def test_versions_that_are_none(served, tag):
    lines = ("Host: 127.0.0.1", b"If-Match: " + tag, "Connection: close")
    answer = await answer_to(served.address, head("PUT", "/v1/maintenance", *lines))
    assert (answer.status, answer.body["error_code"]) == (400, 40002)


@pytest.mark.parametrize("depth", [JSON_DEPTH_MAX, JSON_DEPTH_MAX + 1, 1000])
async def test_values_nested_too_deeply(served, depth):
    value = nested(depth)
    is_stored = depth <= JSON_DEPTH_MAX
    answer = await answer_to(
        served.address, post("/topics/t", b'{"records": [{"value": %b}]}' % value, "Content-Type: application/json")
    )
    assert answer.status == (200 if is_stored else 422)
    lines = b'{"value": 1}\n{"value": %b}\n{"value": 2}\n' % value
    answer = await answer_to(served.address, post("/topics/t", lines, "Content-Type: application/x-ndjson"))
    if is_stored:
        assert (answer.status, answer.body["records"]) == (200, 3)
    else:
        assert (answer.status, answer.body["outcome"], answer.body["records"]) == (422, "partial", 1)
        assert answer.body["message"].startswith("line 2: ")
        assert f"nested deeper than {JSON_DEPTH_MAX} levels" in answer.body["message"]


def test_handlers_read_headers_in_one_place():
    """No handler may take undecodable bytes for text."""
    for path in Path(raftlog.api.http.__file__).parent.rglob("*.py"):
        source = path.read_text().replace('"Content-Encoding" in request.headers', "").replace("response.", "")
        if path.name not in ("request_headers.py", "origins.py"):
            assert not re.search(r"\brequest\.(headers\.|headers\[|host\b|content_type\b)", source), path
