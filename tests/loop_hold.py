"""Observers of the event loop during a test: the longest hold by one callback, and the number of turns."""

import asyncio
import gc
import time

HOLD_S_MAX = 0.15
"""Bound on the CPU time of one callback; on a quiet machine a tenth of this is used."""


class LoopHold:
    """Context that measures the longest hold of the event loop by one callback, in CPU seconds of its thread."""

    def __init__(self):
        self.longest_s = 0.0

    async def _watch(self):
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest_s, last = max(self.longest_s, now - last), now

    async def __aenter__(self):
        gc.collect()
        gc.disable()
        self._task = asyncio.ensure_future(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *error):
        self._task.cancel()
        gc.enable()


class LoopTurns:
    """Context that counts the turns of the event loop, in which other tasks run."""

    def __init__(self):
        self.count = 0

    async def _count(self):
        while True:
            self.count += 1
            await asyncio.sleep(0)

    async def __aenter__(self):
        self._task = asyncio.ensure_future(self._count())
        return self

    async def __aexit__(self, *error):
        self._task.cancel()
