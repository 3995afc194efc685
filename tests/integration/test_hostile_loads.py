"""Small requests to three real brokers that would be expensive to serve without bounds.

Batches and JSON that grow, answers that are not read, bodies that do not arrive. Memory stays near the budget,
no event loop is held for long, and gossip suspects no broker. Elections are not checked: after 315 ms of
silence, as on a busy machine, they are expected."""

import contextlib
import http.client
import random
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from raftlog.records import Compression, NewRecord, build_batch
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.testing import Cluster
from raftlog.topic_config import MIB
from tests.integration.cluster_load import BATCHES, BINARY, create_topic

BUDGET_BYTES = 32 * MIB
ONE_REQUEST_BYTES = 4 * 64 * MIB
"""Bytes that one request may take beyond its share: a body or batch of 64 MiB, decoded, in the codec, and as text."""
READERS, READ_BYTES = 25, 16 * MIB
"""For each broker: what their answers would take together is twelve times the budget."""
OUTSIDE_BYTES = READERS * 512 * 1024 + 2 * RpcConfig().send_queue_bytes_max
"""Bytes outside of the budget: buffers of connections with the parts in writing, and queued requests.

The queued requests go to the other brokers, which ask the leader on behalf of their readers."""
ANSWER_SECONDS_MAX = 25.0
HOLD_SECONDS_MAX = 2.5
"""An upper end of a bucket. These inputs held the loop for 6 to 25 s; busy machines stall for less."""
GROWING = b"[" + b"[]," * (20 * MIB) + b"0]"
JSON = "application/vnd.kafka.json.v2+json"
ALARMS = re.compile(r'"event": ?"member_(?:suspected|dead)"|Traceback')


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(3, serve_flags=("--memory-budget-bytes", str(BUDGET_BYTES)), with_cuts=False) as cluster:
        for topic in ("t", "grows", "read"):
            create_topic(cluster.addresses[0], topic)
        yield cluster


@pytest.fixture
def cluster(three: Cluster) -> Iterator[Cluster]:
    """Require a healthy cluster before and after, without a suspicion or a long blocked loop in between."""
    three.wait_healthy()
    before = read_alarms(three)
    yield three
    three.wait_healthy()
    assert all(node.is_running for node in three.nodes.values())
    assert read_alarms(three) == before


def read_alarms(cluster: Cluster) -> dict[int, tuple[list[str], float]]:
    """Return for each broker the lines of its log, and how often its loop was blocked beyond `HOLD_SECONDS_MAX`."""
    found: dict[int, tuple[list[str], float]] = {}
    for number, text in cluster.logs().items():
        shown = call(cluster.nodes[number].http, "GET", "/metrics")[1].decode()
        ticks, in_time = (
            metric(shown, f'raftlog_loop_lag_seconds_bucket{{le="{end}"}}') for end in ("+Inf", HOLD_SECONDS_MAX)
        )
        found[number] = [line for line in text.splitlines() if ALARMS.search(line)], ticks - in_time
    return found


def metric(shown: str, name: str) -> float:
    found = re.search(f"^{re.escape(name)} (.*)$", shown, re.MULTILINE)
    assert found, f"{name} is no metric"
    return float(found[1])


def memory_bytes(cluster: Cluster, name: str) -> list[int]:
    """Return the memory of each broker: `VmRSS` at present, or `VmHWM`, its maximum."""
    found = []
    for node in cluster.nodes.values():
        text = Path(f"/proc/{node.pid}/status").read_text()
        found.append(1024 * int(re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)[1]))  # type: ignore[index]
    return found


@contextlib.contextmanager
def check_memory_growth(cluster: Cluster, kind: str, size: int) -> Iterator[None]:
    """Check at the end of the block that each broker has at most `size` bytes more than before.

    Measured as `VmHWM`, the maximum of all time, or as `VmRSS` at the end."""
    before = memory_bytes(cluster, "VmRSS")
    yield
    grown = [late - early for early, late in zip(before, memory_bytes(cluster, kind), strict=True)]
    assert max(grown) < size, f"the brokers grew by {grown} bytes"


def call(
    address: str, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_SECONDS_MAX)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        with connection.getresponse() as answer:
            return answer.status, answer.read()


