"""Definite and indefinite failures of a request, by the stage that it had reached."""

import asyncio

import pytest

from raftlog.client.failures import NotListening
from raftlog.client.transport import HttpTransport
from raftlog.errors import NotServing, OutcomeUnknown, Overloaded, Unavailable

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class FakeBroker:
    """Server that counts its requests."""

    def __init__(self) -> None:
        self.requests = 0

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class CrashingBroker(FakeBroker):
    """Server that answers the first request and closes the connection without an answer at the second one."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            self.requests += 1
            if self.requests == 2:
                self._server.close()
                writer.transport.abort()
                return
            writer.write(NO_CONTENT)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "POST"])
async def test_requests_on_a_broken_connection_are_unknown(method: str) -> None:
    broker = CrashingBroker()
    async with broker as address, HttpTransport([address]) as transport:
        await transport.request(method, "/t", timeout_s=5, repeatable=False)
        with pytest.raises(OutcomeUnknown):
            await transport.request(method, "/t", timeout_s=5, repeatable=False)
        assert broker.requests == 2
        with pytest.raises(NotListening):
            await transport.request(method, "/t", timeout_s=5, repeatable=False)


class LossyBroker(FakeBroker):
    """Server that closes the connection after a complete request, with or without sending `answer` first."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__()
        self._answer = answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        writer.write(self._answer)
        writer.close()


NO_LEADER = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("method", ["DELETE", "PUT", "POST"])
async def test_a_change_after_a_lost_attempt_is_unknown_unless_a_later_one_succeeds(method: str) -> None:
    async with LossyBroker() as lossy, LossyBroker(NO_LEADER) as refusing, LossyBroker(NO_CONTENT) as willing:
        async with HttpTransport([lossy]) as transport:
            with pytest.raises(OutcomeUnknown, match="may have been done: no broker answers"):
                await transport.request(method, "/t", timeout_s=5, repeatable=True)
        async with HttpTransport([lossy, refusing]) as transport:
            with pytest.raises(OutcomeUnknown, match="may have been done; then"):
                await transport.request(method, "/t", timeout_s=5, repeatable=True)
        async with HttpTransport([lossy, willing]) as transport:
            assert (await transport.request(method, "/t", timeout_s=5, repeatable=True)).status == 204
        async with HttpTransport([refusing]) as transport:
            with pytest.raises(Unavailable):
                await transport.request(method, "/t", timeout_s=5, repeatable=True)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_read_after_a_lost_attempt_is_not_unknown(method: str) -> None:
    async with LossyBroker() as lossy, LossyBroker(NO_LEADER) as refusing:
        async with HttpTransport([lossy]) as transport:
            with pytest.raises(Unavailable):
                await transport.request(method, "/t", timeout_s=5, repeatable=True, only_reads=True)
        async with HttpTransport([lossy, refusing]) as transport:
            with pytest.raises(Unavailable):
                await transport.request(method, "/t", timeout_s=5, repeatable=True, only_reads=True)


async def test_a_broker_that_refuses_a_request_is_not_asked_first_later() -> None:
    too_many = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}"
    async with LossyBroker() as lossy, LossyBroker(too_many) as busy, HttpTransport([lossy, busy]) as transport:
        for _ in range(2):
            with pytest.raises(Overloaded):
                await transport.request("GET", "/t", timeout_s=5, repeatable=True)
        assert transport._list_addresses(None)[0] == lossy


def make_refusal(node: int) -> bytes:
    """Return the answer of a broker that stops."""
    body = f'{{"error_code":50302,"message":"node {node} stops","outcome":"failed","not_ready":true}}'.encode()
    return b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_goes_on_to_the_next_broker_when_one_stops(method: str) -> None:
    """A stopping broker did nothing, so even a request that must not be repeated may be sent to another one."""
    stopping, other = LossyBroker(make_refusal(1)), LossyBroker(NO_CONTENT)
    async with stopping as first, other as second, HttpTransport([first, second]) as transport:
        assert (await transport.request(method, "/t", timeout_s=5, repeatable=False)).status == 204
        assert (stopping.requests, other.requests) == (1, 1)


async def test_the_refusal_is_raised_when_all_brokers_stop() -> None:
    one, two = LossyBroker(make_refusal(1)), LossyBroker(make_refusal(2))
    async with one as first, two as second, HttpTransport([first, second]) as transport:
        with pytest.raises(NotServing, match="node 2 stops"):
            await transport.request("GET", "/t", timeout_s=5, repeatable=True)
        with pytest.raises(NotServing, match="node 2 stops"):
            await transport.request("GET", "/t", timeout_s=5, repeatable=True)
