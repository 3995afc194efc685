"""Requests to real brokers that no correct client sends: each is refused with a named error and changes nothing."""

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from raftlog.testing import BrokerProcess, Cluster
from raftlog.testing.ports import reserve_port
from tests.integration.cluster_load import create_topic

ANSWER_SECONDS_MAX = 10.0


@pytest.fixture(scope="module", autouse=True)
def no_traceback(shared_cluster: Cluster) -> Iterator[None]:
    """Check that no broker logged a traceback, since an invalid request is no defect of a broker."""
    yield
    assert not any("Traceback" in log for log in shared_cluster.logs().values())


def send(address: str, request: bytes) -> tuple[int, Any]:
    """Return status and JSON of the single answer, after which the server closes the connection."""
    host, _, port = address.rpartition(":")
    answer = bytearray()
    with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX) as connection:
        connection.sendall(request)
        while piece := connection.recv(65_536):
            answer += piece
    top, _, body = bytes(answer).partition(b"\r\n\r\n")
    return int(top.split(b" ", 2)[1]), orjson.loads(body)


def build_request(method: str, path: str, body: bytes = b"", *headers: bytes, host: bytes = b"127.0.0.1") -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: " + host, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join((*lines, b"Connection: close", b"", body))


def read_state(cluster: Cluster, topic: str) -> list[Any]:
    """Return the state that must not change."""
    paths = ("/topics", "/groups", "/v1/cluster_config", f"/topics/{topic}/partitions/0/offsets")
    return [cluster.nodes[1].get(f"/topics/{topic}")["configs"], *map(cluster.nodes[1].get, paths)]


JSON = b"Content-Type: application/json"
CHANGES = [
    ("POST", "/v3/clusters/-/topics", b'{"topic_name": "written"}'),
    ("POST", "/v3/clusters/-/topics/{topic}/configs:alter", b'{"data": [{"name": "retention.ms", "value": "1000"}]}'),
    ("POST", "/groups/g/offsets", b'{"offsets": [{"topic": "{topic}", "partition": 0, "offset": 0}]}'),
    ("POST", "/topics/{topic}", b'{"records": [{"value": 1}]}'),
    ("PUT", "/v1/cluster_config", b'{"upsert": {"balancer.mode": "off"}}'),
]
FROM_A_PAGE = [
    ((b"Content-Type: text/plain", b"Origin: http://evil.example"), b"127.0.0.1", 403, 40302),
    ((JSON, b"Origin: http://localhost:3000", b"Sec-Fetch-Site: same-site"), b"127.0.0.1", 403, 40302),
    ((JSON, b"Sec-Fetch-Site: cross-site"), b"127.0.0.1", 403, 40302),
    (
        (JSON, b"Origin: http://evil.example:{port}"),
        b"evil.example:{port}",
        403,
        40303,
    ),  # its name resolves to 127.0.0.1
    ((JSON,), b"evil.example", 403, 40303),
    ((), b"127.0.0.1", 415, 415),
    ((b"Content-Type: text/plain",), b"127.0.0.1", 415, 415),
    ((b"Content-Type: application/x-www-form-urlencoded",), b"localhost", 415, 415),
]


@pytest.mark.parametrize(("headers", "host", "status", "code"), FROM_A_PAGE)
def test_web_pages_change_nothing(
    cluster: Cluster, topic: str, headers: tuple[bytes, ...], host: bytes, status: int, code: int
) -> None:
    create_topic(cluster.addresses[0], topic)
    before = read_state(cluster, topic)
    for address in cluster.addresses:
        port = address.rpartition(":")[2].encode()
        lines = [line.replace(b"{port}", port) for line in headers]
        for method, path, template in CHANGES:
            body = template.replace(b"{topic}", topic.encode())
            asked = build_request(method, path.format(topic=topic), body, *lines, host=host.replace(b"{port}", port))
            found, answer = send(address, asked)
            assert (found, answer["error_code"], answer["outcome"]) == (status, code, "failed"), (method, path)
    assert read_state(cluster, topic) == before


