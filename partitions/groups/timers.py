"""When what is due: one heap, in which a timer that is set later again and again stands once. Pure.

A timer that moves away (a heartbeat moves its member's session) costs nothing: its place in the heap stays, and it is
put where it belongs when that comes up. Called by the machine of groups.

    place in the heap ≤ when it is due
"""

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """By keys; times in seconds."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        """When each is really due."""
        self._placed: dict[K, float] = {}
        """Its nearest place in the heap, which is never later than when it is due."""
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = count()

    def set(self, key: K, when: float) -> None:
        """Due then, whatever it was before."""
        self._due[key] = when
        if self._placed.get(key, when + 1) > when:
            self._place(key, when)

    def clear(self, key: K) -> None:
        """Not due any more; nothing where it was not."""
        self._due.pop(key, None)

    def next(self) -> float | None:
        """The earliest, None when there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: float) -> Iterator[K]:
        """Those that are due, earliest first, each cleared when it is given; those that are set meanwhile too."""
        while (when := self.next()) is not None and when <= now:
            key = heappop(self._heap)[2]
            del self._placed[key], self._due[key]
            yield key

    def __len__(self) -> int:
        return len(self._due)

    def _place(self, key: K, when: float) -> None:
        self._placed[key] = when
        heappush(self._heap, (when, next(self._sequence), key))

    def _settle(self) -> None:
        """Until what comes first is really due first."""
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
