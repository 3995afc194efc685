"""Timers in a heap that has one entry for each timer, however often it is postponed. Pure.

Moving a timer to a later time (a heartbeat extends its member's session) costs nothing: its entry in the heap stays,
and is moved to its time when it comes up. Called by the machine of groups.

    time of the entry in the heap ≤ time when it is due
"""

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """Timers by key; times in seconds."""

    def __init__(self) -> None:
        """Create no timers."""
        self._due: dict[K, float] = {}
        """Time when each timer is due."""
        self._placed: dict[K, float] = {}
        """Time of each timer's earliest entry in the heap, never later than when the timer is due."""
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = count()

    def set(self, key: K, when: float) -> None:
        """Set a timer, in place of its earlier time."""
        self._due[key] = when
        if self._placed.get(key, when + 1) > when:
            self._place(key, when)

    def clear(self, key: K) -> None:
        """Clear a timer if it is set."""
        self._due.pop(key, None)

    def next_time(self) -> float | None:
        """Return the time of the earliest timer; None if none is set."""
        self._move_delayed()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Iterator[K]:
        """Yield and clear the due timers, earliest first, including those that are set meanwhile."""
        while (when := self.next_time()) is not None and when <= now:
            key = heappop(self._heap)[2]
            del self._placed[key], self._due[key]
            yield key

    def __len__(self) -> int:
        return len(self._due)

    def _place(self, key: K, when: float) -> None:
        """Add an entry of the timer to the heap."""
        self._placed[key] = when
        heappush(self._heap, (when, next(self._sequence), key))

    def _move_delayed(self) -> None:
        """Move postponed timers to their later times, until the earliest entry of the heap is up to date."""
        while self._heap:
            when, _, key = self._heap[0]
            due = self._due.get(key)
            if due == when == self._placed.get(key):
                return
            heappop(self._heap)
            if self._placed.get(key) == when:
                del self._placed[key]
                if due is not None:
                    self._place(key, due)
