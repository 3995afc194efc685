"""Values that break decoders, encoders and recursion, in every place of every request: none is answered with 500.

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
from tests.api.described import DOCUMENT, build_target, list_operations, list_paths, make_example, replace_at
from tests.api.raw import build_request, fetch_answer, request_head

OPERATIONS = {f"{each.method} {each.path}": each for each in list_operations(DOCUMENT)}
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
    "transactional_id": "x",
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


def nest_json(depth, open_=b"[", close=b"]"):
    return open_ * depth + (b"1" if open_ != b"[" else b"") + close * depth


VALUES = [
    *(nest_json(depth) for depth in (100, 253, 254, 255, 256, 300, 900, 1000, 1020, 1024, 1100, 100_000)),
    *(nest_json(depth, b'{"a":', b"}") for depth in (254, 255, 1000)),
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


def operations_under(part):
    return [(name, each) for name, each in OPERATIONS.items() if each.path.split("/")[1] == part]


def build_arguments(operation):
    names = re.findall(r"{(\w+)}", operation.path)
    name = "raftlog" if "log_level" in operation.path else "retention.ms"
    return {each: ARGUMENTS.get(each, name) for each in names}


def build_query(operation, timeout_ms=50):
    short = [each for each in operation.parameters("query") if each["name"] == "timeout"]
    needed = [each for each in operation.parameters("query") if each["required"]]
    return {each["name"]: make_example(DOCUMENT, each["schema"]) for each in needed} | {
        each["name"]: timeout_ms for each in short
    }


def build_body(operation):
    return orjson.dumps(make_example(DOCUMENT, operation.body)) if operation.body else b""


@pytest.fixture(params=[5, pytest.param(1, marks=pytest.mark.slow)], ids=["every fifth", "all"])
def step(request):
    """Step through the generated requests: 5 and the numbers of values have no common factor, so each value occurs."""
    return request.param


async def check_no_server_error(api, caplog, requests):
    """Send all requests; check that each is answered and that no answer has status 500."""
    free = asyncio.Semaphore(16)

    async def send_and_check(what, request):
        async with free:
            answer = await fetch_answer(api.address, request)
        if answer.status >= 400 and answer.body:  # HEAD has none
            assert answer.body["outcome"] in ("failed", "unknown", "partial"), what
        return what, answer.status

    found = await asyncio.gather(*(send_and_check(what, request) for what, request in requests))
    assert [(what, status) for what, status in found if status == 500] == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.fixture
async def served(start_api):
    api = await start_api({"fetch_wait_ms_max": 50})
    await api.create_topic()
    return api


@pytest.mark.parametrize("part", PARTS)
async def test_hostile_headers_return_no_server_error(served, caplog, part, step):
    requests = []
    for name, operation in operations_under(part):
        path, body = build_target(operation, build_arguments(operation), build_query(operation)), build_body(operation)
        for header, value in itertools.product(HEADERS, BYTES):
            lines = {"Host": b"127.0.0.1", "Content-Type": b"application/json", "Connection": b"close"}
            lines |= {"Content-Length": b"%d" % len(body), header: value}
            text = [each.encode() + b": " + line for each, line in lines.items()]
            requests.append(((name, header, value[:10]), request_head(operation.method, path, *text) + body))
    await check_no_server_error(served, caplog, requests[::step])


@pytest.mark.parametrize("part", PARTS)
async def test_hostile_paths_and_queries_return_no_server_error(served, caplog, part, step):
    requests = []
    for name, operation in operations_under(part):
        body, given = build_body(operation), build_arguments(operation)
        for each, value in itertools.product(given, IN_PATH):
            path = operation.path.replace(f"{{{each}}}", "@").encode()
            for other, argument in given.items():
                path = path.replace(f"{{{other}}}".encode(), argument.encode())
            asked = build_request(path.replace(b"@", value), body, JSON, method=operation.method)
            requests.append(((name, each, value[:10]), asked))
        path = build_target(operation, given, build_query(operation)).encode()
        path += b"&" if b"?" in path else b"?"
        for parameter, value in itertools.product(operation.parameters("query"), IN_QUERY):
            where = path + parameter["name"].encode() + b"=" + value
            asked = build_request(where, body, JSON, method=operation.method)
            requests.append(((name, parameter["name"], value[:10]), asked))
    await check_no_server_error(served, caplog, requests[::step])


@pytest.mark.parametrize("part", PARTS)
async def test_hostile_bodies_return_no_server_error(served, caplog, part, step):
    requests = []
    for name, operation in operations_under(part):
        if operation.body is None:
            continue
        path, whole = (
            build_target(operation, build_arguments(operation), build_query(operation)),
            make_example(DOCUMENT, operation.body),
        )
        types = [JSON]
        if operation.path.startswith("/topics/"):
            types += [
                f"Content-Type: {each}" for each in ("application/vnd.kafka.binary.v2+json", "application/x-ndjson")
            ]
        for at, value, kind in itertools.product(list_paths(whole), VALUES, types):
            body = orjson.dumps(replace_at(whole, at, "@")).replace(b'"@"', value)
            requests.append(((name, at, value[:10], kind), build_request(path, body, kind, method=operation.method)))
    await check_no_server_error(served, caplog, requests[::step])


@pytest.mark.parametrize("method", ["CONNECT", "OPTIONS", "GET", "HEAD", "TRACE", "PRI", "X"])
async def test_hostile_request_lines_return_no_server_error(served, caplog, method):
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
    await check_no_server_error(served, caplog, [(each, request_head(method, each, *lines)) for each in targets])


@pytest.mark.parametrize("host", [b"\xff", b"[::1", b"a b", b"\xed\xa0\x80"])
@pytest.mark.parametrize("path", ["/v3/clusters", "/v3/clusters/-/topics", "http://127.0.0.1/v3/clusters"])
async def test_requests_with_an_invalid_host_are_refused(served, host, path):
    answer = await fetch_answer(served.address, request_head("GET", path, b"Host: " + host, "Connection: close"))
    assert (answer.status, answer.body["error_code"]) == (400, 40002)


async def test_links_use_the_address_of_the_connection_when_there_is_no_host(served):
    answer = await fetch_answer(served.address, request_head("GET", "/v3/clusters", version="HTTP/1.0"))
    host, port = served.address
    assert answer.body["metadata"]["self"] == f"http://{host}:{port}/v3/clusters"


@pytest.mark.parametrize("tag", [b"\xff", b'"\xff"', b'"%b"' % (b"9" * 5000), b'"9223372036854775808"', b"7", b'W/"7"'])
async def test_invalid_versions_are_refused(served, tag):
    lines = ("Host: 127.0.0.1", b"If-Match: " + tag, "Connection: close")
    answer = await fetch_answer(served.address, request_head("PUT", "/v1/maintenance", *lines))
    assert (answer.status, answer.body["error_code"]) == (400, 40002)


@pytest.mark.parametrize("depth", [JSON_DEPTH_MAX, JSON_DEPTH_MAX + 1, 1000])
async def test_deeply_nested_values_are_refused(served, depth):
    value = nest_json(depth)
    is_stored = depth <= JSON_DEPTH_MAX
    answer = await fetch_answer(
        served.address,
        build_request("/topics/t", b'{"records": [{"value": %b}]}' % value, "Content-Type: application/json"),
    )
    assert answer.status == (200 if is_stored else 422)
    lines = b'{"value": 1}\n{"value": %b}\n{"value": 2}\n' % value
    answer = await fetch_answer(served.address, build_request("/topics/t", lines, "Content-Type: application/x-ndjson"))
    if is_stored:
        assert (answer.status, answer.body["records"]) == (200, 3)
    else:
        assert (answer.status, answer.body["outcome"], answer.body["records"]) == (422, "partial", 1)
        assert answer.body["message"].startswith("line 2: ")
        assert f"nested deeper than {JSON_DEPTH_MAX} levels" in answer.body["message"]


def test_handlers_read_headers_in_one_place():
    """Handlers must not treat undecodable bytes as text, so only two modules read headers."""
    for path in Path(raftlog.api.http.__file__).parent.rglob("*.py"):
        source = path.read_text().replace('"Content-Encoding" in request.headers', "").replace("response.", "")
        if path.name not in ("request_headers.py", "origins.py"):
            assert not re.search(r"\brequest\.(headers\.|headers\[|host\b|content_type\b)", source), path
