"""Requests with an already accepted head, which is not parsed again.

    whole POST, accepted          `RepeatedRequests.remember` keeps its head without the digits of Content-Length
    same head again, small body   `find` returns the route's handler for the body alone

A producer sends the same head with each record, and parsing it costs more than the rest of a request. A head is kept
only if it has no other headers than those in `_HEAD`, so that its bytes decide how it is understood. Login and
permissions are checked for every request. `HttpConnection` looks heads up; `HttpApp` remembers them."""

import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from aiohttp import web

from raftlog.api.http.server.permissions import RoutePermission
from raftlog.runtime.histogram import stopwatch

RepeatedHandler: TypeAlias = Callable[[bytes], Coroutine[Any, Any, "bytes | web.Response"]]
"""Handler of a repeated request's body; returns the body of a 200 answer in JSON, or another answer."""

_HEADS_MAX: Final = 1024
"""Heads that are kept; all are removed when there would be more."""
_HEAD_BYTES_MAX: Final = 1024
"""Maximum size of a head that is read here; longer ones are left to the usual way."""
_HEAD: Final = re.compile(
    rb"(?:GET|POST) /[!-~]* HTTP/1\.1\r\n"
    rb"(?:(?:Host|User-Agent|Accept|Accept-Encoding|Content-Type|Authorization): [ -~]*\r\n"
    rb"|Connection: keep-alive\r\n"
    rb"|Content-Length: \d{1,9}\r\n)+"
    rb"\r\n",
    re.IGNORECASE,
)
"""Heads that can have one meaning only. No other header may change how a request is read or answered."""
_LENGTHS: Final = re.compile(rb"\r\nContent-Length: (\d+)", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: (\d{1,9})\r\n")
"""The length as clients spell it. Another spelling is only slower: such a head is never found."""
_END: Final = b"\r\n\r\n"


class ArrivedHead(NamedTuple):
    """Head of a request as it arrived, and the length of the body that it announces, in bytes."""

    head: bytes
    body_bytes: int

    @property
    def size(self) -> int:
        """Size of head and body, in bytes."""
        return len(self.head) + self.body_bytes


class RepeatedRequest(NamedTuple):
    """Handler and permissions of a request whose head was accepted before."""

    handler: RepeatedHandler
    authorization: str | None
    """Header with the login; None without one."""
    permissions: Sequence[RoutePermission]
    args: Sequence[str]
    """Arguments in the path, to which `permissions` refer."""
    kind: str
    """Class of its requests in the metrics."""


class FoundRequest(NamedTuple):
    """Request whose head was found."""

    request: RepeatedRequest
    body_bytes: int
    """Size of the body that the head announces."""
    body: bytes
    """The whole body, or nothing if only the head has arrived."""
    began: float
    """Time at which the head was found, by the stopwatch."""


def read_head(data: bytes) -> ArrivedHead | None:
    """Return the head at the start of `data` if it is whole and can have one meaning only, else None."""
    found = _HEAD.match(data, 0, _HEAD_BYTES_MAX)
    if found is None:
        return None
    head = found[0]
    lengths = _LENGTHS.findall(head)
    if len(lengths) > 1:
        return None
    return ArrivedHead(head, int(lengths[0]) if lengths else 0)


class RepeatedRequests:
    """Accepted heads of one listener. Bodies above `body_bytes_max` are left to the usual way."""

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._by_head: dict[bytes, RepeatedRequest] = {}

    def remember(self, arrived: ArrivedHead, request: RepeatedRequest) -> None:
        """Keep the head of an accepted request, unless it spells its length in an unusual way."""
        found = _LENGTH.search(arrived.head)
        if found is None:
            return
        begin, end = found.span(1)
        head = arrived.head[:begin] + arrived.head[end:]
        if len(self._by_head) >= _HEADS_MAX and head not in self._by_head:
            self._by_head.clear()
        self._by_head[head] = request

    def find(self, data: bytes) -> FoundRequest | None:
        """Return the request of which `data` is the head, alone or with the whole body; None for other data."""
        end = data.find(_END) + len(_END)
        found = _LENGTH.search(data, 0, end)
        if found is None:
            return None
        begin, stop = found.span(1)
        request = self._by_head.get(data[:begin] + data[stop:end])
        if request is None:
            return None
        body_bytes = int(found[1])
        if len(data) - end not in (0, body_bytes) or body_bytes > self._body_bytes_max:
            return None
        return FoundRequest(request, body_bytes, data[end:], stopwatch())
