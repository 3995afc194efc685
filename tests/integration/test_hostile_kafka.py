"""Bytes to the Kafka listener of a real broker that no correct client sends: an error code, or a closed connection.

Each leaves one event, no memory and no record, and other clients are served."""

import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.records import NewRecord, build_batch
from raftlog.testing import Cluster
from tests.integration.cluster_load import create_topic
from tests.kafka.harness import make_frame, make_request
from tests.undecodable import make_bombs
from tests.waiting import block_until

ANSWER_S_MAX = 10.0
MIB = 1 << 20
CONNECTIONS = 10_500
GROWTH_MIB_MAX = 250
CLOSED = "kafka_connection_closed"
VERSION = 9


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        create_topic(cluster.nodes[1].http, "t", copies=1)
        create_topic(cluster.nodes[1].http, "keyed", copies=1, cleanup_policy="compact")
        yield cluster
        assert "Traceback" not in cluster.nodes[1].log_text()


@pytest.fixture
def connect(broker: Cluster) -> Iterator[Callable[[], socket.socket]]:
    """Return a function that opens connections, which are closed after the test."""
    host, _, port = broker.kafka.rpartition(":")
    opened = []

    def open_one() -> socket.socket:
        opened.append(socket.create_connection((host, int(port)), ANSWER_S_MAX))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return data


def receive_answer(connection: socket.socket) -> bytes:
    """Return the content of one answer; empty if the connection was closed."""
    head = receive(connection, 4)
    return receive(connection, int.from_bytes(head, "big")) if head else b""


def is_served(connection: socket.socket) -> bool:
    try:
        connection.sendall(make_request(ApiKey.API_VERSIONS, 0, correlation_id=7))
        return receive_answer(connection)[:4] == (7).to_bytes(4, "big")
    except ConnectionError:
        return False


def produce(connection: socket.socket, topic: str, records: bytes) -> Any:
    """Send records to partition 0; return the row of the answer."""
    part = ProduceRequest.TopicProduceData
    data = [part(name=topic, partition_data=[part.PartitionProduceData(index=0, records=records)])]
    request = ProduceRequest(version=VERSION, transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data)
    connection.sendall(make_request(ApiKey.PRODUCE, VERSION, request.encode(version=VERSION)))
    answer = ProduceResponse.decode(receive_answer(connection)[5:], version=VERSION)
    return answer.responses[0].partition_responses[0]


def count_events(broker: Cluster) -> int:
    return broker.nodes[1].log_text().count(CLOSED)


def memory_mib(broker: Cluster) -> float:
    status = Path(f"/proc/{broker.nodes[1].pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


REFUSED = {
    "negative length": b"\xff\xff\xff\xff",
    "lowest length": b"\x80\0\0\0",
    "length zero": make_frame(b""),
    "length above the limit": b"\x7f\xff\xff\xff" + bytes(100),
    "shorter than a header": make_frame(bytes(9)),
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100f5010000f10303") + bytes(40),
    "unknown API": make_request(999, 0),
    "negative API": make_request(-1, 0),
    "unknown version": make_request(ApiKey.METADATA, 99),
    "negative version": make_request(ApiKey.METADATA, -1),
    "length of the client id beyond the frame": make_frame(b"\0\x03\0\0\0\0\0\0\x7f\xffab"),
    "flexible header without its tags": make_frame(make_request(ApiKey.METADATA, 9)[4:-1]),
    "flexible header with tags beyond the frame": make_frame(make_request(ApiKey.METADATA, 9)[4:-1] + b"\x01\x00\x7f"),
    "flexible header with endless varints": make_frame(make_request(ApiKey.METADATA, 9)[4:-1] + b"\xff" * 40),
    "array longer than the frame": make_request(ApiKey.METADATA, 9, b"\xff\xff\xff\xff\x07"),
    "array of 2^31-1 elements": make_request(ApiKey.METADATA, 1, b"\x7f\xff\xff\xff"),
    "text longer than the frame": make_request(ApiKey.HEARTBEAT, 0, b"\x7f\xffab"),
    "body of garbage": make_request(ApiKey.FETCH, 12, bytes(range(256))),
    "empty body": make_request(ApiKey.PRODUCE, 9),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_input_closes_its_connection_with_one_event(
    broker: Cluster, connect: Callable[[], socket.socket], name: str
) -> None:
    before, other, bad = count_events(broker), connect(), connect()
    bad.sendall(REFUSED[name])
    assert receive_answer(bad) == b""
    block_until(lambda: count_events(broker) == before + 1, within_s=ANSWER_S_MAX)
    assert is_served(other)
    assert is_served(connect())
    assert count_events(broker) == before + 1


def test_truncated_frames_leave_nothing(broker: Cluster, connect: Callable[[], socket.socket]) -> None:
    """The client disconnects within a frame, which may have announced 100 MB."""
    before, memory = count_events(broker), memory_mib(broker)
    whole = make_request(ApiKey.METADATA, 9, bytes(20))
    for piece in (whole[:1], whole[:4], whole[:-1], (90 * MIB).to_bytes(4, "big") + bytes(1_000)):
        for _ in range(50):
            connection = connect()
            connection.sendall(piece)
            connection.close()
    assert is_served(connect())
    assert count_events(broker) == before
    assert memory_mib(broker) - memory < 20


def test_connections_beyond_the_limit_are_closed(broker: Cluster, connect: Callable[[], socket.socket]) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CONNECTIONS + 1_000:
        pytest.skip(f"{hard} file descriptors are too few")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        first, memory = connect(), memory_mib(broker)
        assert is_served(first)
        served = sum(is_served(connect()) for _ in range(CONNECTIONS))
        print(f"{served} of {CONNECTIONS} connections were served, with {memory_mib(broker) - memory:.0f} MiB")
        assert 2_000 <= served < 10_000
        assert is_served(first)
        assert memory_mib(broker) - memory < GROWTH_MIB_MAX
        assert produce(first, "t", bytes(build_batch([b"still there"]))).error_code == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("topic", ["t", "keyed"])
def test_compression_bombs_take_no_memory(broker: Cluster, connect: Callable[[], socket.socket], topic: str) -> None:
    """A broker opens batches only for compacted topics, within a bound."""
    memory, connection = memory_mib(broker), connect()
    for bomb in make_bombs():
        row = produce(connection, topic, bomb.batch)
        assert row.error_code == (0 if topic == "t" else ErrorCode.INVALID_RECORD), row.error_message
    assert memory_mib(broker) - memory < 120
    good = build_batch([NewRecord(b"v", b"k")])
    assert produce(connection, topic, bytes(good)).error_code == 0
