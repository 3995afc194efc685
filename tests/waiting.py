"""Waiting for what brokers in this process bring about: they run on the test's loop, so it looks again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

WITHIN_S: Final = 60.0
"""Far more than anything takes that happens at all."""
_LOOK_S: Final = 0.01


async def until(condition: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Wait until it holds; raises `AssertionError` with `what` is the case instead."""
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
