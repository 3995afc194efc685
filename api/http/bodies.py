"""Reading request bodies within bounds: of one body, of all bodies that are in memory, and of time.

A body that stops half way is never handed on, so nothing of it is done.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import orjson
from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, BODY_TOO_SLOW, INVALID_JSON, TOO_LARGE
from raftlog.api.http.media import require_json
from raftlog.api.http.problems import HttpProblem
from raftlog.errors import Overloaded
from raftlog.partitions.budget import Budget
from raftlog.partitions.deadline import deadline_in

T = TypeVar("T")

_STALL_S = 5.0
"""A body that stands still for so long is given up: it holds memory that others wait for."""
_STEP_BYTES = 64 * 1024


class BodyReader:
    """Shared by all connections of a server."""

    def __init__(self, body_bytes_max: int, all_bodies_bytes_max: int, body_timeout_ms: int) -> None:
        self.body_bytes_max = body_bytes_max
        self.room = Budget(max(all_bodies_bytes_max, body_bytes_max), "the HTTP server")
        """For the bytes of all bodies that are in memory."""
        self.timeout_ms = body_timeout_ms
        """A body must have arrived within this; a streamed one may be silent for so long."""

    def whole(self, request: web.BaseRequest) -> bytes | None:
        """The body, if all of it has arrived together with the head of the request. Raises `HttpProblem` 413."""
        content = request.content
        if not content.is_eof():
            return None
        body = content.read_nowait(-1)
        if len(body) > self.body_bytes_max:
            raise self._too_large()
        return body

    @asynccontextmanager
    async def receive(self, request: web.BaseRequest) -> AsyncIterator[bytearray]:
        """The body when all of it arrived; while the block runs it counts as being in memory. Raises `HttpProblem`."""
        length = self._stated_length(request)
        deadline = deadline_in(self.timeout_ms)
        await self.room.take(length, deadline)
        body = bytearray()
        taken = _Taken(self.room, length)
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._read(request, body, taken)
            except TimeoutError:
                raise HttpProblem(BODY_TOO_SLOW, "the body did not arrive in time; nothing of it was done") from None
            except (ConnectionError, web.RequestPayloadError) as error:
                raise HttpProblem(BAD_REQUEST, f"the body ended early ({error}); nothing of it was done") from None
            yield body
        finally:
            taken.release()

    async def _read(self, request: web.BaseRequest, body: bytearray, taken: "_Taken") -> None:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        content = request.content
        while not content.at_eof():
            async with asyncio.timeout(_STALL_S):
                body += await content.readany()
            if len(body) > self.body_bytes_max:
                raise self._too_large()
            taken.cover(len(body))

    def _stated_length(self, request: web.BaseRequest) -> int:
        length = request.content_length or 0
        if length > self.body_bytes_max:
            raise self._too_large()
        return length

    def _too_large(self) -> HttpProblem:
        return HttpProblem(TOO_LARGE, f"the body is larger than {self.body_bytes_max} bytes; send it in parts")

    async def json_object(self, request: web.BaseRequest) -> dict[str, Any]:
        """A body that is one JSON object; raises `HttpProblem` 415 or 422."""
        return await self._parsed(request, json_object)

    async def json_object_if_any(self, request: web.BaseRequest) -> dict[str, Any] | None:
        """The same; None where there is no body at all."""
        return await self.json_object(request) if request.body_exists else None

    async def json_list(self, request: web.BaseRequest) -> list[Any]:
        """A body that is one JSON array; raises `HttpProblem` 415 or 422."""
        return await self._parsed(request, json_list)

    async def _parsed(self, request: web.BaseRequest, parse: Callable[[bytes | bytearray], T]) -> T:
        content_type = request.headers.get("Content-Type")
        if request.body_exists or content_type is not None:
            require_json(content_type)
        body: bytes | bytearray | None = self.whole(request)
        if body is not None:
            return parse(body)
        async with self.receive(request) as body:
            return parse(body)


class _Taken:
    """What one body took of the budget; a body of unstated length takes more in steps as it grows."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget, self._size = budget, size

    def cover(self, size: int) -> None:
        """Raises `Overloaded` when there is no room for so much."""
        if size > self._size:
            step = max(size - self._size, _STEP_BYTES)
            if not self._budget.maybe_take(step):
                raise Overloaded("too many bodies are being received at once; try again")
            self._size += step

    def release(self) -> None:
        self._budget.give(self._size)


def json_object(body: bytes | bytearray) -> dict[str, Any]:
    """Raises `HttpProblem` 422."""
    parsed = _json(body)
    if type(parsed) is not dict:
        raise HttpProblem(INVALID_JSON, "the body is JSON, but no object")
    return parsed


def json_list(body: bytes | bytearray) -> list[Any]:
    """Raises `HttpProblem` 422."""
    parsed = _json(body)
    if type(parsed) is not list:
        raise HttpProblem(INVALID_JSON, "the body is JSON, but no list")
    return parsed


def _json(body: bytes | bytearray) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpProblem(INVALID_JSON, f"the body is not JSON: {error}") from None
