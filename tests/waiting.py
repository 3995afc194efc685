"""Waiting for conditions of brokers in this process: they run on the test's loop, so the condition is polled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

WITHIN_S: Final = 60.0
"""Far more than any awaited condition takes."""
_LOOK_S: Final = 0.01


async def until(condition: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Wait until the condition is true; raise `AssertionError` with the text of `what` after a timeout."""
    try:
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise AssertionError(f"it did not come to pass: {what()}") from None


async def until_async(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until an asynchronous condition holds."""
    async with asyncio.timeout(WITHIN_S):
        while not await condition():
            await asyncio.sleep(_LOOK_S)
