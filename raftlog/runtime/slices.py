"""Long work in slices, between which other work runs: no request may block the loop for over a few milliseconds.

The work is a generator that yields None wherever it may be interrupted, about every millisecond or more often."""

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.003


async def in_slices(work: Generator[None, None, T]) -> T:
    """Return the result of `work`; other tasks run after each `SLICE_S` of it."""
    until = time.perf_counter() + SLICE_S
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        if time.perf_counter() >= until:
            await asyncio.sleep(0)
            until = time.perf_counter() + SLICE_S
