"""Listening sockets with TLS: failed handshakes end with one event, within bounds, and cost other clients nothing."""

import asyncio
import logging
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from raftlog.api import sockets
from raftlog.api.sockets import TlsSockets, bind
from raftlog.security.client_tls import ClientTlsFiles, client_context
from raftlog.security.tls_files import ClientCertificates, ServerTls, ServerTlsFiles
from tests.security.certificates import create
from tests.waiting import until


class Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's has no common class

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=request.param)


@asynccontextmanager
async def listening(tls: ServerTls) -> AsyncIterator[tuple[TlsSockets, int]]:
    server = await bind(Echo, "127.0.0.1", 0, 16, tls, "kafka")
    assert isinstance(server, TlsSockets)
    await server.start_serving()
    try:
        yield server, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        assert server.handshakes == 0


async def echo(port: int, context: ssl.SSLContext, size: int = 300_000) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(bytes(size))
    assert await reader.readexactly(size) == bytes(size)
    writer.close()
    await writer.wait_closed()


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.why for record in caplog.records if record.message == "tls_handshake_failed"]  # type: ignore[attr-defined]


def test_bytes_pass_in_both_directions(runner: asyncio.Runner, tmp_path: Path) -> None:
    authority, node, _ = create(tmp_path)

    async def talk() -> None:
        async with listening(ServerTls(ServerTlsFiles(node.certificate, node.key))) as (_, port):
            await asyncio.gather(*(echo(port, client_context(ClientTlsFiles(authority))) for _ in range(20)))

    with runner:
        runner.run(asyncio.wait_for(talk(), 20))


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ("http", "the client does not use TLS"),
        ("kafka", "the client does not use TLS"),
        ("old", "only versions below TLS 1.2"),
        ("strange", "does not accept the listener's certificate"),
        ("bare", "the client has no certificate"),
    ],
)
def test_a_failed_handshake_is_one_event(
    runner: asyncio.Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture, client: str, words: str
) -> None:
    caplog.set_level(logging.INFO)
    authority, node, clients = create(tmp_path / "ours", "alice")
    other, _, _ = create(tmp_path / "others")
    alice = ClientTlsFiles(authority, clients["alice"].certificate, clients["alice"].key)
    required = ServerTlsFiles(node.certificate, node.key, authority, ClientCertificates.REQUIRED)

    async def attack(port: int) -> None:
        context: Any = None
        if client == "old":
            context = ssl.create_default_context(cafile=authority)
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        elif client != "http" and client != "kafka":
            context = client_context(ClientTlsFiles(other if client == "strange" else authority))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        except OSError:
            return
        writer.write(b"GET / HTTP/1.1\r\n\r\n" if client == "http" else bytes.fromhex("0000001500120003") + bytes(17))
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    async def run() -> None:
        async with listening(ServerTls(required)) as (_, port):
            await asyncio.wait_for(attack(port), 5)
            await until(lambda: failures(caplog))
            await echo(port, client_context(alice))

    with runner, warnings.catch_warnings(action="ignore"):
        runner.run(asyncio.wait_for(run(), 20))
    [why] = failures(caplog)
    assert words in why


def test_silent_clients_are_disconnected_in_time_and_do_not_lock_others_out(
    runner: asyncio.Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sockets, "HANDSHAKE_S", 0.5)
    monkeypatch.setattr(sockets, "HANDSHAKES_MAX", 4)
    authority, node, _ = create(tmp_path)

    async def run() -> None:
        async with listening(ServerTls(ServerTlsFiles(node.certificate, node.key))) as (server, port):
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
            await echo(port, client_context(ClientTlsFiles(authority)))
            assert server.handshakes <= 4
            for reader, writer in silent:
                assert await reader.read() == b""
                writer.close()

    with runner:
        runner.run(asyncio.wait_for(run(), 20))
    assert set(failures(caplog)) == {"no TLS handshake within 0.5 s"}


def test_a_check_that_only_connects_is_no_event(
    runner: asyncio.Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    authority, node, _ = create(tmp_path)

    async def run() -> None:
        async with listening(ServerTls(ServerTlsFiles(node.certificate, node.key))) as (server, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await echo(port, client_context(ClientTlsFiles(authority)))
            await until(lambda: not server.handshakes)

    with runner:
        runner.run(asyncio.wait_for(run(), 20))
    assert failures(caplog) == []


def test_a_port_in_use_is_an_error(runner: asyncio.Runner, tmp_path: Path) -> None:
    _, node, _ = create(tmp_path)

    async def run() -> None:
        tls = ServerTls(ServerTlsFiles(node.certificate, node.key))
        async with listening(tls) as (_, port):
            with pytest.raises(OSError, match="in use"):
                await bind(Echo, "127.0.0.1", port, 16, tls, "http")

    with runner:
        runner.run(asyncio.wait_for(run(), 20))
