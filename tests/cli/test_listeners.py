"""The listeners of a broker: several at once, stopped together, with one memory budget for bodies."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from raftlog.api.http.listener import HttpListener
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.server import requests_budget
from raftlog.cli.serve.listeners import Listeners
from raftlog.errors import InvalidArgument
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import Caller
from raftlog.partitions.settings import BrokerSettings
from tests.small_journal import SMALL_JOURNAL


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    opened = await Broker.open(BrokerSettings(data_dir=str(tmp_path), sync_threads=1, driver=SMALL_JOURNAL))
    try:
        await opened.start()
        yield opened
    finally:
        await opened.close()


def make_listener(broker: Broker, name: str, port: int = 0, advertised: str = "") -> HttpListener:
    return HttpListener(broker, "127.0.0.1", port, advertised, requests_budget(broker), name)


async def fetch_status(address: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}/topics") as answer:
        return answer.status


async def test_all_listeners_serve_and_stop_together(broker: Broker) -> None:
    inside, outside = (
        make_listener(broker, "inside"),
        make_listener(broker, "outside", advertised="broker-1.example:80"),
    )
    listeners = Listeners(inside, [outside])
    await listeners.start()
    assert (listeners.advertised, inside.advertised) == (inside.address, inside.address)
    assert outside.advertised == "broker-1.example:80"
    assert inside.address != outside.address
    assert (listeners.kafka, listeners.first_kafka) == ({"outside": "broker-1.example:80"}, "broker-1.example:80")
    assert [await fetch_status(each.address) for each in (inside, outside)] == [200, 200]
    await asyncio.wait_for(listeners.stop(1.0, 0.0), 10)
    for each in (inside, outside):
        with pytest.raises(aiohttp.ClientConnectorError):
            await fetch_status(each.address)


async def test_a_listener_that_cannot_listen_stops_the_others(broker: Broker) -> None:
    first = make_listener(broker, "first")
    await first.start()
    port = int(first.address.rpartition(":")[2])
    other = make_listener(broker, "other")
    listeners = Listeners(other, [make_listener(broker, "same", port)])
    with pytest.raises(InvalidArgument, match="another program listens there"):
        await listeners.start()
    await listeners.stop(1.0, 0.0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await fetch_status(other.address)
    assert await fetch_status(first.address) == 200
    await first.stop(1.0, 0.0)


async def test_an_optional_listener_that_cannot_listen_is_left_out(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_listener(broker, "first")
    await first.start()
    taken = make_listener(broker, "kafka", int(first.address.rpartition(":")[2]))
    listeners = Listeners(make_listener(broker, "http"), [taken], is_kafka_optional=True)
    await listeners.start()
    assert (listeners.kafka, listeners.first_kafka) == ({}, None)
    assert "Kafka is off: cannot listen on 127.0.0.1" in caplog.text
    assert await fetch_status(listeners.advertised) == 200
    await listeners.stop(1.0, 0.0)
    await first.stop(1.0, 0.0)


async def test_listeners_share_the_memory_for_bodies(broker: Broker) -> None:
    shared = requests_budget(broker)
    one, other = (HttpListener(broker, "127.0.0.1", 0, "", shared) for _ in range(2))
    assert one._server.bodies.memory is other._server.bodies.memory is shared


async def test_the_caller_names_the_listener_of_its_connection(broker: Broker) -> None:
    callers: list[Caller] = []

    async def note_caller(request: web.BaseRequest, target: object) -> web.StreamResponse:
        callers.append(caller_of(request))
        return web.Response()

    inside, outside = make_listener(broker, "inside"), make_listener(broker, "outside")
    for each in (inside, outside):
        each._server._app.router.add(HttpEndpoint("GET /caller"), note_caller, "operators")
        await each.start()
    async with aiohttp.ClientSession() as session:
        for each in (inside, inside, outside):
            async with session.get(f"http://{each.address}/caller") as answer:
                assert answer.status == 200
    assert [tuple(caller) for caller in callers] == [
        ("ANONYMOUS", "", "127.0.0.1", name) for name in ("inside", "inside", "outside")
    ]
    assert callers[0] is callers[1], "made once for a connection"
    await Listeners(inside, [outside]).stop(1.0, 0.0)
