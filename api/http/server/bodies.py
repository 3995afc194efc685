"""Reader of request bodies with bounds on one body, on all bodies in memory, and on time.

Memory is taken as bytes arrive, not for the announced length. A body that arrives below the minimum rate, or that ends
early, does not reach its handler, so the request has no effect.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import orjson
from aiohttp import StreamReader, web
from aiohttp.hdrs import CONTENT_ENCODING

from raftlog.api.codes import BAD_REQUEST, BODY_TOO_SLOW, INVALID_JSON, TOO_LARGE
from raftlog.api.http.json_body import read
from raftlog.api.http.server.content_encoding import decoder_of
from raftlog.api.http.server.held_memory import HeldMemory
from raftlog.api.http.server.media import require_json
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import expects_continue, header
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.runtime.memory_budget import MemoryBudget

T = TypeVar("T")
B = TypeVar("B")

JSON_BODY_BYTES_MAX = 1024 * 1024
"""The largest JSON body of a request that produces no records. It is parsed at once, into up to 35 times its size."""
UNCHARGED_BYTES_MAX = 4 * 1024
"""Bodies up to this size take no memory from the budget: they count as part of their connection."""
_EMPTY = frozenset((b"", b"{}", b"null"))
"""Bodies without content."""
_WINDOW_S = 5.0
"""Interval at which the rate of a body is checked."""


class ReceivedBody(NamedTuple):
    """Received body of a request, and the memory that is taken for it and for the objects made from it."""

    data: bytes | bytearray
    held: HeldMemory


class BodyReader:
    """Reader of request bodies for all connections of a server; `memory` is their budget."""

    def __init__(self, body_bytes_max: int, memory: MemoryBudget, body_timeout_ms: int, bytes_per_s_min: int) -> None:
        """Prepare to read bodies up to `body_bytes_max` bytes, which must arrive in `body_timeout_ms`.

        A slower body than `bytes_per_s_min` is refused; `memory` is charged for bodies."""
        self.body_bytes_max = body_bytes_max
        self.memory = memory
        self.timeout_ms = body_timeout_ms
        """Time in which a whole body must arrive; of a streamed body, the longest time without data."""
        self._window_bytes_min = max(1, int(bytes_per_s_min * _WINDOW_S))

    def read_if_arrived(self, request: web.BaseRequest) -> bytes | None:
        """Return the body if it arrived with the head and has no `Content-Encoding`; else None.

        Raises `HttpProblem` 413."""
        content = request.content
        if not content.is_eof() or CONTENT_ENCODING in request.headers:
            return None
        body = content.read_nowait(-1)
        if len(body) > self.body_bytes_max:
            raise _too_large_error(self.body_bytes_max)
        return body

    @asynccontextmanager
    async def receive(self, request: web.BaseRequest, bytes_max: int | None = None) -> AsyncIterator[ReceivedBody]:
        """Return a context manager that receives a whole body, and releases its memory at the end of the block.

        Raises `HttpProblem`, and `MemoryBudgetExceeded` when no memory was released in time."""
        bytes_max = self.body_bytes_max if bytes_max is None else min(bytes_max, self.body_bytes_max)
        if (request.content_length or 0) > bytes_max:
            raise _too_large_error(bytes_max)
        deadline = deadline_in(self.timeout_ms)
        with HeldMemory(self.memory) as held:
            content = request.content
            body: bytes | bytearray
            if content.is_eof() and CONTENT_ENCODING not in request.headers:
                body = content.read_nowait(-1)
                if len(body) > bytes_max:
                    raise _too_large_error(bytes_max)
                await held.cover(len(body), deadline)
            else:
                body = await self._read(request, bytes_max, held, deadline)
            yield ReceivedBody(body, held)

    async def _read(self, request: web.BaseRequest, bytes_max: int, held: HeldMemory, deadline: Deadline) -> bytearray:
        """Receive and decode a body, taking its memory as it arrives. Raises `HttpProblem`, `MemoryBudgetExceeded`."""
        try:
            if expects_continue(request):
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0
            body, pace = bytearray(), _BodyPace(self._window_bytes_min, deadline)
            content, decoder = request.content, decoder_of(request)
            while not content.at_eof():
                piece = await pace.next_piece(content)
                for part in (piece,) if decoder is None else decoder.pieces(piece):
                    if len(body) + len(part) > bytes_max:
                        raise _too_large_error(bytes_max)
                    if not held.try_cover(len(body) + len(part)):
                        await held.cover(len(body) + len(part), deadline)
                        pace.restart()
                    body += part
                    if decoder is not None:
                        await asyncio.sleep(0)
            if decoder is not None:
                decoder.check_complete()
        except (ConnectionError, web.RequestPayloadError) as error:
            raise HttpProblem(
                BAD_REQUEST, f"the body ended early ({error}); nothing was changed, send it again"
            ) from None
        return body

    async def json_object(self, request: web.BaseRequest) -> dict[str, Any]:
        """Read a body that is one JSON object; raises `HttpProblem` 415 or 422."""
        return await self._read_and_parse(request, json_object)

    async def json_object_if_any(self, request: web.BaseRequest) -> dict[str, Any] | None:
        """Read a body that is one JSON object; return None without a body. Raises `HttpProblem` 415 or 422."""
        return await self.json_object(request) if request.body_exists else None

    async def read(self, request: web.BaseRequest, kind: type[B], **codes: tuple[int, int]) -> B:
        """Read a JSON body and convert it to the type `kind`; raises `HttpProblem` as `json_body.read`."""
        return read(await self._read_and_parse(request, _parse_json), kind, **codes)

    async def read_if_any(self, request: web.BaseRequest, kind: type[B]) -> B | None:
        """Read a JSON body and convert it to the type `kind`; return None without a body. Raises `HttpProblem`."""
        return await self.read(request, kind) if request.body_exists else None

    async def refuse(self, request: web.BaseRequest, parameters: Sequence[str]) -> None:
        """Raise `HttpProblem` 400 if the body has content; the error names the query parameters to use instead.

        Clients that always send a body may send `{}` or `null`."""
        async with self.receive(request, JSON_BODY_BYTES_MAX) as body:
            if bytes(body.data).strip() in _EMPTY:
                return
        query = f"; the query can have {', '.join(parameters)}" if parameters else ""
        raise HttpProblem(BAD_REQUEST, f"this request takes no body and would ignore it{query}")

    async def _read_and_parse(self, request: web.BaseRequest, parse: Callable[[bytes | bytearray], T]) -> T:
        """Receive a JSON body within its bound on size; return the result of `parse`."""
        content_type = header(request, "Content-Type")
        if request.body_exists or content_type is not None:
            require_json(content_type)
        async with self.receive(request, JSON_BODY_BYTES_MAX) as body:
            return parse(body.data)


class _BodyPace:
    """Check of the rate at which a body arrives: slow bodies occupy memory that other requests need."""

    def __init__(self, window_bytes_min: int, deadline: Deadline) -> None:
        self._window_bytes_min, self._deadline = window_bytes_min, deadline
        self._loop = asyncio.get_running_loop()
        self.restart()

    def restart(self) -> None:
        """Begin a new window, so that the time in which the broker did not read does not count."""
        self._arrived, self._window_ends = 0, self._loop.time() + _WINDOW_S

    async def next_piece(self, content: StreamReader) -> bytes:
        """Return the next bytes; raises `HttpProblem` 408 if too few arrive in a window, or at the deadline."""
        while True:
            try:
                async with asyncio.timeout_at(min(self._window_ends, self._deadline)):
                    piece = await content.readany()
            except TimeoutError:
                if self._arrived < self._window_bytes_min or self._loop.time() >= self._deadline:
                    raise HttpProblem(
                        BODY_TOO_SLOW, "the body did not arrive in time; nothing was changed, send it again"
                    ) from None
                self.restart()
            else:
                self._arrived += len(piece)
                return piece


def _too_large_error(bytes_max: int) -> HttpProblem:
    """Return the error for a body above the limit."""
    return HttpProblem(TOO_LARGE, f"the body is larger than {bytes_max} bytes; send it in parts")


def json_object(body: bytes | bytearray) -> dict[str, Any]:
    """Parse a JSON object; raises `HttpProblem` 422."""
    parsed = _parse_json(body)
    if type(parsed) is not dict:
        raise HttpProblem(INVALID_JSON, "the body is JSON, but not an object")
    return parsed


def _parse_json(body: bytes | bytearray) -> Any:
    """Return the JSON value of a body. Raises `HttpProblem`."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpProblem(INVALID_JSON, f"the body is not JSON: {error}") from None
