"""Memory of one request or one answer, taken from a shared budget.

    bytes in memory ≤ `size` + the piece that just arrived

Memory is taken in steps when it is needed, and released at the end of the request at the latest. Used by the readers of
bodies and the writers of answers."""

import asyncio
from typing import Self

from raftlog.errors import MemoryBudgetExceeded
from raftlog.partitions.deadline import Deadline
from raftlog.runtime.memory_budget import MemoryBudget

STEP_BYTES = 64 * 1024
RECORD_MEMORY_BYTES = 128
"""Memory of a record's object, without key and value."""
WAITING_MAX = 64
"""Maximum number of requests that wait for memory of one budget; their unread bytes stay in the socket."""


class HeldMemory:
    """Memory that one request takes from a budget; a context manager that releases all of it."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.size = 0
        """Bytes that are taken."""

    def try_cover(self, size: int) -> bool:
        """Take bytes up to a total of `size` if they are free now; return whether the request holds `size` bytes."""
        missing = size - self.size
        if missing <= 0:
            return True
        step = max(missing, STEP_BYTES) if self.size else missing
        if not self._budget.try_take(self, step):
            return False
        self.size += step
        return True

    async def cover(self, size: int, deadline: Deadline) -> None:
        """Take bytes up to a total of `size`; wait for them until the deadline. Raises `MemoryBudgetExceeded`.

        Requests do not deadlock: the one that has held memory for the longest always gets more."""
        missing = size - self.size
        if missing <= 0:
            return
        budget = self._budget
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not budget.take(self, missing, lambda: _grant(granted)):
            try:
                if budget.waiting_count > WAITING_MAX:
                    raise self._count_refusal()
                async with asyncio.timeout_at(deadline):
                    await granted
            except TimeoutError:
                if not granted.done() or granted.cancelled():
                    raise self._count_refusal() from None
            finally:
                # Memory that was granted at the same moment goes back with everything else.
                budget.stop_waiting(self)
        self.size += missing

    def shrink(self, size: int) -> None:
        """Release the bytes beyond `size`."""
        if size < self.size:
            self._budget.release_part(self, self.size - size)
            self.size = size

    def release(self) -> None:
        """Release all memory."""
        self._budget.release(self)
        self.size = 0

    def _count_refusal(self) -> MemoryBudgetExceeded:
        """Count a refusal, and return its error."""
        budget = self._budget
        budget.refused += 1
        return MemoryBudgetExceeded(
            f"{budget.used} of {budget.limit} bytes of memory for requests like this one are in use "
            "(--memory-budget-bytes), and too little was released in time; retry, or request less at once"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


def _grant(granted: "asyncio.Future[None]") -> None:
    """Complete the wait of a request for memory, unless it was cancelled."""
    if not granted.done():
        granted.set_result(None)
