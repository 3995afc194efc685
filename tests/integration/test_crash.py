"""A real broker, killed with SIGKILL at random moments under load: no acknowledged write is lost.

Real process, real sockets, real disk. What was sent and not answered may be there or not, once.
"""

import base64
import contextlib
import http.client
import itertools
import random
import threading
from pathlib import Path

import orjson
import pytest

from raftlog.records import build_batch
from raftlog.testing import BrokerProcess

PARTITIONS = 2
BINARY = "application/vnd.kafka.binary.v2+json"
BATCHES = "application/vnd.raftlog.batches"


class Producer(threading.Thread):
    """Thread that sends unique values one request after another and keeps the places of acknowledged ones."""

    def __init__(self, address: str, number: int, values: "itertools.count[int]", enough: threading.Semaphore) -> None:
        super().__init__(daemon=True)
        self.address, self.number, self.values, self.enough = address, number, values, enough
        self.sent: set[int] = set()
        self.acknowledged: dict[tuple[int, int], int] = {}

    def run(self) -> None:
        partition = self.number % PARTITIONS
        host, _, port = self.address.partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            while True:
                values = [next(self.values) for _ in range(1 + self.number)]
                self.sent.update(values)
                first = self.send(connection, partition, values)
                for position, value in enumerate(values):
                    self.acknowledged[partition, first + position] = value
                self.enough.release()
        except (OSError, http.client.HTTPException):
            return  # the broker was killed: the last request is unknown
        finally:
            connection.close()

    def send(self, connection: http.client.HTTPConnection, partition: int, values: list[int]) -> int:
        payloads = [b"%d" % value for value in values]
        if self.number % 2:
            body, kind = bytes(build_batch(payloads)), BATCHES
        else:
            records = [{"value": base64.b64encode(payload).decode()} for payload in payloads]
            body, kind = orjson.dumps({"records": records}), BINARY
        connection.request("POST", f"/topics/crash/partitions/{partition}", body, {"Content-Type": kind})
        with connection.getresponse() as answer:
            text = answer.read()
        assert answer.status == 200, text
        return int(orjson.loads(text)["offsets"][0]["offset"])


def read_values(address: str, partition: int) -> list[int]:
    """Return all values of a partition, by offset."""
    host, _, port = address.partition(":")
    found: list[int] = []
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=30)) as connection:
        while True:
            path = f"/topics/crash/partitions/{partition}/records?offset={len(found)}&timeout=0&max_bytes=4000000"
            connection.request("GET", path, headers={"Accept": BINARY})
            with connection.getresponse() as answer:
                records = orjson.loads(answer.read())
            assert answer.status == 200, records
            if not records:
                return found
            for record in records:
                assert record["offset"] == len(found), "offsets are dense"
                found.append(int(base64.b64decode(record["value"])))


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_under_load_lose_nothing_acknowledged(tmp_path: Path, kills: int) -> None:
    moments = random.Random(1)
    values = itertools.count()
    sent: set[int] = set()
    acknowledged: dict[tuple[int, int], int] = {}
    with BrokerProcess(str(tmp_path / "data")) as broker:
        broker.start()
        create_topic(broker.address)
        for _ in range(kills):
            enough = threading.Semaphore(0)
            producers = [Producer(broker.address, number, values, enough) for number in range(4)]
            for producer in producers:
                producer.start()
            for _ in range(moments.randrange(20, 300)):
                assert enough.acquire(timeout=30), "the broker stopped answering"
            broker.kill()
            for producer in producers:
                producer.join(30)
                sent |= producer.sent
                acknowledged |= producer.acknowledged
            broker.start()
            check_stored(broker.address, sent, acknowledged)
        assert broker.stop() == 0
    assert len(acknowledged) > kills * 20


def create_topic(address: str) -> None:
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    config = [{"name": "segment.bytes", "value": "65536"}]
    body = orjson.dumps({"topic_name": "crash", "partitions_count": PARTITIONS, "configs": config})
    connection.request("POST", "/v3/clusters/-/topics", body, {"Content-Type": "application/json"})
    with connection.getresponse() as answer:
        assert answer.status == 201
    connection.close()


def check_stored(address: str, sent: set[int], acknowledged: dict[tuple[int, int], int]) -> None:
    kept = [read_values(address, partition) for partition in range(PARTITIONS)]
    for (partition, offset), value in acknowledged.items():
        assert offset < len(kept[partition]), f"acknowledged offset {offset} of partition {partition} is missing"
        assert kept[partition][offset] == value
    everything = [value for part in kept for value in part]
    assert len(everything) == len(set(everything)), "nothing is there twice"
    assert set(everything) <= sent
