"""Longest time that the event loop worked on one thing while a test waited for others."""

import asyncio
import gc
import time

HOLD_S_MAX = 0.15
"""CPU time for which nothing else runs; on a quiet machine it is a tenth of this."""


class Hold:
    """The longest time that the loop worked on one thing, in CPU seconds of its thread."""

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
