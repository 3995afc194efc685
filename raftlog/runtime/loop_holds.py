"""Steps that held the event loop for more than 5 ms, by name.

A step's time is its wall time less the time for which the loop's thread waited for a core, and less that of the steps
inside of it that are counted already. The kernel's count of that waiting (`schedstat`) is read only after a long step
and at each tick, so a few milliseconds of waiting before the step may be subtracted as well. A late tick that no step
accounts for counts as `other`: most callbacks of the loop are no steps.

`LOOP_HOLDS` is the counter of the process, and counts nothing before `begin`, which only a composition root calls.
Steps of other threads are not counted."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from raftlog.events import event
from raftlog.runtime.histogram import stopwatch

HELD_FROM_S: Final = 0.005
OTHER: Final = "other"
_GROWTH: Final = 1.5
"""Factor by which a step must exceed its longest time so far to be logged again."""
_logger = logging.getLogger(__name__)


class LoopHolds:
    """Counts of work that blocked the event loop for more than `HELD_FROM_S`, with the longest time, by name."""

    def __init__(self, clock: Callable[[], float] = stopwatch) -> None:
        """Create counters that count nothing before `begin`; `clock` returns seconds."""
        self.counts: dict[str, int] = {}
        self.longest_s: dict[str, float] = {}
        self.counted_s = 0.0
        """Wall time of all counted steps; a step that contains others leaves out their time."""
        self.clock = clock
        self._waited_s: Callable[[], float] | None = None
        self._waited_before_s = 0.0
        """Reading of `_waited_s` at the last long step or tick."""
        self._waited_at_tick_s = self._counted_at_tick_s = 0.0
        self._thread = 0

    def begin(self, waited_s: Callable[[], float] | None = None) -> None:
        """Begin to count steps of the event loop that runs in the calling thread.

        `waited_s` returns the seconds for which the thread has waited for a core; default: read from `schedstat`."""
        self._thread = threading.get_ident()
        self._waited_s = waited_s or _open_core_wait_clock()
        self._waited_before_s = self._waited_at_tick_s = self._waited_s()

    def step(self, name: str) -> "Step":
        """Return a context manager that measures a named part of the loop's work; reusable, but not reentrant."""
        return Step(self, name)

    def note_since(self, began: float, name: str | Callable[..., object], counted_before_s: float) -> None:
        """Count a step if it took more than `HELD_FROM_S`.

        `began` and `counted_before_s` are the readings of the clock and of `counted_s` at its beginning."""
        wall_s = self.clock() - began
        if wall_s > HELD_FROM_S:
            self._measure_step(name, wall_s, counted_before_s)

    def _measure_step(self, name: str | Callable[..., object], wall_s: float, counted_before_s: float) -> None:
        """Count the step if it blocked the loop for long.

        The time of nested steps, which were measured themselves, and the thread's waits for a core do not count."""
        if self._waited_s is None or threading.get_ident() != self._thread:
            return
        waited_s = self._waited_s()
        wall_s -= self.counted_s - counted_before_s
        held_s = wall_s - (waited_s - self._waited_before_s)
        self._waited_before_s = waited_s
        self.counted_s += max(0.0, wall_s)
        if held_s > HELD_FROM_S:
            self._count(name if isinstance(name, str) else _name_of(name), held_s)

    def tick(self, late_s: float) -> None:
        """Record a late tick of the timer as blocked time that no measured step accounts for."""
        if self._waited_s is None:
            return
        waited_s = self._waited_s()
        other_s = late_s - (waited_s - self._waited_at_tick_s) - (self.counted_s - self._counted_at_tick_s)
        self._waited_before_s = self._waited_at_tick_s = waited_s
        self._counted_at_tick_s = self.counted_s
        if other_s > HELD_FROM_S:
            self._count(OTHER, other_s)

    def _count(self, name: str, held_s: float) -> None:
        """Count a step that held the loop for `held_s`; write an event when it is much longer than before."""
        self.counts[name] = self.counts.get(name, 0) + 1
        longest_s = self.longest_s.get(name, 0.0)
        self.longest_s[name] = max(longest_s, held_s)
        if held_s > _GROWTH * longest_s:
            event(_logger, "loop_held", step=name, held_ms=round(held_s * 1000, 1))


class Step:
    """Context manager that measures a named part of the event loop's work."""

    __slots__ = ("_began", "_counted", "_holds", "_name")

    def __init__(self, holds: LoopHolds, name: str) -> None:
        self._holds, self._name = holds, name
        self._began = self._counted = 0.0

    def __enter__(self) -> None:
        self._counted = self._holds.counted_s
        self._began = self._holds.clock()

    def __exit__(self, *_: object) -> None:
        self._holds.note_since(self._began, self._name, self._counted)


LOOP_HOLDS: Final = LoopHolds()


def _name_of(work: Callable[..., object]) -> str:
    """Return the qualified name of a function, also of one inside `partial`."""
    function = getattr(work, "func", work)
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _open_core_wait_clock() -> Callable[[], float]:
    """Return a function that reads the seconds for which this thread waited for a core; always 0 without schedstat."""
    with suppress(OSError):
        descriptor = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return lambda: int(os.pread(descriptor, 64, 0).split()[1]) / 1e9
    return lambda: 0.0
