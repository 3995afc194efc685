"""One HTTP connection: aiohttp's protocol with a loop of requests that needs fewer turns of the event loop.

aiohttp runs each handler in a task of its own, which costs two more turns for each request. Here handlers run in the
task of their connection, one after another. A request with the same head as one before it does not pass through aiohttp
at all (`repeated_requests`). Made by `connections`."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http import StreamWriter
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import _PAYLOAD_ACCESS_ERROR, ERROR, _ErrInfo

from raftlog.api.codes import BAD_REQUEST, INTERNAL
from raftlog.api.http.server.answers import CompleteResponse, answer, encode_json_answer
from raftlog.api.http.server.problems import HttpProblem, error_body
from raftlog.api.http.server.repeated_requests import ArrivedHead, FoundRequest, read_head
from raftlog.events import event
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.authenticator import Identity
from raftlog.runtime.slices import Slices

logger = logging.getLogger(__name__)

_CAUSE_MAX = 200
_IS_TLS: Final = "HTTPS traffic"
"""Words of aiohttp's error for bytes of a TLS handshake."""
_NO_TLS_HERE: Final = "the client uses TLS, and this listener has none (http://)"
_RECEIVE: Final = web.RequestHandler.data_received
_HELD_S_MAX: Final = 0.5
_UNKNOWN: Final = -1
"""Value of `_missing` after a head that can have more than one meaning, or after more bytes than one request has."""


class Repeats(Protocol):
    """Application that answers requests by heads that it accepted before."""

    def find_repeated(self, connection: "HttpConnection", data: bytes) -> FoundRequest | None:
        """Return the request of which `data` is the head, alone or with the whole body; None for other data."""

    def answer_repeated(self, connection: "HttpConnection", found: FoundRequest) -> Awaitable["bytes | web.Response"]:
        """Return the body of a 200 answer in JSON, or another answer."""


