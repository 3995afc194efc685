"""Clients that write unique values to a cluster during faults, and the check that all acknowledged ones are stored.

Each write ends as acknowledged (with its offset), refused (definitely not there) or unknown. The clients are threads
with plain HTTP connections: nothing of raftlog's own client comes between the cluster and the judgement.
"""

import base64
import http.client
import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

import orjson

from raftlog.records import build_batch
from raftlog.testing import Cluster
from raftlog.testing.http import ask

BINARY = "application/vnd.kafka.binary.v2+json"
BATCHES = "application/vnd.raftlog.batches"
WRITE_TIMEOUT_MS = 3_000
SILENCE_S = 15.0
"""A client gives up on an answer only long after the broker had to give it."""
PROGRESS_S = 30.0


def create_topic(address: str, topic: str, partitions: int = 1, copies: int = 3, **config: object) -> None:
    configs = [{"name": name.replace("_", "."), "value": str(value)} for name, value in config.items()]
    body = {"topic_name": topic, "partitions_count": partitions, "replication_factor": copies, "configs": configs}
    status, answer = ask(address, "/v3/clusters/-/topics?timeout=10000", method="POST", body=body, timeout_s=SILENCE_S)
    assert status == 201, answer


def delete_topic(address: str, topic: str) -> None:
    path = f"/v3/clusters/-/topics/{topic}?timeout=10000"
    status, answer = ask(address, path, method="DELETE", timeout_s=SILENCE_S)
    assert status == 204, answer


class Ledger:
    """Outcomes of all writes to one topic; `acknowledged` has values by partition and offset."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.values = itertools.count()
        self.sent: set[int] = set()
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.refused: set[int] = set()
        self.unknown: set[int] = set()
        self.ack_times: list[float] = []
        self.changed = threading.Condition()

    def begin(self) -> int:
        with self.changed:
            value = next(self.values)
            self.sent.add(value)
            return value

    def acknowledge(self, partition: int, offset: int, value: int) -> None:
        with self.changed:
            known = self.acknowledged.setdefault((partition, offset), value)
            assert known == value, f"offset {offset} of partition {partition} was acknowledged for {known} and {value}"
            self.ack_times.append(time.monotonic())
            self.changed.notify_all()

    def wait_for_more(self, count: int, timeout_s: float = PROGRESS_S) -> None:
        """Wait until `count` more writes are acknowledged."""
        with self.changed:
            target = len(self.acknowledged) + count
            done = self.changed.wait_for(lambda: len(self.acknowledged) >= target, timeout_s)
            assert done, (
                f"{target - len(self.acknowledged)} of {count} acknowledgements are missing after {timeout_s} s"
            )

    def longest_pause_s(self, since: float) -> float:
        """Return the longest time between two acknowledgements, of which the later came after `since`."""
        with self.changed:
            times = sorted(self.ack_times)
        pairs = itertools.pairwise(times)
        return max((later - earlier for earlier, later in pairs if later > since), default=0.0)


class Writer(threading.Thread):
    """Client thread that writes through its addresses in turn and stays with one that answers."""

    def __init__(
        self, ledger: Ledger, addresses: Sequence[str], partitions: int, number: int, pause_s: float = 0.0
    ) -> None:
        super().__init__(daemon=True, name=f"writer {number}")
        self._ledger, self._addresses = ledger, itertools.cycle(addresses)
        for _ in range(number % len(addresses)):
            next(self._addresses)
        self._partition = number % partitions
        self._over, self._pause_s = threading.Event(), pause_s
        self.failure: BaseException | None = None

    def end(self) -> None:
        self._over.set()
        self.join(2 * SILENCE_S)
        assert not self.is_alive(), f"{self.name} waits for ever"
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._write_through(next(self._addresses))
                self._over.wait(0.01)
        except Exception as error:  # noqa: BLE001 - raised again by `end`
            self.failure = error

    def _write_through(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=SILENCE_S)
        try:
            connection.connect()
        except OSError:
            return
        try:
            while not self._over.is_set() and self._write(connection):
                if self._pause_s:
                    self._over.wait(self._pause_s)
        finally:
            connection.close()

    def _write(self, connection: http.client.HTTPConnection) -> bool:
        """Write one value; return False if the connection cannot be used any more or the broker has refused."""
        ledger, value = self._ledger, self._ledger.begin()
        path = f"/topics/{ledger.topic}/partitions/{self._partition}?timeout={WRITE_TIMEOUT_MS}"
        body = bytes(build_batch([b"%d" % value]))
        try:
            connection.request("POST", path, body, {"Content-Type": BATCHES})
            with connection.getresponse() as answer:
                fields: dict[str, Any] = orjson.loads(answer.read())
        except (OSError, http.client.HTTPException):
            ledger.unknown.add(value)
            return False
        row = fields["offsets"][0] if answer.status == 200 else fields
        if answer.status == 200 and row.get("error_code") is None:
            ledger.acknowledge(self._partition, row["offset"], value)
            return True
        assert row["outcome"] in ("failed", "unknown"), f"{answer.status}: {fields}"
        (ledger.refused if row["outcome"] == "failed" else ledger.unknown).add(value)
        return False


class Load:
    """Context manager whose writers write until the block ends; each pauses for `pause_s` after a write."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        partitions: int = 1,
        writers: int = 6,
        addresses: Sequence[str] | None = None,
        ledger: Ledger | None = None,
        pause_s: float = 0.04,
    ) -> None:
        self.ledger = ledger or Ledger(topic)
        found = addresses or cluster.addresses
        self._writers = [Writer(self.ledger, found, partitions, number, pause_s) for number in range(writers)]

    def __enter__(self) -> Ledger:
        for writer in self._writers:
            writer.start()
        return self.ledger

    def __exit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.end()


