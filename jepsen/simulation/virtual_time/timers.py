"""Timers of the virtual loop, by time and then by number."""

from heapq import heapify, heappop, heappush
from typing import Final

from jepsen.simulation.node import is_dead
from jepsen.simulation.virtual_time.tasks import VirtualHandle

CANCELLED_MAX: Final = 128
"""Number of cancelled timers above which they are removed, if they are also more than half of all timers."""


class Timers:
    """Pending timers of the event loop: a heap of (time, number, handle). `_cancelled` counts the cancelled ones."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, VirtualHandle]] = []
        self._cancelled = 0

    def add(self, when_ns: int, number: int, handle: VirtualHandle) -> None:
        """Add a timer; `number` rises from one timer to the next."""
        handle.timers = self
        heappush(self._heap, (when_ns, number, handle))

    def next_ns(self) -> int | None:
        """Return the time of the next timer, ignoring timers of dead processes; None without one."""
        heap = self._heap
        while heap and (heap[0][2].is_cancelled or is_dead(heap[0][2].process)):
            self._pop()
        return heap[0][0] if heap else None

    def take_due(self, now_ns: int, ready: list[VirtualHandle]) -> None:
        """Move due timers to `ready`."""
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            handle = self._pop()
            if not handle.is_cancelled:
                ready.append(handle)

    def _pop(self) -> VirtualHandle:
        """Remove the first timer from the heap and return its handle."""
        handle = heappop(self._heap)[2]
        handle.timers = None
        self._cancelled -= handle.is_cancelled
        return handle

    def note_cancelled(self) -> None:
        """Count a timer in the heap that was cancelled; rebuild the heap when there are many."""
        self._cancelled += 1
        if self._cancelled > CANCELLED_MAX and 2 * self._cancelled > len(self._heap):
            self._heap = [timer for timer in self._heap if not timer[2].is_cancelled]
            heapify(self._heap)
            self._cancelled = 0

    def clear(self) -> None:
        """Remove all timers."""
        self._heap.clear()
        self._cancelled = 0
