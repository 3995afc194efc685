"""Answers that are written in parts, at the reader's speed.

    bytes in the connection's buffer ≤ one part + the mark at which writing waits (64 KiB)

The connection is aborted if its client reads no part for `STALL_S`, because the answer holds memory that others wait
for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from raftlog.api.http.server.answers import answer_with
from raftlog.runtime.histogram import stopwatch
from raftlog.types import Buffer

logger = logging.getLogger(__name__)

PART_BYTES: Final = 64 * 1024
_WRITTEN_AT_ONCE_BYTES: Final = 256 * 1024
"""Maximum bytes of one write: several buffers are written together, so that a fast reader needs fewer writes."""
STALL_S: Final = 30.0


class PacedResponse(web.StreamResponse):
    """Response whose parts are written at the reader's speed."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(status=status, headers=CIMultiDict(headers))
        self.began: float | None = None
        """Time at which the head was sent; None before. The duration after it depends on the reader."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the head of the response, and record the time."""
        writer = await super().prepare(request)
        self.began = stopwatch()
        return writer


async def send_parts(
    request: web.BaseRequest, status: int, headers: dict[str, str], parts: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Answer with these parts, one after another; return the response. An answer to HEAD ends after the headers.

    The parts add up to the `Content-Length`, when the headers have one."""
    response = PacedResponse(status, headers)
    try:
        async with asyncio.timeout(STALL_S) as timeout:
            await response.prepare(request)
            if request.method != "HEAD":
                async for part in parts:
                    await response.write(part)
                    timeout.reschedule(asyncio.get_running_loop().time() + STALL_S)
            await response.write_eof()
    except (ConnectionError, TimeoutError) as error:
        logger.debug("the answer to %s %s was not received: %r", request.method, request.path, error)
        _abort(request, response)
    except Exception:
        logger.exception("the answer to %s %s failed", request.method, request.path)
        _abort(request, response)
    return response


def _abort(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Abort the connection; if the status was sent already, this shows the client that the answer is incomplete."""
    response.force_close()
    if request.transport is not None:
        request.transport.abort()


async def send_body(
    request: web.BaseRequest, buffers: Sequence[Buffer], content_type: str, headers: dict[str, str]
) -> web.StreamResponse:
    """Return an answer 200 with these buffers as the body.

    A body of at most `PART_BYTES` is not sent yet when this returns. A longer one is written to the connection."""
    size = sum(map(len, buffers))
    if size <= PART_BYTES:
        return answer_with(b"".join(buffers), content_type, headers)
    all_headers = {"Content-Type": content_type, "Content-Length": str(size), **headers}
    return await send_parts(request, 200, all_headers, copy_in_parts(buffers))


async def copy_in_parts(buffers: Sequence[Buffer]) -> AsyncIterator[bytes]:
    """Yield copies of the buffers in parts of at most `_WRITTEN_AT_ONCE_BYTES`.

    The connection's buffer then keeps no whole buffer alive."""
    waiting: list[Buffer] = []
    size = 0
    for buffer in buffers:
        view = memoryview(buffer)
        while size + len(view) >= _WRITTEN_AT_ONCE_BYTES:
            cut = _WRITTEN_AT_ONCE_BYTES - size
            yield b"".join((*waiting, view[:cut]))
            view, size = view[cut:], 0
            waiting.clear()
        waiting.append(view)
        size += len(view)
    if size:
        yield b"".join(waiting)
