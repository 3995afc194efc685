"""Client quotas of HTTP requests: a client that exceeded one gets 429 with `Retry-After`.

Bytes are counted at the end of a request. Streams of records count bytes while they run, and slow down instead of a
429."""

import asyncio
import math
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from aiohttp import web

from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.problems import HttpProblem
from raftlog.errors import Overloaded
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.client_rates import FETCHED, PRODUCED, REQUESTS, ClientRates
from raftlog.runtime.timed_steps import TimedSteps
from raftlog.values.error_codes import status_and_code

_QUOTAS: Final[Mapping[str, str]] = {"produce": PRODUCED, "fetch": FETCHED, "consumers": FETCHED}
"""Quota on bytes that applies to a class of requests."""
_STREAM: Final = web.RequestKey("raftlog.stream", bool)
"""Key of requests that count their bytes themselves."""


def mark_stream(request: web.BaseRequest) -> None:
    """Mark a request as a stream: `pace` counts its bytes for the quotas."""
    request[_STREAM] = True


async def pace(rates: ClientRates, caller: Caller, quota: str, size: int) -> None:
    """Count bytes of a stream, and wait while its client exceeds its quota."""
    if rates.is_on:
        rates.charge(quota, caller, size)
        delay_s = rates.throttle_s(caller, quota)
        if delay_s > 0:
            await asyncio.sleep(delay_s)


async def answer_within_quotas(
    rates: ClientRates, request: web.BaseRequest, kind: str, work: Coroutine[Any, Any, web.StreamResponse]
) -> web.StreamResponse:
    """Return the answer of `work` to a request of class `kind`; charge its bytes and time to the client's quotas.

    Raises `HttpProblem` 429, without running `work`, if the client has exceeded a quota."""
    caller, quota = caller_of(request), _QUOTAS.get(kind)
    delay_s = rates.throttle_s(caller, REQUESTS) if quota is None else rates.throttle_s(caller, REQUESTS, quota)
    if delay_s > 0:
        work.close()
        wait_s = math.ceil(delay_s)
        raise HttpProblem(
            status_and_code(Overloaded())[:2],
            f"{caller.principal} exceeded its quota; retry after {wait_s} s",
            {"Retry-After": str(wait_s)},
        )
    timed = TimedSteps(work)
    response: web.StreamResponse | None = None
    try:
        response = await timed
    finally:
        rates.charge(REQUESTS, caller, timed.seconds)
        if quota is not None and not request.get(_STREAM):
            size = request.content.total_bytes if quota == PRODUCED else _size_of(response)
            rates.charge(quota, caller, size)
    return response


def _size_of(response: web.StreamResponse | None) -> int:
    """Return the bytes of a body that was sent or will be."""
    if response is None:
        return 0
    if response.prepared:
        return response.body_length
    body = response.body if isinstance(response, web.Response) else None
    return len(body) if isinstance(body, bytes | bytearray) else 0