def read_values(address: str, topic: str, partition: int = 0) -> list[int]:
    """Return all values of a partition up to its end, by offset."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SILENCE_S)
    try:
        end = _get(connection, f"/topics/{topic}/partitions/{partition}/offsets")["end_offset"]
        found: list[int] = []
        while len(found) < end:
            found += _fetch_records(connection, topic, partition, len(found))
        return found
    finally:
        connection.close()


def read_first_values(address: str, topic: str, count: int) -> list[int]:
    """Read the first `count` values of partition 0 without a request for its end."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SILENCE_S)
    try:
        found: list[int] = []
        while len(found) < count:
            found += _fetch_records(connection, topic, 0, len(found))
        return found[:count]
    finally:
        connection.close()


def _fetch_records(connection: http.client.HTTPConnection, topic: str, partition: int, offset: int) -> list[int]:
    path = f"/topics/{topic}/partitions/{partition}/records?offset={offset}&timeout=1000&max_bytes=4000000"
    records = _get(connection, path)
    assert records, f"{topic}/{partition} has nothing to read at offset {offset}"
    assert [record["offset"] for record in records] == list(range(offset, offset + len(records))), "offsets are dense"
    return [int(base64.b64decode(record["value"])) for record in records]


def _get(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path, headers={"Accept": BINARY if "/records" in path else "application/json"})
    with connection.getresponse() as answer:
        body = answer.read()
    assert answer.status == 200, f"{path}: {answer.status} {body!r}"
    return orjson.loads(body)


def check_stored(cluster: Cluster, ledger: Ledger, partitions: int = 1) -> None:
    """Check that the topic has each acknowledged write exactly once and no refused or unsent one.

    Every running broker has to serve the same."""
    views = [
        [read_values(node.http, ledger.topic, partition) for partition in range(partitions)]
        for node in cluster.nodes.values()
        if node.is_running and not node.is_paused
    ]
    kept = views[0]
    assert all(view == kept for view in views), "the brokers show different records"
    for (partition, offset), value in ledger.acknowledged.items():
        assert offset < len(kept[partition]), f"acknowledged offset {offset} of partition {partition} is missing"
        assert kept[partition][offset] == value, f"offset {offset} of partition {partition} holds another value"
    everything = [value for values in kept for value in values]
    assert len(everything) == len(set(everything)), "a value is there twice"
    assert set(everything) <= ledger.sent, "there are values that were never sent"
    assert not set(everything) & ledger.refused, "a refused value is there"
