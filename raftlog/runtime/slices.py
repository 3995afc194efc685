"""Long work in slices, with other tasks in between: no request may block the loop for more than a few milliseconds.

The work is a generator that yields None wherever it may be interrupted, about every millisecond or more often."""

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.003


async def run_in_slices(work: Generator[None, None, T]) -> T:
    """Run `work` to its end and return its result; other tasks run after each `SLICE_S` of it."""
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
