"""Memory of one answer (fetched and decompressed batches, encoded records), from the budget for answers.

    charged: 0 up to `UNCHARGED_BYTES`, then all of `size`

Memory is taken after the long poll, when the size of the answer is known. It is released when the rest of the answer is
in the connection's buffer. Nothing waits for memory here: an answer becomes smaller, or is refused. Used by fetches,
tails and polls of consumer instances."""

from typing import Final, Self

from raftlog.errors import MemoryBudgetExceeded
from raftlog.runtime.memory_budget import MemoryBudget

UNCHARGED_BYTES: Final = 64 * 1024
"""Answers up to this size are written in one step: then only the connection's buffer has their bytes."""


class AnswerMemory:
    """Memory of one answer, taken from a budget; a context manager that releases all of it."""

    __slots__ = ("_budget", "_charged", "_is_forced", "_reserved", "size")

    def __init__(self, budget: MemoryBudget, *, is_forced: bool = False) -> None:
        """Create the memory of an answer.

        `is_forced`: take memory even beyond the budget's limit, for an answer that cannot be refused any more."""
        self._budget, self._is_forced = budget, is_forced
        self._charged = self._reserved = 0
        self.size = 0
        """Bytes of the answer in memory."""

    @property
    def has_room(self) -> bool:
        """Whether any memory is free."""
        return self._budget.free > 0

    def room(self, wanted: int) -> int:
        """Return the bytes that an answer may use now: `wanted`, at most half of the free memory, and at least 1."""
        if wanted <= UNCHARGED_BYTES:
            return wanted
        return max(1, min(wanted, self._budget.free // 2))

    def reserve(self, wanted: int) -> int:
        """Reserve up to `wanted` bytes during a long poll, until `end_reservation`; return their number.

        Reservations share the free memory, so that all find memory when records arrive for them at the same time."""
        assert not self._reserved, "two reservations"
        if wanted <= UNCHARGED_BYTES:
            return wanted
        budget = self._budget
        self._reserved = max(UNCHARGED_BYTES, min(wanted, (budget.free - budget.promised) // 2))
        budget.promised += self._reserved
        return self._reserved

    def end_reservation(self) -> None:
        """Release the reservation, before the answer takes its memory or at the end of its long poll."""
        self._budget.promised -= self._reserved
        self._reserved = 0

    def try_add(self, size: int) -> bool:
        """Take `size` more bytes if they are free, or if no other answer holds memory; return whether it took them."""
        after = self.size + size
        missing = after - self._charged if after > UNCHARGED_BYTES else 0
        if missing > 0:
            if self._is_forced or self._budget.used == self._charged:
                self._budget.take_anyway(self, missing)
            elif not self._budget.try_take(self, missing):
                return False
            self._charged += missing
        self.size = after
        return True

    def add(self, size: int) -> None:
        """Take `size` more bytes. Raises `MemoryBudgetExceeded`."""
        if not self.try_add(size):
            budget = self._budget
            budget.refused += 1
            raise MemoryBudgetExceeded(
                f"{budget.used} of {budget.limit} bytes of memory for answers are in use (--memory-budget-bytes), and "
                f"this one needs {size} more; try again, or ask for fewer bytes at once"
            )

    def release_part(self, size: int) -> None:
        """Release `size` bytes."""
        self.size -= size
        assert self.size >= 0, f"released {-self.size} bytes more than were taken"
        left = self.size if self.size > UNCHARGED_BYTES else 0
        if left < self._charged:
            self._budget.release_part(self, self._charged - left)
            self._charged = left

    def release(self) -> None:
        """Release all memory, and the reservation."""
        self.end_reservation()
        if self._charged:
            self._budget.release(self)
        self.size = self._charged = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()