def call_each(
    cluster: Cluster, method: str, path: str, body: bytes | None = None, **headers: str
) -> list[tuple[int, Any]]:
    """Send the same request to all brokers at the same time; return status and JSON of each."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with ThreadPoolExecutor(len(cluster.addresses)) as pool:
        answers = pool.map(lambda address: call(address, method, path, body, named), cluster.addresses)
        return [(status, orjson.loads(answer)) for status, answer in answers]


@contextlib.contextmanager
def open_connections(cluster: Cluster, count: int, request: str) -> Iterator[list[socket.socket]]:
    """Open `count` connections to each broker that have sent this request and read nothing."""
    with contextlib.ExitStack() as opened:
        found = []
        for address in cluster.addresses:
            host, _, port = address.rpartition(":")
            for _ in range(count):
                connection = opened.enter_context(socket.socket())
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(ANSWER_SECONDS_MAX)
                connection.connect((host, int(port)))
                connection.sendall(f"{request}\r\nHost: localhost\r\n\r\n".encode())
                found.append(connection)
        yield found


def produce(cluster: Cluster, topic: str, batch: bytes) -> None:
    status, answer = call(
        cluster.addresses[0], "POST", f"/topics/{topic}/partitions/0", batch, {"Content-Type": BATCHES}
    )
    assert status == 200, answer


def test_a_small_batch_that_decompresses_to_much_is_bounded(cluster: Cluster) -> None:
    """61 KB are stored and decompress to one JSON value, whose objects would take 27 times its size."""
    produce(cluster, "grows", bytes(build_batch([NewRecord(GROWING)], compression=Compression.GZIP)))
    produce(cluster, "grows", bytes(build_batch([b"2"])))
    path = "/topics/grows/partitions/0/records?offset={}"
    with check_memory_growth(cluster, "VmHWM", BUDGET_BYTES + ONE_REQUEST_BYTES):
        status, answer = call(cluster.addresses[1], "GET", path.format(0), headers={"Accept": JSON})
        assert status == 200
        assert answer.count(b"[]") == GROWING.count(b"[]") + 1, "and its headers"
    assert call(cluster.addresses[1], "GET", path.format(1), headers={"Accept": JSON})[0] == 200


def test_large_bodies_that_grow_when_parsed_are_refused(cluster: Cluster) -> None:
    """One body has more records than a request may have, another a value larger than any topic accepts."""
    many = b'{"records":[' + b'{"value":[]},' * (4 * MIB) + b"{}]}"
    with check_memory_growth(cluster, "VmHWM", BUDGET_BYTES + ONE_REQUEST_BYTES):
        for body in (many, b'{"records":[{"value":' + GROWING + b"}]}"):
            status, answer = call(cluster.addresses[2], "POST", "/topics/t", body, {"Content-Type": JSON})
            assert (status, orjson.loads(answer)["outcome"]) == (413, "failed")


def test_many_large_answers_that_nobody_reads_are_bounded(cluster: Cluster) -> None:
    """The readers request twelve times the memory budget from each broker."""
    for _ in range(READ_BYTES // MIB):
        produce(cluster, "read", bytes(build_batch([random.randbytes(MIB - 1000)])))
    path = "/topics/read/partitions/0/records?offset=0&max_bytes={}"
    head = f"GET {path.format(READ_BYTES)} HTTP/1.1\r\nAccept: {BATCHES}"
    with (
        check_memory_growth(cluster, "VmRSS", BUDGET_BYTES + OUTSIDE_BYTES),
        open_connections(cluster, READERS, head) as readers,
    ):
        statuses = {int(reader.recv(12).split(b" ")[1]) for reader in readers}
        assert statuses <= {200, 503}
        assert {status for status, _ in call_each(cluster, "GET", "/topics/t/partitions/0/offsets")} == {200}
    for status, answer in call_each(cluster, "GET", path.format(2 * MIB), Accept=BINARY):
        assert (status, bool(answer)) == (200, True), "the memory came back"


def test_announced_bodies_that_never_arrive_hold_no_memory(cluster: Cluster) -> None:
    """Larger bodies of other clients are stored meanwhile."""
    head = f"POST /topics/t HTTP/1.1\r\nContent-Type: {JSON}\r\nContent-Length: {64 * MIB}"
    body = b'{"records":[{"value":"' + b"x" * 900_000 + b'"}]}'
    with check_memory_growth(cluster, "VmRSS", BUDGET_BYTES), open_connections(cluster, READERS, head) as senders:
        for _ in range(3):
            for sender in senders:
                sender.sendall(b"{")
            for status, answer in call_each(cluster, "POST", "/topics/t", body, Content_Type=JSON):
                assert status == 200, answer
