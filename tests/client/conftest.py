"""Fixtures: scripted brokers on real sockets, and real brokers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from raftlog.api.http.server.server import HttpServer
from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.testing import Cluster
from tests.client.fake_broker import FakeBroker
from tests.small_journal import SMALL_JOURNAL

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Scripted = Callable[[Answer], Awaitable[str]]


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    """Return a function that starts a server with this handler and returns its address."""
    runners = []

    async def start(answer: Answer) -> str:
        runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        host, port = runner.addresses[0]
        return f"{host}:{port}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def silent() -> AsyncIterator[Callable[[Callable[[asyncio.StreamWriter], Any]], Awaitable[str]]]:
    """Return a function that starts a server which reads a request and then calls `misbehave` with its connection."""
    servers = []
    writers: list[asyncio.StreamWriter] = []

    async def start(misbehave: Callable[[asyncio.StreamWriter], Any]) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            await reader.readuntil(b"\r\n\r\n")
            misbehave(writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        host, port = server.sockets[0].getsockname()
        return f"{host}:{port}"

    yield start
    for writer in writers:
        writer.close()
    for server in servers:
        server.close()
        await server.wait_closed()


@pytest.fixture
def free_address(unused_tcp_port: int) -> str:
    """Return an address at which no server listens."""
    return f"127.0.0.1:{unused_tcp_port}"


@pytest.fixture
async def served(scripted: Scripted) -> Callable[[FakeBroker], Awaitable[str]]:
    """Return a function that serves a fake broker and returns its address."""

    async def start(broker: FakeBroker) -> str:
        broker.address = await scripted(broker.serve)
        return broker.address

    return start


@pytest.fixture(scope="module")
def broker_process() -> Iterator[str]:
    """Start a broker in a process of its own, shared by a module; yield its address."""
    with Cluster(1) as cluster:
        yield cluster.bootstrap


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[str]:
    """Start a single broker in this process; yield its address."""
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path / "data"), driver=SMALL_JOURNAL))
    server = HttpServer(broker)
    host, port = await server.start("127.0.0.1", 0)
    await broker.start(f"{host}:{port}")
    yield f"{host}:{port}"
    await server.stop(1.0)
    await broker.close()
