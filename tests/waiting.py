"""Waiting for conditions: brokers in this process run on the test's loop, others send no events, so they are polled.

Tests have no other polling loops. The first looks are in successive turns of the loop; then pauses grow up to
`LOOK_S_MAX`. A condition that does not come to pass fails the test after `WITHIN_S`, whatever other work the machine
has."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import repeat
from typing import Final, TypeVar

WITHIN_S: Final = 60.0
"""Far more than any awaited condition takes."""
LOOK_S_MAX: Final = 0.02
_LOOK_S_MIN: Final = 0.0005
_TURNS: Final = 10

T = TypeVar("T")


def _pauses() -> Iterator[float]:
    yield from repeat(0.0, _TURNS)
    pause_s = _LOOK_S_MIN
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LOOK_S_MAX)


def _nothing() -> object:
    return ""


async def until(condition: Callable[[], T], what: Callable[[], object] = _nothing, *, within_s: float = WITHIN_S) -> T:
    """Wait until the condition is true; return its value.

    Raise `AssertionError` with the text of `what` after a timeout."""

    async def hold() -> T:
        return condition()

    return await until_async(hold, what, within_s=within_s)


async def until_async(
    condition: Callable[[], Awaitable[T]], what: Callable[[], object] = _nothing, *, within_s: float = WITHIN_S
) -> T:
    """Wait until an asynchronous condition is true; return its value, or raise as `until` does."""
    pauses = _pauses()
    try:
        async with asyncio.timeout(within_s) as limit:
            while not (found := await condition()):
                await asyncio.sleep(next(pauses))
            return found
    except TimeoutError:
        if not limit.expired():
            raise
    raise AssertionError(f"it did not come to pass within {within_s:g} s: {what()}")


def block_until(condition: Callable[[], T], what: Callable[[], object] = _nothing, *, within_s: float = WITHIN_S) -> T:
    """Block this thread until the condition is true; return its value, or raise as `until` does."""
    until_s, pauses = time.monotonic() + within_s, _pauses()
    while not (found := condition()):
        assert time.monotonic() < until_s, f"it did not come to pass within {within_s:g} s: {what()}"
        time.sleep(next(pauses))
    return found
