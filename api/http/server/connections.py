"""Connections of the HTTP server, and futures that complete when a connection or the server ends.

Long requests wait for these futures, because aiohttp does not report a disconnect to a handler that writes nothing.
Owned by the server, used by streams and tails."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from fcntl import ioctl
from functools import partial
from termios import FIONREAD
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web

from raftlog.api.http.server.connection import HttpConnection, Repeats
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.security.authenticator import Authenticator
from raftlog.partitions.security.client_rates import UNLIMITED, ClientRates
from raftlog.security.principals import certificate_principal

T = TypeVar("T")


async def run_until(work: Coroutine[Any, Any, T], *ends: "asyncio.Future[None]") -> "asyncio.Task[T]":
    """Run a coroutine until it ends or one of `ends` is done; return its task, which is done or being cancelled."""
    task = asyncio.get_running_loop().create_task(work)
    waits: set[asyncio.Future[Any]] = {task, *ends}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
    return task


class ConnectionEnds:
    """Futures that complete when a connection ends, and one, `stopping`, for the stop of the server.

    `stopping` is done once the server accepts no more requests."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[None] = self._loop.create_future()
        self._disconnected: dict[web.RequestHandler, asyncio.Future[None]] = {}

    def disconnected(self, request: web.BaseRequest) -> "asyncio.Future[None]":
        """Return a future that is done once the client has closed the connection of this request."""
        connection = request.protocol
        future = self._disconnected.get(connection)
        if future is None:
            future = self._disconnected[connection] = self._loop.create_future()
        if request.transport is None or request.transport.is_closing():
            self.complete_disconnected(connection)
        return future

    def complete_disconnected(self, connection: web.RequestHandler) -> None:
        """Complete the future of a closed connection."""
        future = self._disconnected.pop(connection, None)
        if future is not None and not future.done():
            future.set_result(None)

    def stop(self) -> None:
        """Complete `stopping`, so that long requests end."""
        if not self.stopping.done():
            self.stopping.set_result(None)


LOGIN_CHECK_S: Final = 2.0
"""Interval of the check for connections whose user was changed or whose token has expired."""
_CHECKED_AT_ONCE: Final = 500
"""Connections that are checked in one turn of the event loop."""


def _refusal(status: bytes, code: int, message: str) -> bytes:
    """Return the whole answer to a connection that is refused."""
    body = orjson.dumps({"error_code": code, "message": message, "outcome": "failed"})
    return (
        b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (status, len(body), body)
    )


_TOO_MANY: Final = _refusal(
    b"503 Service Unavailable",
    50302,
    "this broker has reached its maximum of connections (--http-connections-max); use another one",
)
_OVER_RATE: Final = _refusal(
    b"429 Too Many Requests", 42901, "this address opens more connections than its quota (connection_creation_rate)"
)


class Connections(web.Server):
    """Factory of connections; limits their number, and completes their futures in `ends` when they are closed.

    `listener` is the name of their listener. `has_certificates`: clients may have certificates, whose names are their
    principals."""

    def __init__(
        self,
        ends: ConnectionEnds,
        handler: Any,
        connections_max: int,
        listener: str,
        repeats: Repeats,
        *,
        has_certificates: bool = False,
        rates: ClientRates = UNLIMITED,
        **settings: Any,
    ) -> None:
        """Prepare to accept connections; `handler` answers requests, and `rates` limits new connections by address.

        `has_certificates` is whether clients may present certificates, which name their principals."""
        new_request = partial(web.BaseRequest, loop=asyncio.get_running_loop())
        super().__init__(handler, request_factory=new_request, **settings)
        self._ends, self._listener, self._repeats, self._settings = ends, listener, repeats, settings
        self._has_certificates = has_certificates
        self._connections_max, self._rates = connections_max, rates
        self.refused = 0
        """Number of connections refused because of `connections_max`."""
        self._open: dict[HttpConnection, asyncio.Transport] = {}
        self._lost_one = asyncio.Event()

    def __call__(self) -> web.RequestHandler:
        return HttpConnection(self, loop=asyncio.get_running_loop(), **self._settings)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Register a connection with its caller; close it if it is above the limit of connections or of their rate."""
        super().connection_made(handler, transport)
        assert isinstance(handler, HttpConnection), f"{handler} was not made here"
        self._open[handler] = transport
        peer = transport.get_extra_info("peername")
        certificate = transport.get_extra_info("ssl_object") if self._has_certificates else None
        principal = certificate_principal(certificate) or ANONYMOUS
        handler.identify(Caller(principal, "", peer[0] if peer else "", self._listener), self._repeats)
        is_over_rate = self._rates.is_on and not self._rates.admits(handler.caller.address)
        if is_over_rate or len(self._open) > self._connections_max:
            self.refused += 1
            transport.write(_OVER_RATE if is_over_rate else _TOO_MANY)
            transport.close()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Remove a connection, and wake the requests and the stop that wait for its end."""
        super().connection_lost(handler, exc)
        assert isinstance(handler, HttpConnection), f"{handler} was not made here"
        self._open.pop(handler, None)
        self._ends.complete_disconnected(handler)
        self._lost_one.set()

    async def cut_off(self, authenticator: Authenticator) -> None:
        """Close connections whose user was changed or whose token has expired; check every `LOGIN_CHECK_S`, forever."""
        while True:
            await asyncio.sleep(LOGIN_CHECK_S)
            for number, (connection, transport) in enumerate(list(self._open.items()), 1):
                if connection.identity is not None and not authenticator.is_current(connection.identity):
                    transport.abort()
                if number % _CHECKED_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait at most `seconds` until no connection is open."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._open:
                    self._lost_one.clear()
                    await self._lost_one.wait()

    async def close_idle(self, seconds: float) -> None:
        """Close idle connections, and wait at most `seconds` until the others end after their answers.

        A connection on which a request is arriving is not idle, even when none of the request was read yet."""
        for connection, transport in list(self._open.items()):
            if connection.is_waiting and not _has_arrived(transport):
                connection.force_close()
        await self.wait_until_empty(seconds)


def _has_arrived(transport: asyncio.Transport) -> bool:
    """Return whether the kernel holds received bytes of this connection that were not read."""
    socket = transport.get_extra_info("socket")
    if socket is None or transport.is_closing():
        return False
    unread = ioctl(socket.fileno(), FIONREAD, bytes(4))
    return any(unread)
