"""How far a request got decides what its failure means."""

import asyncio

import pytest

from raftlog.client.failures import NotListening
from raftlog.client.transport import Transport
from raftlog.errors import OutcomeUnknown

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class DyingBroker:
    """Answers the first request, and dies on the second one of the same connection."""

    def __init__(self) -> None:
        self.requests = 0

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            self.requests += 1
            if self.requests == 2:
                self._server.close()
                writer.transport.abort()
                return
            writer.write(NO_CONTENT)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "POST"])
async def test_what_was_sent_on_a_connection_that_broke_may_have_happened(method: str) -> None:
    broker = DyingBroker()
    async with broker as address, Transport([address]) as transport:
        await transport.request(method, "/t", timeout_s=5, repeatable=False)
        with pytest.raises(OutcomeUnknown):
            await transport.request(method, "/t", timeout_s=5, repeatable=False)
        assert broker.requests == 2
        with pytest.raises(NotListening):
            await transport.request(method, "/t", timeout_s=5, repeatable=False)
