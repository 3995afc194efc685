"""A broker that answers what a test tells it, over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Scripted = Callable[[Answer], Awaitable[str]]


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    """Starts servers; each gives its address."""
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
    """Servers that read a request and then do something rude with the connection."""
    servers = []
    writers: list[asyncio.StreamWriter] = []

    async def start(rudeness: Callable[[asyncio.StreamWriter], Any]) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            await reader.readuntil(b"\r\n\r\n")
            rudeness(writer)

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
    """An address at which nobody listens."""
    return f"127.0.0.1:{unused_tcp_port}"
