"""Making responses."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from raftlog.api.http.server.media import JSON_TYPE
from raftlog.values.value import Value, to_json


def answer(body: bytes | bytearray, content_type: str = JSON_TYPE, status: int = 200) -> web.Response:
    """Return a response with this body."""
    return web.Response(body=body, status=status, content_type=content_type)


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
    """Return a response with more headers."""
    return web.Response(body=body, headers=CIMultiDict({"Content-Type": content_type, **headers}))


def no_content() -> web.Response:
    return web.Response(status=204)
