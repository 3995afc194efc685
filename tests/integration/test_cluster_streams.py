"""Streams into and out of real brokers: a slow disk, a leader that crashes, a reader on another broker."""

import http.client
import socket
import threading
from pathlib import Path

import orjson
import pytest

from jepsen.system_calls import inject, slow_syncs, unsupported_reason
from raftlog.testing import BrokerProcess, Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import Load, create_topic, read_values

ANSWER_S = 60.0
MIB = 1 << 20
NDJSON = "application/x-ndjson"


class Sender(threading.Thread):
    """Thread that sends one chunked NDJSON request with the numbers from 0 on, until stopped or refused."""

    def __init__(self, address: str, path: str, padding: int, numbers_max: int) -> None:
        super().__init__(daemon=True)
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_S)
        self._path, self._numbers_max = path, numbers_max
        self._line = b'{"value":%d,"key":"' + b"k" * padding + b'"}\n'
        self._over = threading.Event()
        self.sent_bytes = self.sent = 0
        self.status = 0
        self.answer: dict[str, object] = {}

    def run(self) -> None:
        self._socket.sendall(
            f"POST {self._path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {NDJSON}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        try:
            while not self._over.is_set() and self.sent < self._numbers_max:
                chunk = b"".join([self._line % number for number in range(self.sent, self.sent + 50)])
                self._socket.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                self.sent += 50
                self.sent_bytes += len(chunk)
            self._socket.sendall(b"0\r\n\r\n")
        except ConnectionError:
            pass  # the broker has answered already, and reads no more
        response = http.client.HTTPResponse(self._socket)
        response.begin()
        self.status, self.answer = response.status, orjson.loads(response.read())
        self._socket.close()

    def end(self) -> None:
        self._over.set()
        self.join(ANSWER_S)
        assert not self.is_alive(), "the request was never answered"


def resident_mib(pid: int, field: str) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def test_memory_stays_bounded_while_the_disk_is_slow(tmp_path: Path) -> None:
    """A client sends 56 MiB at full speed while each sync takes 20 ms: it is slowed, and nothing is dropped."""
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with BrokerProcess(str(tmp_path / "data"), "--sync-method", "threads") as broker:
        broker.start()
        create_topic(broker.address, "t", copies=1)
        before = resident_mib(broker.pid, "VmRSS")
        with inject(broker.pid, slow_syncs(0.02)):
            sender = Sender(broker.address, "/topics/t/partitions/0?timeout=60000", 1000, 56 * MIB // 1024)
            sender.start()
            ahead = 0
            while sender.is_alive():
                end = ask(broker.address, "/topics/t/partitions/0/offsets")[1]["end_offset"]
                ahead = max(ahead, sender.sent - end)
                sender.join(0.05)
            sender.end()
        assert (sender.status, sender.answer["records"]) == (200, sender.sent)
        assert ahead * 1024 < 24 * MIB, f"the sender was {ahead} KiB ahead of the disk"
        assert resident_mib(broker.pid, "VmHWM") - before < 40
        assert ask(broker.address, "/topics/t/partitions/0/offsets")[1]["end_offset"] == sender.sent


def test_a_stream_survives_a_crash_of_the_leader_up_to_its_reported_end(cluster: Cluster, topic: str) -> None:
    """Refused blocks go to the next leader; a block with an unknown outcome is the last one."""
    create_topic(cluster.addresses[0], topic)
    leader = cluster.leader(topic)
    through = next(node for node in cluster.nodes if node != leader)
    sender = Sender(cluster.nodes[through].http, f"/topics/{topic}?timeout=20000", 200, 1_000_000)
    sender.start()
    while ask(cluster.nodes[through].http, f"/topics/{topic}/partitions/0/offsets")[1]["end_offset"] < 2_000:
        pass
    cluster.nodes[leader].kill()
    cluster.leader(topic, other_than=[leader])
    sender.join(1.0)
    sender.end()
    cluster.nodes[leader].start()
    cluster.wait_healthy()
    found = read_line_values(cluster.nodes[through].http, topic)
    assert found == list(range(len(found)))
    records = sender.answer["records"]
    assert isinstance(records, int)
    if sender.status == 200:
        assert len(found) == records == sender.sent
    elif sender.answer["outcome"] == "partial":
        assert len(found) == records
    else:
        assert sender.answer["outcome"] == "unknown"
        assert len(found) >= records
        assert sender.answer["line"] == records + 1


def read_line_values(address: str, topic: str) -> list[int]:
    """Return all values of a topic as read from its stream of lines."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_S)
    connection.request("GET", f"/topics/{topic}/partitions/0/records?offset=beginning", headers={"Accept": NDJSON})
    with connection.getresponse() as lines:
        found = [orjson.loads(line)["value"] for line in lines]
    connection.close()
    return found


def test_a_tail_survives_a_crash_of_the_leader(cluster: Cluster, topic: str) -> None:
    """Every record arrives once, in order, through a broker that is not the leader, before and after the election."""
    create_topic(cluster.addresses[0], topic)
    leader = cluster.leader(topic)
    through = next(node for node in cluster.nodes if node != leader)
    host, _, port = cluster.nodes[through].http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_S)
    path = f"/topics/{topic}/partitions/0/records?offset=0&follow=true"
    connection.request("GET", path, headers={"Accept": NDJSON})
    lines = connection.getresponse()
    with Load(cluster, topic, addresses=[cluster.nodes[through].http]) as ledger:
        ledger.wait_for_more(50)
        cluster.nodes[leader].kill()
        ledger.wait_for_more(50)
        cluster.nodes[leader].start()
        ledger.wait_for_more(50)
    cluster.wait_healthy()
    expected = read_values(cluster.nodes[through].http, topic)
    assert len(expected) >= 150
    found = [orjson.loads(lines.readline()) for _ in expected]
    assert [each["offset"] for each in found] == list(range(len(expected)))
    assert [each["value"] for each in found] == expected
    lines.close()
    connection.close()
