"""Web pages of other origins cannot use a broker through a browser; a page cannot do it by DNS rebinding either."""

import pytest

from raftlog.api.http.server.origins import allowed_host, is_loopback
from raftlog.api.http.server.server import HttpServer, HttpSettings
from raftlog.errors import InvalidArgument
from tests.api.raw import build_request, fetch_answer, request_head

JSON = "Content-Type: application/json"
TOPIC = b'{"topic_name": "written"}'
CHANGES = [
    ("POST", "/v3/clusters/-/topics", TOPIC),
    ("POST", "/v3/clusters/-/topics/t/configs:alter", b'{"data": [{"name": "retention.ms", "value": "1000"}]}'),
    ("POST", "/groups/g/offsets", b'{"offsets": [{"topic": "t", "partition": 0, "offset": 5}]}'),
    ("POST", "/topics/t", b'{"records": [{"value": 1}]}'),
    ("PUT", "/v1/cluster_config", b'{"upsert": {"balancer.mode": "off"}}'),
    ("PUT", "/v1/features", b"{}"),
    ("POST", "/v1/partitions/kafka/t/0/replicas", b'[{"node_id": 1}]'),
    ("POST", "/v1/partitions/kafka/t/0/recover", b'{"accept_loss": false}'),
    ("POST", "/consumers/g", b'{"name": "c"}'),
]


async def fetch_state(api):
    offsets = (await api.get("/topics/t/partitions/0/offsets"))[1]
    return (await api.get("/topics"))[1], (await api.get("/topics/t"))[1]["configs"], offsets, await api.get("/groups")


@pytest.mark.parametrize("headers", [(), ("Content-Type: text/plain",), ("Content-Type: multipart/form-data",)])
async def test_a_body_without_its_content_type_is_refused(api, headers):
    await api.create_topic()
    before = await fetch_state(api)
    for method, path, body in CHANGES:
        answer = await fetch_answer(api.address, build_request(path, body, *headers, method=method))
        assert (answer.status, answer.body["error_code"]) == (415, 415), path
        assert "application/json" in answer.body["message"]
        assert await fetch_state(api) == before, path


CROSS_ORIGIN = [
    ("Origin: http://evil.example",),
    ("Origin: null",),
    ("Origin: http://127.0.0.1",),  # another port, so another server
    ("Origin: http://127.0.0.1:3000",),
    ("Origin: http://localhost:{port}",),
    ("Origin: http://127.0.0.1:{port}.evil.example",),
    ("Origin: http://evil@127.0.0.1:{port}",),
    ("Origin: file://",),
    ("Origin:",),
    ("Origin: \udcff",),
    ("Sec-Fetch-Site: cross-site",),
    ("Sec-Fetch-Site: Same-Site",),
    ("Sec-Fetch-Site: cross-site", "Origin: http://127.0.0.1:{port}"),
]


@pytest.mark.parametrize("headers", CROSS_ORIGIN)
async def test_requests_of_other_origins_are_refused(api, headers):
    await api.create_topic()
    before = await fetch_state(api)
    port = api.address[1]
    lines = [line.format(port=port).encode("utf-8", "surrogateescape") for line in headers]
    host = f"Host: 127.0.0.1:{port}"
    for method, path, body in [*CHANGES, ("DELETE", "/v3/clusters/-/topics/t", b""), ("GET", "/topics", b"")]:
        head = request_head(method, path, host, f"Content-Length: {len(body)}", JSON, "Connection: close", *lines)
        answer = await fetch_answer(api.address, head + body)
        assert (answer.status, answer.body["error_code"], answer.body["outcome"]) == (403, 40302, "failed"), path
        assert await fetch_state(api) == before, path


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        ("127.0.0.1:{port}", ("Origin: http://127.0.0.1:{port}",)),
        ("127.0.0.1:{port}", ("Origin: http://127.0.0.1:{port}", "Sec-Fetch-Site: same-origin")),
        ("127.0.0.1:{port}", ("Sec-Fetch-Site: none",)),  # typed into the address bar
        ("localhost", ("Origin: http://localhost",)),
        ("localhost:80", ("Origin: http://LOCALHOST",)),
        ("localhost", ("Origin: https://localhost",)),  # a proxy with TLS passes the host on
        ("[::1]:8082", ("Origin: http://[0::1]:8082",)),
    ],
)
async def test_pages_of_the_same_origin_are_served(api, host, headers):
    port = api.address[1]
    lines = [line.format(port=port) for line in (f"Host: {host}", *headers)]
    assert (await fetch_answer(api.address, request_head("GET", "/topics", *lines, "Connection: close"))).status == 200


