"""Python's garbage collector in a process with thousands of groups: its full collections must not hold the loop.

A full collection walks everything that was ever tracked, 50 to 90 milliseconds for each thousand groups, and nearly all
of that lives as long as the process. So what survived a full collection that took long is frozen: the collector does
not look at it again. Nothing that was garbage then is frozen; what becomes garbage later goes by its reference count,
unless it is part of a cycle: that stays until the process ends. Process-wide, so only for a composition root.
"""

import gc
import time
from typing import Any, Final

FROZEN_FROM_S: Final = 0.005
"""Full collections that are shorter are left alone."""
_FULL: Final = 2


class Collections:
    """Watches the collector from `begin` to `end`."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        """Of all full collections so far."""
        self._began = 0.0

    def begin(self) -> None:
        """Freeze what was imported, and watch from now on."""
        gc.freeze()
        gc.callbacks.append(self._observe)

    def end(self) -> None:
        """Leave everything as it was."""
        gc.callbacks.remove(self._observe)
        gc.unfreeze()

    def _observe(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._began = time.perf_counter()
            return
        elapsed_s = time.perf_counter() - self._began
        self.longest_s = max(self.longest_s, elapsed_s)
        if elapsed_s >= FROZEN_FROM_S:
            gc.freeze()
