"""JSON requests over HTTP, the base of `BrokerClient` and `AdminClient`."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import orjson

from raftlog.client.leaders import LeaderTarget
from raftlog.client.topic_names import check_name
from raftlog.client.transport import HttpTransport
from raftlog.errors import InvalidArgument, Unavailable

T = TypeVar("T")

ANSWER_MS = 10_000
"""Default bound, in milliseconds, on the time that a broker takes to answer."""
GRACE_MS = 5_000
"""Time, in milliseconds, that a client waits beyond the broker's own deadline."""

_NOTHING = b"null"
_PARSED: Any = Any
_JSON = {"Content-Type": "application/json"}


class Calls:
    """Requests with JSON bodies over one transport, which its owner closes."""

    def __init__(self, transport: HttpTransport) -> None:
        self.transport = transport

    async def read(
        self,
        kind: type[T],
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        target: LeaderTarget | None = None,
        timeout_ms: int = ANSWER_MS,
    ) -> T:
        """Send a GET request; return the answer, decoded as `kind`."""
        answer = await self.transport.request(
            "GET", path, query=query, timeout_s=answer_timeout_s(timeout_ms), repeatable=True, target=target
        )
        return decode_value(kind, answer.body)

    async def get(self, path: str, query: Mapping[str, object] | None = None, **options: Any) -> Any:
        """Return the answer to a GET request as parsed JSON; options are those of `read`."""
        return await self.read(_PARSED, path, query, **options)

    async def change(self, method: str, path: str, fields: object = None, **options: Any) -> Any:
        """Send a change as `change_as` does; return the answer as parsed JSON, None for an empty one."""
        return await self.change_as(_PARSED, method, path, fields, **options)

    async def change_as(
        self,
        kind: type[T],
        method: str,
        path: str,
        fields: object = None,
        *,
        timeout_ms: int,
        repeatable: bool = False,
        only_reads: bool = False,
        query: Mapping[str, object] | None = None,
        target: LeaderTarget | None = None,
        wait_ms: int = 0,
        is_held: bool = False,
    ) -> T:
        """Send a change with `fields` as its body; return the answer, decoded as `kind`. Raises `InvalidArgument`.

        `wait_ms`: time that the request lets the broker wait, on top of `timeout_ms`. `is_held`: the broker holds the
        answer back until other clients have acted, so the wait is not worth a warning.

        `repeatable`: sending the request twice has no further effect, so it is retried on another broker when an answer
        was lost. `only_reads`: the request changes nothing, so the outcome of a lost attempt does not matter."""
        answer = await self.transport.request(
            method,
            path,
            query={"timeout": timeout_ms, **(query or {})},
            timeout_s=answer_timeout_s(timeout_ms + wait_ms),
            repeatable=repeatable or only_reads,
            only_reads=only_reads,
            headers=_JSON if fields is not None else None,
            body=_encode_body(fields) if fields is not None else None,
            target=target,
            wait_s=(wait_ms + (timeout_ms if is_held else 0)) / 1000,
        )
        return decode_value(kind, answer.body or _NOTHING)


def _encode_body(fields: object) -> bytes:
    """Encode a body; raise `InvalidArgument` for numbers above 64 bits and strings with half a surrogate pair."""
    try:
        return orjson.dumps(fields)
    except TypeError as error:
        raise InvalidArgument(f"the request cannot be encoded as JSON: {error}") from None


def answer_timeout_s(timeout_ms: int) -> float:
    """Return the seconds to wait for an answer that the broker sends within `timeout_ms`."""
    return (timeout_ms + GRACE_MS) / 1000


def decode_value(kind: type[T], body: bytes) -> T:
    """Decode the JSON body of an answer as `kind`. Raises `Unavailable`."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Unavailable(f"the answer cannot be decoded ({error}); does that broker run another release?") from None
    except msgspec.DecodeError:
        raise Unavailable("the answer is not JSON; is another program listening at that address?") from None


def quote_segment(name: str, what: str = "topic") -> str:
    """Quote a name as one segment of a path.

    Raises `InvalidArgument` for an impossible name; the message calls it a `what`."""
    if check_name(name, what) in ("", ".", ".."):
        raise InvalidArgument(f"{name!r} is not possible as a {what}")
    return quote(name, safe="")
