"""Answers that are written in parts, as the reader takes them.

    bytes in the connection's buffer ≤ one part + the mark at which writing waits (64 KiB)

A reader that takes nothing for `STALL_S` is cut off: what an answer is made of holds memory that others wait for.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web
from multidict import CIMultiDict

logger = logging.getLogger(__name__)

PART_BYTES: Final = 64 * 1024
STALL_S: Final = 30.0


async def send_parts(
    request: web.BaseRequest, status: int, headers: dict[str, str], parts: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Answer with these parts, one after another; with a `Content-Length` in the headers they have to add up to it."""
    response = web.StreamResponse(status=status, headers=CIMultiDict(headers))
    try:
        async with asyncio.timeout(STALL_S) as patience:
            await response.prepare(request)
            async for part in parts:
                await response.write(part)
                patience.reschedule(asyncio.get_running_loop().time() + STALL_S)
            await response.write_eof()
    except (ConnectionError, TimeoutError) as error:
        # The status is sent, so the end of the connection has to say that the answer is not whole.
        logger.debug("the answer to %s %s was not taken: %r", request.method, request.path, error)
        response.force_close()
        if request.transport is not None:
            request.transport.abort()
    return response
