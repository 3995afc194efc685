"""Decompression of batches for the readers of one broker, in slices between which other work runs.

    opened and not accounted for ≤ one batch of `opened_bytes_max` + a few pieces of 1 MiB for each caller

The size of a decompressed batch is known only at the end, so its memory is accounted for only then. Batches that are
not open after a few steps are opened one after another."""

import asyncio
from typing import Final

from raftlog.records import open_in_steps
from raftlog.runtime.slices import run_in_slices
from raftlog.types import Buffer

_STEPS_ALONE: Final = 3


class BatchOpener:
    """Opener of compressed batches for all readers of one broker; see the module."""

    def __init__(self, opened_bytes_max: int) -> None:
        self._opened_bytes_max = opened_bytes_max
        self._turn = asyncio.Lock()

    async def open(self, batch: Buffer) -> Buffer:
        """Return the batch with its records uncompressed; the batch itself if it is not compressed.

        Raises `UndecodableBatch` when it cannot be opened, or not within `opened_bytes_max`.
        """
        steps = open_in_steps(batch, self._opened_bytes_max)
        try:
            for _ in range(_STEPS_ALONE):
                next(steps)
        except StopIteration as end:
            opened: Buffer = end.value
            return opened
        async with self._turn:
            return await run_in_slices(steps)
