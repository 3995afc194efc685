"""Heads of answers: status line and headers, up to the value of `Content-Length`.

Answers of one second with the same status and headers have the same head, so it is built once and kept until the
second in `Date` ends."""

import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Final

from aiohttp.http import SERVER_SOFTWARE

_HEADS_MAX: Final = 256
"""Heads that are kept."""
_ENDS_OF_HEADERS: Final = ("\r", "\n", "\0")
_heads: dict[tuple[object, ...], bytes] = {}
"""Built heads, by second, status and headers."""


def head_of(status: int, reason: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of an answer on a connection that stays open, up to the value of `Content-Length`."""
    second = int(time.time())
    key = (second, status, *headers.items())
    head = _heads.get(key)
    if head is None:
        if len(_heads) >= _HEADS_MAX:
            _heads.clear()
        head = _heads[key] = _build(second, f"{status} {reason}", headers)
    return head


def _build(second: int, status: str, headers: Mapping[str, str]) -> bytes:
    """Return status line and headers with the date of `second`, up to the value of `Content-Length`."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if any(end in line for line in lines for end in _ENDS_OF_HEADERS):
        raise ValueError(f"a header has a line end: {lines}")
    date = formatdate(second, usegmt=True)
    head = (f"HTTP/1.1 {status}", *lines, f"Date: {date}", f"Server: {SERVER_SOFTWARE}", "Content-Length: ")
    return "\r\n".join(head).encode()
