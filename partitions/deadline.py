"""Deadlines: absolute times on the event loop's clock, so that one number travels through every layer unchanged."""

import asyncio
from typing import NewType

Deadline = NewType("Deadline", float)
"""A `loop.time()` after which the caller no longer waits."""

NEVER = Deadline(float("inf"))


def deadline_in(milliseconds: float) -> Deadline:
    """The deadline that lies this far from now."""
    return Deadline(asyncio.get_running_loop().time() + milliseconds / 1000)
