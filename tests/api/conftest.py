"""Fixtures: a broker behind its HTTP server on a free port of loopback, and a client session."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.http.server.server import HttpServer, HttpSettings
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from tests.small_journal import SMALL_JOURNAL


class Api:
    """Client session of a running HTTP server, with the broker behind it."""

    def __init__(self, broker: Broker, server: HttpServer, address: tuple[str, int], session: aiohttp.ClientSession):
        self.broker, self.server, self.address, self.session = broker, server, address, session
        self.url = f"http://{address[0]}:{address[1]}"

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Return status and parsed JSON body; `body` is sent as JSON."""
        if body is not None:
            options["json"] = body
        async with self.session.request(method, self.url + path, **options) as response:
            text = await response.read()
            return response.status, (await response.json() if text else None)

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        return await self.call("POST", path, body, **options)

    async def create_topic(self, name: str = "t", partitions: int = 1, **config: str) -> None:
        """Create a topic; `config` has Kafka's names with underscores."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        await self.broker.create_topic(name, partitions, config=settings, deadline=deadline_in(10_000))


@pytest.fixture
async def start_api(tmp_path) -> AsyncIterator[Any]:
    """Return a function that starts a broker with its HTTP API on a free port."""
    started: list[Api] = []

    async def start(
        broker_settings: dict[str, Any] | None = None,
        advertised: str = "",
        mechanisms: Sequence[str] = (),
        **server_settings: Any,
    ) -> Api:
        settings = {"driver": SMALL_JOURNAL, **(broker_settings or {})}
        broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path / "data"), **settings))
        required = ListenerAuthentication(broker.security.authenticator, mechanisms) if mechanisms else None
        server = HttpServer(broker, HttpSettings(**server_settings), advertised=advertised, authentication=required)
        address = await server.start("127.0.0.1", 0)
        await broker.start(f"{address[0]}:{address[1]}")
        api = Api(broker, server, address, aiohttp.ClientSession())
        started.append(api)
        return api

    yield start
    for api in started:
        await api.session.close()
        await api.server.stop(1.0)
        await api.broker.close()


@pytest.fixture
async def api(start_api) -> Api:
    return await start_api()
