"""Python calls that a Kafka request costs in the broker: a step added to the hot path raises the count."""

import asyncio
import os
import selectors
import socket
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from struct import Struct
from types import FrameType

import pytest
from kafka.protocol.consumer import FetchRequest

from raftlog.api.kafka.api import ApiKey, KafkaRequest
from raftlog.api.kafka.listener import KafkaListener
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.runtime.memory_budget import MemoryBudget
from tests.kafka.data.requests import CALLER, MIB, fetch_fields, make_batch, make_sequenced_batch
from tests.kafka.harness import make_request
from tests.waiting import until_async

LOOP = (os.path.dirname(asyncio.__file__), selectors.__file__)
"""Files of the event loop in tests; brokers run on another one, in C."""
CONNECTIONS = 64
ROUNDS = 8
UNCOUNTED_ROUNDS = 6
"""Rounds before the counted ones, in which the broker accepts the connections and meets the producers."""
PLAIN_CALLS_MAX = 95
"""Calls of Python functions for one Produce request of one record, resumed coroutines included."""
SEQUENCED_CALLS_MAX = 120
"""The same for an idempotent producer, whose sequence is checked and recorded."""
PARTITIONS = 200
FETCH_CALLS_MAX = 18
"""Calls for each partition without records in a Fetch request, both codecs included."""
_PRODUCE = Struct(">hhiih1sii")
_ERROR_AT = 4 + 4 + 4 + 2 + 1 + 4 + 4
"""Position of the partition's error code in an answer for topic `t`."""


def produce_request(records: bytes) -> bytes:
    """Return a frame of Produce v7 for partition 0 of topic `t`."""
    body = _PRODUCE.pack(-1, -1, 30_000, 1, 1, b"t", 1, 0) + len(records).to_bytes(4, "big") + records
    return make_request(ApiKey.PRODUCE, 7, body)


class Clients:
    """Connections with one request in flight each. All requests of a round are sent before the broker runs again."""

    def __init__(self, port: int) -> None:
        self._connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]

    def send(self, round_: int, records: Callable[[int, int], bytes]) -> None:
        """Send `records(connection, round)` on every connection."""
        for number, connection in enumerate(self._connections):
            connection.sendall(produce_request(records(number, round_)))

    def receive(self) -> set[int]:
        """Read all answers; return their codes. Runs in a thread whose calls are not counted."""
        codes = set()
        for connection in self._connections:
            answer = connection.recv(4096)
            assert len(answer) == 4 + int.from_bytes(answer[:4], "big"), "more or less than one answer"
            codes.add(int.from_bytes(answer[_ERROR_AT : _ERROR_AT + 2], "big"))
        return codes

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class Calls:
    """Count of the Python calls of this thread, without those of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        self.count += event == "call" and not frame.f_code.co_filename.startswith(LOOP)


@pytest.fixture
async def port(lone) -> AsyncIterator[int]:
    """Yield the port of a listener beside the broker."""
    broker: Broker = lone.broker
    listener = KafkaListener(broker, "127.0.0.1", 0, "", MemoryBudget(64 * MIB))
    await listener.start()
    yield int(listener.address.rpartition(":")[2])
    await listener.stop(1.0, 0.0)


async def count_calls_per_request(port: int, records: Callable[[int, int], bytes]) -> float:
    """Return the number of Python calls in the loop's thread per request."""
    clients, calls = Clients(port), Calls()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        for round_ in range(UNCOUNTED_ROUNDS + ROUNDS):
            clients.send(round_, records)
            with calls if round_ >= UNCOUNTED_ROUNDS else nullcontext():
                assert await loop.run_in_executor(pool, clients.receive) == {0}
    clients.close()
    return calls.count / (ROUNDS * CONNECTIONS)


async def test_a_request_of_one_record_costs_few_calls(port: int) -> None:
    records = make_batch(bytes(100))
    assert await count_calls_per_request(port, lambda number, round_: records) <= PLAIN_CALLS_MAX


async def test_a_request_of_an_idempotent_producer_costs_few_calls(lone, port: int) -> None:
    producers = [await lone.new_producer() for _ in range(CONNECTIONS)]
    cost = await count_calls_per_request(
        port, lambda number, round_: make_sequenced_batch(producers[number], round_, bytes(100))
    )
    assert cost <= SEQUENCED_CALLS_MAX


@pytest.mark.parametrize("version", [11, 12])
async def test_a_partition_of_a_fetch_costs_few_calls(lone, version: int) -> None:
    await lone.broker.create_topic("many", PARTITIONS, deadline=deadline_in(30_000))
    offsets = {("many", number): 0 for number in range(PARTITIONS)}

    async def is_served() -> bool:
        return {row.error_code for row in (await lone.fetch(offsets, version=version)).values()} == {0}

    await until_async(is_served)  # each partition has elected its leader
    api, calls = lone.apis[ApiKey.FETCH], Calls()
    body = memoryview(bytearray(FetchRequest(version=version, **fetch_fields(offsets)).encode(version=version)))
    with calls:
        answer = await api.handle(KafkaRequest(ApiKey.FETCH, version, api.decode(body, version), CALLER))
        pieces = api.encode(answer, version)
    assert sum(map(len, pieces)) > PARTITIONS
    assert calls.count / PARTITIONS <= FETCH_CALLS_MAX