CUT = gzip.compress(b"12345678\n87654321" * 1000)[:-1]


@pytest.mark.parametrize("content_type", [b"application/octet-stream", b"application/json", b"application/x-ndjson"])
@pytest.mark.parametrize("body", [CUT, CUT[:-20], CUT[:5], b"no gzip"], ids=len)
def test_truncated_bodies_store_nothing_after_the_cut(
    cluster: Cluster, topic: str, content_type: bytes, body: bytes
) -> None:
    create_topic(cluster.addresses[0], topic)
    for address in cluster.addresses:
        headers = (b"Content-Type: " + content_type, b"Content-Encoding: gzip")
        status, answer = send(address, build_request("POST", f"/topics/{topic}?lines=values", body, *headers))
        assert (status, answer["error_code"]) == (400, 40002)
        assert "gzip" in answer["message"]
    records = cluster.nodes[1].get(f"/topics/{topic}/partitions/0/records?offset=0&max_bytes=10000000")
    values = {record["value"] for record in records}
    assert values <= {12345678, 8765432112345678} if content_type == b"application/x-ndjson" else not values


NESTED = b"[" * 300 + b"]" * 300
NDJSON = b"Content-Type: application/x-ndjson"
NO_SENSE = [
    (b"GET /v3/clusters HTTP/1.1\r\nHost: \xff\r\nConnection: close\r\n\r\n", 400),
    (b"CONNECT [::1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
    (b"GET //[::1/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
    (build_request("PUT", "/v1/maintenance", b"", b"If-Match: \xff"), 400),
    (build_request("PUT", "/v1/maintenance", b"", b'If-Match: "%b"' % (b"9" * 5000)), 400),
    (build_request("POST", "/topics/{topic}", b'{"records": [{"value": %b}]}' % NESTED, JSON), 422),
    (
        build_request(
            "POST", "/topics/{topic}", b'{"records": [{"headers": [{"name": "h", "value": %b}]}]}' % NESTED, JSON
        ),
        422,
    ),
    (build_request("POST", "/groups/g/offsets", b'{"offsets": %b}' % NESTED, JSON), 422),
    (build_request("POST", "/consumers/g", b'{"name": %b}' % NESTED, JSON), 422),
]


@pytest.mark.parametrize(("asked", "status"), NO_SENSE)
def test_nonsense_returns_a_named_error(cluster: Cluster, topic: str, asked: bytes, status: int) -> None:
    create_topic(cluster.addresses[0], topic)
    before = read_state(cluster, topic)
    for address in cluster.addresses:
        found, answer = send(address, asked.replace(b"{topic}", topic.encode()))
        assert (found, answer["outcome"]) == (status, "failed")
    assert read_state(cluster, topic) == before


def test_a_deeply_nested_line_ends_only_its_stream(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    body = b'{"value": 1}\n' * 25_000 + b'{"value": %b}\n{"value": 2}\n' % NESTED
    status, answer = send(cluster.addresses[1], build_request("POST", f"/topics/{topic}", body, NDJSON))
    assert (status, answer["outcome"], answer["records"], answer["line"]) == (422, "partial", 25_000, 25_001)
    assert cluster.nodes[1].get(f"/topics/{topic}/partitions/0/offsets")["end_offset"] == 25_000


def test_a_host_can_be_allowed(tmp_path: Path) -> None:
    flags = ("--allowed-host", "log.example", "--advertise-http", "broker.example:80")
    with reserve_port() as port:
        address = f"127.0.0.1:{port.getsockname()[1]}"
        with BrokerProcess(str(tmp_path / "data"), *flags, http=address) as broker:
            broker.start()
            for host in (b"127.0.0.1", b"log.example", b"LOG.example.:8082", b"broker.example"):
                assert send(address, build_request("GET", "/topics", host=host)) == (200, [])
            assert send(address, build_request("GET", "/topics", host=b"other.example"))[0] == 403
