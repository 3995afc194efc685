"""The listener on sockets, beside a broker."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.listener import KafkaListener
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.errors import InvalidArgument
from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.runtime.memory_budget import MemoryBudget
from tests.kafka.harness import MIB, make_request, parse_answers
from tests.small_journal import SMALL_JOURNAL

CONNECTIONS = 2_000
BYTES_PER_CONNECTION_MAX = 12_000


@pytest.fixture
async def broker(tmp_path) -> AsyncIterator[Broker]:
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
    await broker.start("127.0.0.1:1")
    yield broker
    await broker.close()


def make_listener(broker: Broker, port: int = 0, **settings: Any) -> KafkaListener:
    return KafkaListener(broker, "127.0.0.1", port, "", MemoryBudget(MIB), settings=KafkaSettings(**settings))


def port_of(listener: KafkaListener) -> int:
    return int(listener.address.rpartition(":")[2])


async def test_a_listener_serves_its_address_until_it_stops(broker: Broker) -> None:
    listener = make_listener(broker)
    await listener.start()
    assert listener.advertised == listener.address
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
    writer.write(make_request(ApiKey.API_VERSIONS, 0, correlation_id=5))
    size = int.from_bytes(await reader.readexactly(4), "big")
    answer = size.to_bytes(4, "big") + await reader.readexactly(size)
    assert parse_answers(answer)[0][0] == 5
    stopping = asyncio.ensure_future(listener.stop(5.0, 0.0))
    assert await reader.read() == b""
    writer.close()
    await asyncio.wait_for(stopping, 2.0)
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port_of(listener))


async def test_stop_before_start_does_nothing(broker: Broker) -> None:
    listener = make_listener(broker)
    await listener.stop(1.0, 1.0)
    await listener.start()
    assert port_of(listener) > 0
    await listener.stop(1.0, 1.0)


async def test_an_address_in_use_is_refused(broker: Broker) -> None:
    first = make_listener(broker)
    await first.start()
    second = make_listener(broker, port_of(first))
    with pytest.raises(InvalidArgument, match="another program listens there"):
        await second.start()
    await second.stop(0, 0)
    await first.stop(0, 0)


async def test_a_host_without_address_is_refused(broker: Broker) -> None:
    listener = KafkaListener(broker, "host.invalid", 0, "", MemoryBudget(MIB))
    with pytest.raises(InvalidArgument, match=r"cannot listen on host\.invalid:0"):
        await listener.start()


async def test_an_advertised_address_is_unchanged(broker: Broker) -> None:
    listener = KafkaListener(broker, "127.0.0.1", 0, "kafka.example:9092", MemoryBudget(MIB), "outside")
    assert (listener.name, listener.advertised) == ("outside", "kafka.example:9092")


async def test_metrics_count_requests(broker: Broker) -> None:
    counters = broker.measuring.counters.kafka
    listener = make_listener(broker)
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
    sent = make_request(ApiKey.API_VERSIONS, 0)
    writer.write(sent)
    answer = await reader.readexactly(4)
    assert counters.requests["ApiVersions"] == 1
    assert (counters.bytes_in, counters.connections) == (len(sent), 1)
    assert counters.bytes_out == int.from_bytes(answer, "big") + 4
    assert sum(counters.times["ApiVersions"].counts) == 1
    writer.close()
    await listener.stop(1.0, 1.0)
    assert (counters.connections, counters.connections_accepted) == (0, 1)


def test_idle_connections_take_little_memory(tmp_path) -> None:
    """The connections are in a process of their own, under uvloop as in `raftlog serve`."""
    program = Path(__file__).with_name("idle_connections.py")
    run = subprocess.run(
        [sys.executable, str(program), str(CONNECTIONS), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert int(run.stdout) < BYTES_PER_CONNECTION_MAX, run.stdout


def test_the_listener_works_under_uvloop(tmp_path) -> None:
    async def run() -> bytes:
        broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
        await broker.start("127.0.0.1:1")
        listener = make_listener(broker)
        await listener.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(listener))
        writer.write(make_request(ApiKey.API_VERSIONS, 0) * 100 + b"\xff\xff\xff\xff")
        found = await reader.read()
        writer.close()
        await listener.stop(1.0, 0.0)
        await broker.close()
        return found

    assert len(parse_answers(uvloop.run(run()))) == 100
    gc.collect()
