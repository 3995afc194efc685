"""Long work in slices, with other tasks in between: no request may block the loop for more than a few milliseconds.

The work is a generator that yields None wherever it may be interrupted, about every millisecond or more often."""

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.003


class Slices:
    """Time of the present slice of work that may be many small pieces."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        """Begin the first slice."""
        self._until = time.perf_counter() + SLICE_S

    async def pause_if_over(self) -> None:
        """Let other tasks run if the slice has lasted `SLICE_S`, and begin the next one."""
        if time.perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + SLICE_S


async def run_in_slices(work: Generator[None, None, T]) -> T:
    """Run `work` to its end and return its result; other tasks run after each `SLICE_S` of it."""
    slices = Slices()
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await slices.pause_if_over()