OWN_HOSTS = [
    "127.0.0.1",
    "127.0.0.1:9",  # a tunnel has a port of its own
    "127.8.9.10:8082",
    "localhost",
    "LocalHost:8082",
    "localhost.",
    "localhost.:8082",
    "[::1]",
    "[0:0:0:0:0:0:0:1]:8082",
    "[::ffff:127.0.0.1]",
]
OTHER_HOSTS = [
    "evil.example",
    "evil.example:8082",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil-localhost",
    "0.0.0.0:8082",
    "[::]:8082",
    "10.0.0.1",
    "[2001:db8::1]",
    "2130706433",
    "localhost..",
]
NO_HOSTS = ["[::1", "::1", "[localhost]", "127.0.0.1:http", "127.0.0.1:70000", "a b", "user@localhost", ":80"]


@pytest.mark.parametrize("host", OWN_HOSTS)
async def test_a_listener_on_loopback_allows_its_hosts(api, host):
    answer = await fetch_answer(api.address, request_head("GET", "/topics", f"Host: {host}", "Connection: close"))
    assert answer.status == 200


@pytest.mark.parametrize(
    ("hosts", "status", "code"),
    [(OTHER_HOSTS, 403, 40303), (NO_HOSTS, 400, 40002), ([b"\xff", b"a\xc3\xa4"], 400, 40002)],
)
async def test_a_listener_on_loopback_refuses_other_hosts(api, hosts, status, code):
    for host in hosts:
        line = b"Host: " + (host if isinstance(host, bytes) else host.encode())
        origin = b"Origin: http://" + line[6:]  # of a name that resolves to loopback
        for lines in ([line], [line, origin]):
            answer = await fetch_answer(api.address, request_head("GET", "/topics", *lines, "Connection: close"))
            assert (answer.status, answer.body["error_code"]) == (status, code), host


async def test_the_error_for_a_refused_host_names_the_setting(api):
    answer = await fetch_answer(
        api.address, request_head("GET", "/topics", "Host: log.example:80", "Connection: close")
    )
    assert "--allowed-host log.example" in answer.body["message"]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("Host: 127.0.0.1", "Host: evil.example"), 400),
        (("Host: evil.example", "Host: 127.0.0.1"), 400),
        (("X: y",), 400),  # HTTP/1.1 without a host
        (("Host:",), 200),
    ],
)
async def test_a_request_needs_exactly_one_host_header(api, lines, status):
    assert (
        await fetch_answer(api.address, request_head("GET", "/topics", *lines, "Connection: close"))
    ).status == status


async def test_http_1_0_needs_no_host(api):
    request = request_head("GET", "/topics", "Connection: close", version="HTTP/1.0")
    assert (await fetch_answer(api.address, request)).status == 200
    request = request_head("GET", "/topics", "Origin: http://127.0.0.1", version="HTTP/1.0")
    assert (await fetch_answer(api.address, request)).status == 403


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://127.0.0.1/topics", 200),
        ("HTTP://localhost:8082/topics", 200),
        ("http://evil.example/topics", 403),
        ("https://evil.example", 403),
        ("http://evil.example?x", 403),
        ("http://127.0.0.1?x", 400),
    ],
)
async def test_the_host_of_an_absolute_target_is_checked(api, target, status):
    request = request_head("GET", target, "Host: 127.0.0.1", "Connection: close")
    assert (await fetch_answer(api.address, request)).status == status


async def test_allowed_and_advertised_hosts_are_accepted(start_api):
    api = await start_api(advertised="Broker-1.example:8082", allowed_hosts=["log.example.com.", "::5", "[::6]"])
    for host in ("log.example.com:80", "LOG.example.com.", "broker-1.example", "[::5]:80", "[::6]", "127.0.0.1"):
        answer = await fetch_answer(api.address, request_head("GET", "/topics", f"Host: {host}", "Connection: close"))
        assert answer.status == 200, host
    answer = await fetch_answer(api.address, request_head("GET", "/topics", "Host: example.com", "Connection: close"))
    assert answer.status == 403


@pytest.mark.parametrize(("allowed", "status"), [([], 200), (["other.example"], 403)])
async def test_on_other_addresses_hosts_are_checked_once_some_are_allowed(api, allowed, status):
    server = HttpServer(api.broker, HttpSettings(allowed_hosts=allowed))
    _, port = await server.start("0.0.0.0", 0)
    try:
        address = "127.0.0.1", port
        for host in ("any.example", "0.0.0.0"):
            request = request_head("GET", "/topics", f"Host: {host}", "Connection: close")
            assert (await fetch_answer(address, request)).status == status
            request = request_head(
                "GET", "/topics", f"Host: {host}", "Origin: http://evil.example", "Connection: close"
            )
            assert (await fetch_answer(address, request)).status == 403
    finally:
        await server.stop()


@pytest.mark.parametrize("text", ["", "a:80", "[::1]:80", "a/b", "a b", ":", "*"])
def test_invalid_hosts_cannot_be_allowed(text):
    with pytest.raises(InvalidArgument, match="is not a host"):
        allowed_host(text)


def test_loopback_addresses_are_recognized():
    assert all(map(is_loopback, ("127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost", "")))
