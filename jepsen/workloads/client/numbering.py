"""Numbers of logical processes, and the random times of operations.

A process of a history has at most one open operation. So an operation takes a free process number, and releases it when
it is complete. A client whose requests hang uses more numbers. When none is free it sends nothing, and the report shows
these requests as load that was not offered.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

PER_CLIENT: Final = 2000
SENDERS_MAX: Final = 1000
_BEHIND_S_MAX: Final = 1.0
"""Seconds by which a load may be late and still send all due requests; beyond them it skips requests."""


class ProcessNumberPool:
    """Pool of process numbers, `count` from `first` on; the number that was free longest is taken first."""

    def __init__(self, first: int, count: int = SENDERS_MAX) -> None:
        self._free = deque(range(first, first + count))

    @contextmanager
    def take(self, count: int) -> Iterator[list[int]]:
        """Return `count` free process numbers and reserve them for the block; empty if fewer are free."""
        taken = [self._free.popleft() for _ in range(count)] if count <= len(self._free) else []
        try:
            yield taken
        finally:
            self._free.extend(taken)


def permanent_process(client: int, number: int) -> int:
    """Return the permanent process number of a reader, lister or committer."""
    assert SENDERS_MAX + number < PER_CLIENT, f"a client has no process {number}"
    return client * PER_CLIENT + SENDERS_MAX + number


async def pace(random: Random, rate: float, until_s: float) -> AsyncIterator[None]:
    """Yield at random moments, on average `rate` a second, until `until_s` (event-loop time)."""
    loop = asyncio.get_running_loop()
    due = loop.time() + random.expovariate(rate)
    while due < until_s:
        await asyncio.sleep(max(0.0, due - loop.time()))
        yield
        due = max(due + random.expovariate(rate), loop.time() - _BEHIND_S_MAX)