class HttpConnection(web.RequestHandler):
    """Connection of aiohttp with the caller of its requests, and with its own loop over the requests (see module)."""

    __slots__ = (
        "_held",
        "_held_timer",
        "_missing",
        "arrived_head",
        "authorization",
        "caller",
        "identity",
        "principal",
        "repeats",
    )

    caller: Caller
    """Caller of the present request."""
    principal: str
    """Principal of the connection without a login."""
    authorization: str | None
    """Header of the last login; None without one."""
    identity: Identity | None
    arrived_head: ArrivedHead | None
    """Head of the present request, if it can be remembered: it arrived in one piece, and no other request with it."""

    def identify(self, caller: Caller, repeats: Repeats) -> None:
        """Set the caller of a new connection, from its address and certificate, and the application of its listener."""
        self.caller, self.principal, self.repeats = caller, caller.principal, repeats
        self.authorization = self.identity = self.arrived_head = None
        self._missing = 0  # bytes that the parser needs to complete a request; below 0: all further ones are parsed
        self._held: tuple[FoundRequest, bytes] | None = None  # request whose body has not arrived, and its head
        self._held_timer: asyncio.TimerHandle | None = None

    def log_in(self, authorization: str, identity: Identity) -> None:
        """Set the identity and the caller of the connection after a successful login."""
        self.authorization, self.identity = authorization, identity
        self.caller = self.caller._replace(principal=identity.principal)

    def log_out(self) -> None:
        """Set the caller to that of a connection without a login."""
        self.authorization = self.identity = None
        self.caller = self.caller._replace(principal=self.principal)

    @property
    def is_waiting(self) -> bool:
        """Whether the connection waits for the head of a request."""
        return self._waiter is not None and not self._waiter.done() and self._held is None

    async def start(self) -> None:
        """Answer the requests of the connection until one of both sides closes it; aiohttp calls this once."""
        try:
            slices = Slices()
            while not self._force_close and await self._answer_next():
                self._schedule_idle_close()
                if self._messages:  # many handlers end without a wait, and would hold the loop one after the other
                    await slices.pause_if_over()
        except asyncio.CancelledError:
            self.force_close()
            raise
        if not self._force_close:
            self._task_handler = None
            if self.transport is not None:
                self.transport.close()

    async def _answer_next(self) -> bool:
        """Wait for a request and answer it; return whether the connection stays open."""
        if not self._messages:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message, body = self._messages.popleft()
        if isinstance(message, FoundRequest):
            return await self._answer_repeated(message)
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        handler = self._request_handler
        if isinstance(message, _ErrInfo):
            handler, message = self._make_error_handler(message), ERROR
        manager, new_request = self._manager, self._request_factory
        if manager is None or handler is None or new_request is None:  # the connection is lost
            return False
        manager.requests_count += 1
        request = new_request(message, body, self, StreamWriter(self, self._loop), self._task_handler)  # type: ignore[arg-type]  # this one
        try:
            response, is_lost = await self._handle_request(request, None, handler)
            if is_lost:
                return False
            self._keepalive = bool(response.keep_alive)
            if not body.is_eof():
                await self._discard_body(body)
            body.set_exception(_PAYLOAD_ACCESS_ERROR)
        except ConnectionError:
            return False
        except Exception as error:  # noqa: BLE001 - an error of one request ends its connection only
            self.log_exception("A request failed", exc_info=error)
            self.force_close()
        finally:
            request._task = None  # type: ignore[assignment]  # a circle of references
        return self._keepalive and not self._close and not self._force_close

    async def _answer_repeated(self, found: FoundRequest) -> bool:
        """Answer a request whose head is known; return whether the connection stays open."""
        self._request_in_progress = True
        try:
            answered = await self.repeats.answer_repeated(self, found)
            transport = self.transport
            if transport is None or transport.is_closing():
                return False
            self._keepalive = True
            if isinstance(answered, bytes):
                transport.write(encode_json_answer(answered))
            else:
                assert isinstance(answered, CompleteResponse), f"{answered} has no whole body"
                transport.write(answered.encode())
                self._keepalive = answered.keep_alive is not False
            await self._drain_helper()
        except ConnectionError:
            return False
        except Exception as error:  # noqa: BLE001 - an error of one request ends its connection only
            self.log_exception("A repeated request failed", exc_info=error)
            self.force_close()
        finally:
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)
        return self._keepalive and not self._close and not self._force_close

    def _schedule_idle_close(self) -> None:
        """Schedule the close of the connection after the idle time; a request that begins before cancels it."""
        close_time = self._loop.time() + self._keepalive_timeout
        self._next_keepalive_close_time = close_time
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(close_time, self._process_keepalive)

    async def _discard_body(self, body: StreamReader) -> None:
        """Discard the part of a body left by its handler, for a bounded time, so that the client gets the answer."""
        try:
            async with asyncio.timeout(self._lingering_time):
                while not body.is_eof() and not self._force_close:
                    await body.readany()
        except TimeoutError:
            self.close()

    def data_received(self, data: bytes) -> None:
        """Receive data as aiohttp does, except that it does not parse a repeated request.

        Invalid chunks of a body also fail the handler that waits for the body."""
        if not data:  # aiohttp calls this to parse what it holds
            _RECEIVE(self, data)
            return
        waiter, is_open = self._waiter, not (self._force_close or self._close)
        if self._missing == 0 and is_open and waiter is not None and not waiter.done() and not self._messages:
            held, self._held = self._held, None
            found = self.repeats.find_repeated(self, data) if held is None else held[0]._replace(body=data)
            if found is not None:
                if len(found.body) == found.body_bytes:
                    self._messages.append((found, found.body))  # type: ignore[arg-type]  # `_answer_next` knows it
                    waiter.set_result(None)
                    return
                if held is None and not found.body:
                    self._hold(found, data)
                    return
            if held is not None:
                self._parse(held[1])
        self._parse(data)

    def _hold(self, found: FoundRequest, head: bytes) -> None:
        """Hold the head of a repeated request until its body arrives, for at most `_HELD_S_MAX`."""
        self._held = found, head
        if self._held_timer is None:
            self._held_timer = self._loop.call_later(_HELD_S_MAX, self._parse_held)

    def _parse_held(self) -> None:
        """Parse a head whose body has not arrived yet; its handler then bounds the time for the body."""
        held, self._held, self._held_timer = self._held, None, None
        if held is not None:
            self._parse(held[1])

    def _process_keepalive(self) -> None:
        """Close an idle connection; one that holds a head is not idle."""
        if self._held is None:
            super()._process_keepalive()
        else:
            self._keepalive_handle = None
            self._schedule_idle_close()

    def _parse(self, data: bytes) -> None:
        """Let aiohttp parse data, and count the missing bytes of a whole request."""
        if self._missing == 0:
            head = read_head(data)
            self._missing = _UNKNOWN if head is None else head.size - len(data)
            is_alone = not self._messages and not self._request_in_progress
            self.arrived_head = head if is_alone and self._missing >= 0 else None
        elif self._missing > 0:
            self._missing -= len(data)
            if self._missing < 0:
                self.arrived_head = None
        _RECEIVE(self, data)
        request = self._current_request
        if request is not None and self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            body = request.content
            if not body.is_eof() and body.exception() is None:
                body.set_exception(web.RequestPayloadError(_parser_error(self._messages[-1][0].message)))

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume reading; aiohttp calls this twice for each body, even if reading is not paused."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def log_exception(self, *args: Any, exc_info: BaseException | None = None, **more: Any) -> None:
        """Log an exception; an invalid body, which was answered with an error, only at debug level."""
        if isinstance(exc_info, web.RequestPayloadError):
            self.log_debug("The rest of a body cannot be read: %s", exc_info)
        else:
            super().log_exception(*args, exc_info=exc_info, **more)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = INTERNAL[0],
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that is invalid or too long, and that the parser therefore refuses."""
        if status >= INTERNAL[0]:
            return super().handle_error(request, status, exc, message)
        text = _parser_error(message or str(exc))
        if _IS_TLS in text:
            caller = self.caller
            event(logger, "tls_handshake_failed", listener=caller.listener, address=caller.address, why=_NO_TLS_HERE)
        why = HttpProblem((status, BAD_REQUEST[1]), f"the request is not valid HTTP: {text}")
        response = answer(error_body(why)[1], status=status)
        response.force_close()
        return response


def caller_of(request: web.BaseRequest) -> Caller:
    """Return the caller of a request, which is kept with its connection."""
    return connection_of(request).caller


def connection_of(request: web.BaseRequest) -> HttpConnection:
    """Return the connection of a request."""
    connection = request.protocol
    assert isinstance(connection, HttpConnection), f"{connection} was not made here"
    return connection


def _parser_error(message: str | None) -> str:
    """Return the first line of an error of aiohttp's parser; later lines quote bytes of the request."""
    line, _, _ = (message or "").partition("\n")
    return ascii(line[:_CAUSE_MAX])[1:-1].rstrip(":")
