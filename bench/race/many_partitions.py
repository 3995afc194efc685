"""Consumers that read all partitions of a wide topic with long polls and fetch sessions (KIP-227), as Java clients do.

    python -m bench.race.many_partitions BOOTSTRAP PARTITIONS CONSUMERS RECORDS_PER_S SECONDS PID…

Creates the topic, and prints a JSON object of figures after the run; `cpu` is that of the processes PID. Every consumer
has a connection to each broker, and sends there the partitions that the broker leads: all of them in its first request,
and later, where the broker offers a session, only those whose offset has moved."""

import asyncio
import json
import random
import socket
import sys
import time
import uuid
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Any, Final

import uvloop
from kafka.protocol.admin import (  # type: ignore[import-untyped]  # it has no annotations
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse  # type: ignore[import-untyped]
from kafka.protocol.producer import ProduceRequest  # type: ignore[import-untyped]

from bench.race.accounting import process_cpu_s
from bench.race.frames import receive_frame
from raftlog.records import NewRecord, build_batch

WARM_UP_S: Final = 4.0
_TIMEOUT_S: Final = 120.0
_STABLE_S: Final = 10.0
"""Seconds without a change of leaders that must pass before the run."""
_MAX_WAIT_MS: Final = 500
_RECORD_BYTES: Final = 100
_VERSION: Final = 12
_FETCH: Final = 1
_HEADER: Final = Struct(">ihhih")
_HEAD: Final = Struct(">iiiibii")
_ROW: Final = Struct(">iiqiqiB")
_ANSWER: Final = Struct(">ibihi")
"""Correlation id, tags of the header, throttle time, error, session."""
_NUMBERS: Final = Struct(">ihqqq")
_BATCH: Final = Struct(">qi")
_LAST_OFFSET: Final = Struct(">i")
_LAST_OFFSET_AT: Final = 23
_BATCH_OVERHEAD: Final = 12
_SESSION_ERRORS: Final = (70, 71)


def write_varint(number: int) -> bytes:
    """Return an unsigned varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


class Totals:
    """Counts of all consumers."""

    def __init__(self) -> None:
        self.fetches = self.records = self.full = self.refused = self.bytes_in = 0


class BrokerReader(asyncio.Protocol):
    """Connection of one consumer to one broker, with one Fetch in flight."""

    def __init__(self, topic: str, partitions: list[int], totals: Totals) -> None:
        self._name = write_varint(len(topic) + 1) + topic.encode()
        self._offsets = dict.fromkeys(partitions, 0)
        self._moved: list[int] = list(partitions)
        self._totals = totals
        self._session, self._epoch = 0, 0
        self._data = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        rows = [_ROW.pack(each, -1, self._offsets[each], -1, -1, 1 << 20, 0) for each in self._moved]
        topics = b"\x02" + self._name + write_varint(len(rows) + 1) + b"".join(rows) + b"\0" if rows else b"\x01"
        head = _HEAD.pack(-1, _MAX_WAIT_MS, 1, 50 << 20, 0, self._session, self._epoch)
        body = b"\0" + head + topics + b"\x01\x01\0"
        frame = _HEADER.pack(_HEADER.size - 4 + len(body), _FETCH, _VERSION, self._totals.fetches & 0xFFFF, -1)
        self._transport.write(frame + body)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            size = int.from_bytes(self._data[:4], "big") + 4
            if len(self._data) < size:
                return
            answer, self._data = self._data[4:size], self._data[size:]
            self._take(answer)
            self._send()

    def _take(self, data: bytes) -> None:
        totals = self._totals
        _, _, _, error, session = _ANSWER.unpack_from(data)
        totals.fetches += 1
        totals.bytes_in += len(data)
        self._moved = []
        if error:
            if error not in _SESSION_ERRORS:
                raise ConnectionError(f"error {error}")
            totals.refused += 1
            self._session, self._epoch, self._moved = 0, 0, list(self._offsets)
            return
        topics, at = read_varint(data, _ANSWER.size)
        for _ in range(topics - 1):
            length, at = read_varint(data, at)
            at += length - 1
            count, at = read_varint(data, at)
            for _ in range(count - 1):
                at = self._take_partition(data, at)
            at = self._skip_tags(data, at)
        if session:
            self._session, self._epoch = session, self._epoch + 1
        else:
            totals.full += 1
            self._session, self._epoch, self._moved = 0, 0, list(self._offsets)

    def _take_partition(self, data: bytes, at: int) -> int:
        """Check one partition of an answer, and advance its offset; return the position after it."""
        partition, error, _, _, _ = _NUMBERS.unpack_from(data, at)
        if error:
            raise ConnectionError(f"error {error} of partition {partition}")
        at += _NUMBERS.size
        aborted, at = read_varint(data, at)
        assert aborted <= 1, "aborted transactions"
        size, at = read_varint(data, at + 4)
        end = at + max(0, size - 1)
        offset = self._offsets[partition]
        while at < end:
            base, length = _BATCH.unpack_from(data, at)
            offset = base + _LAST_OFFSET.unpack_from(data, at + _LAST_OFFSET_AT)[0] + 1
            at += length + _BATCH_OVERHEAD
        if offset != self._offsets[partition]:
            self._totals.records += offset - self._offsets[partition]
            self._offsets[partition] = offset
            self._moved.append(partition)
        return self._skip_tags(data, end)

    @staticmethod
    def _skip_tags(data: bytes, at: int) -> int:
        """Return the position after the tagged fields at `at`."""
        count, at = read_varint(data, at)
        for _ in range(count):
            _, at = read_varint(data, at)
            size, at = read_varint(data, at)
            at += size
        return at


class Discarding(asyncio.Protocol):
    """Connection of the producer, which ignores its answers."""


def _call(address: tuple[str, int], request: Any, response: Any, version: int) -> Any:
    with socket.create_connection(address, _TIMEOUT_S) as connection:
        request.with_header(correlation_id=1, client_id="bench")
        connection.sendall(request.encode(version=version, header=True, framed=True))
        return response.decode(receive_frame(connection), version=version, header=True)


def create_topic(
    address: tuple[str, int], partitions: int
) -> tuple[str, dict[int, tuple[str, int]], dict[int, list[int]]]:
    """Create a topic with three replicas; return its name, the brokers, and the partitions that each leads."""
    name = f"wide-{uuid.uuid4().hex[:8]}"
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=3, assignments=[], configs=[]
    )
    _call(
        address,
        CreateTopicsRequest(version=5, topics=[topic], timeout_ms=60_000, validate_only=False),
        CreateTopicsResponse,
        5,
    )
    until = time.monotonic() + _TIMEOUT_S
    before: dict[int, list[int]] = {}
    while time.monotonic() < until:
        request = MetadataRequest(
            version=9,
            topics=[MetadataRequest.MetadataRequestTopic(name=name)],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = _call(address, request, MetadataResponse, 9)
        brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        led: dict[int, list[int]] = {}
        found = answer.topics[0].partitions
        for each in found:
            led.setdefault(each.leader_id, []).append(each.partition_index)
        if len(found) == partitions and set(led) <= set(brokers) and led == before:
            return name, brokers, led
        before = led
        time.sleep(_STABLE_S)
    raise TimeoutError("the topic has no leaders")


async def produce(topic: str, brokers: dict[int, tuple[str, int]], led: dict[int, list[int]], per_s: float) -> None:
    """Send one record after another to random partitions, at this rate."""
    loop = asyncio.get_running_loop()
    transports = {node: (await loop.create_connection(Discarding, *brokers[node]))[0] for node in led}
    leaders = [(node, each) for node, partitions in led.items() for each in partitions]
    part = ProduceRequest.TopicProduceData
    begin, sent = loop.time(), 0
    while True:
        await asyncio.sleep(begin + sent / per_s - loop.time())
        node, partition = random.choice(leaders)
        batch = bytes(build_batch([NewRecord(bytes(_RECORD_BYTES))], now_ms=int(time.time() * 1000)))
        data = [part(name=topic, partition_data=[part.PartitionProduceData(index=partition, records=batch)])]
        request = ProduceRequest(version=8, transactional_id=None, acks=1, timeout_ms=10_000, topic_data=data)
        request.with_header(correlation_id=sent, client_id="bench")
        transports[node].write(request.encode(version=8, header=True, framed=True))
        sent += 1


def _cpu_s(pids: Sequence[int]) -> float:
    return sum(map(process_cpu_s, pids))


async def run(
    bootstrap: str, partitions: int, consumers: int, per_s: float, seconds: float, pids: Sequence[int]
) -> dict[str, float]:
    """Run the load; return its figures."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    topic, brokers, led = create_topic((host, int(port)), partitions)
    loop = asyncio.get_running_loop()
    totals = Totals()
    for _ in range(consumers):
        for node, those in led.items():
            await loop.create_connection(partial(BrokerReader, topic, those, totals), *brokers[node])
    await asyncio.sleep(WARM_UP_S)
    idle = _cpu_s(pids), time.monotonic()
    await asyncio.sleep(WARM_UP_S)
    idle_cpu = (_cpu_s(pids) - idle[0]) / (time.monotonic() - idle[1])
    producing = loop.create_task(produce(topic, brokers, led, per_s))
    await asyncio.sleep(WARM_UP_S)
    before = dict(vars(totals))
    cpu, begin, own = _cpu_s(pids), time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    elapsed = time.monotonic() - begin
    figures = {name: (value - before[name]) / elapsed for name, value in vars(totals).items()}
    figures |= {
        "cpu": (_cpu_s(pids) - cpu) / elapsed,
        "idle_cpu": idle_cpu,
        "client_cpu": (time.process_time() - own) / elapsed,
    }
    assert not producing.done(), producing
    producing.cancel()
    return figures


if __name__ == "__main__":
    bootstrap, partitions, consumers, per_s, seconds, *pids = sys.argv[1:]
    found = uvloop.run(
        run(bootstrap, int(partitions), int(consumers), float(per_s), float(seconds), list(map(int, pids)))
    )
    print(json.dumps(found))
