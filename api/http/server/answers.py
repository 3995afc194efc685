"""Constructors of responses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from raftlog.api.http.server.answer_heads import head_of
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.values.value import Value, to_json

_JSON_HEADERS: Final = {"Content-Type": JSON_TYPE}


class CompleteResponse(web.Response):
    """Response with a complete body, sent together with its head in one write.

    aiohttp itself sends the answer to HEAD or HTTP/1.0, and the last one of a connection."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write head and body at once if the connection stays open, otherwise as aiohttp does."""
        is_last = self._keep_alive is False or not request.keep_alive
        if is_last or request.version != HttpVersion11 or request.method == "HEAD":
            return await super().prepare(request)
        connection = request.protocol
        transport = connection.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has closed the connection")
        transport.write(self.encode())
        self._keep_alive = self._eof_sent = True
        if connection.writing_paused:
            await request.writer.drain()
        return None

    def encode(self) -> bytes:
        """Return head and body as they are sent. The head says that the connection is closed if it will be."""
        body = self._body
        assert isinstance(body, bytes | bytearray), f"{self} has no whole body"
        if self._keep_alive is False:
            self._headers["Connection"] = "close"
        head = head_of(self._status, self._reason, self._headers)
        return b"".join((head, b"%d\r\n\r\n" % len(body), body))


def encode_json_answer(body: bytes) -> bytes:
    """Return head and body of a 200 answer in JSON on a connection that stays open."""
    return b"%b%d\r\n\r\n%b" % (head_of(200, "OK", _JSON_HEADERS), len(body), body)


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
