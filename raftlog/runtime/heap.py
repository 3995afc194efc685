"""Python's garbage collector in a process with thousands of Raft groups: full collections must not block the loop.

A full collection walks everything that was ever tracked, 50 to 90 milliseconds for each thousand groups, and nearly all
of that lives as long as the process. So objects that survived a long full collection are frozen: the collector ignores
them from then on. Nothing that was garbage then is frozen; later garbage is freed by its reference count, unless it is
part of a cycle: that stays until the process ends. Process-wide, so only for a composition root.

    frozen: at `begin` imported objects, at `settle` those of the start, after long full collections the survivors"""

import gc
from typing import Any, Final

from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.loop_holds import LOOP_HOLDS

FROZEN_FROM_S: Final = 0.005
"""Duration of a full collection from which on its survivors are frozen."""
_FULL: Final = 2


class Collections:
    """Control of the garbage collector from `begin` to `end`: measures collections, and freezes long-lived objects."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        """Longest of all full collections so far."""
        self._began = self._counted_s = 0.0

    def begin(self) -> None:
        """Freeze the imported objects, and observe from now on."""
        gc.freeze()
        gc.callbacks.append(self._observe)

    def settle(self) -> None:
        """Free the garbage of the start and freeze the rest, so that no collection under load traverses it."""
        gc.collect()
        gc.freeze()

    def end(self) -> None:
        """Restore the collector to its former state."""
        gc.callbacks.remove(self._observe)
        gc.unfreeze()

    def _observe(self, phase: str, info: dict[str, Any]) -> None:
        """Measure a garbage collection; freeze the heap after a full one that took `FROZEN_FROM_S` or longer."""
        if phase == "start":
            self._began, self._counted_s = stopwatch(), LOOP_HOLDS.counted_s
            return
        LOOP_HOLDS.note_since(self._began, "garbage collection", self._counted_s)
        if info["generation"] != _FULL:
            return
        elapsed_s = stopwatch() - self._began
        self.longest_s = max(self.longest_s, elapsed_s)
        if elapsed_s >= FROZEN_FROM_S:
            gc.freeze()
