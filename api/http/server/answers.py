"""Constructors of responses."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from raftlog.api.http.server.answer_heads import head_of
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.values.value import Value, to_json


class CompleteResponse(web.Response):
    """Response with a complete body, sent together with its head in one write.

    aiohttp itself sends the answer to HEAD or HTTP/1.0, and the last one of a connection."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write head and body at once if the connection stays open, otherwise as aiohttp does."""
        is_last = self._keep_alive is False or not request.keep_alive
        if is_last or request.version != HttpVersion11 or request.method == "HEAD":
            return await super().prepare(request)
        connection, body = request.protocol, self._body
        transport = connection.transport
        assert isinstance(body, bytes | bytearray), f"{self} has no whole body"
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        head = head_of(self._status, self._reason, self._headers)
        transport.write(b"".join((head, b"%d\r\n\r\n" % len(body), body)))
        self._keep_alive = self._eof_sent = True
        if connection.writing_paused:
            await request.writer.drain()
        return None


def answer(body: bytes | bytearray, content_type: str = JSON_TYPE, status: int = 200) -> web.Response:
    """Return a response with this body."""
    return CompleteResponse(body=body, status=status, content_type=content_type)


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a response with this value as JSON."""
    found = answer(orjson.dumps(value), JSON_TYPE, status)
    if headers:
        found.headers.update(headers)
    return found


def value_answer(
    value: Value | Sequence[Value] | Mapping[str, Any], *, version: int | None = None, status: int = 200
) -> web.Response:
    """Return a response with this value as JSON; `version` is the `ETag` that clients send as `If-Match`."""
    found = answer(to_json(value), status=status)
    if version is not None:
        found.headers["ETag"] = f'"{version}"'
    return found


def answer_with(body: bytes, content_type: str, headers: dict[str, str]) -> web.Response:
    """Return a response with this body and additional headers."""
    return CompleteResponse(body=body, headers={"Content-Type": content_type, **headers})


def no_content() -> web.Response:
    """Return the response with status 204."""
    return web.Response(status=204)
