"""Unwinding the coroutines of tasks that will never run again, when a loop is closed.

Python runs the `finally` blocks of a suspended coroutine when it is destroyed, whenever that is. Here it happens at one
moment, after the end, when disk, network and history of the run have been checked: whatever these blocks do is without
effect and without meaning, and so are their errors. They are returned for the curious.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from jepsen.simulation.virtual_time.tasks import VirtualTask

ATTEMPTS_MAX: Final = 100
"""Number of attempts to close a coroutine that awaits again while it is closed."""


def unwind(loop: asyncio.AbstractEventLoop, tasks: Sequence[VirtualTask[Any]]) -> list[BaseException]:
    """Close the coroutines in this order; code that asks finds the (closed) loop running."""
    errors: list[BaseException] = []
    asyncio._set_running_loop(loop)
    try:
        for task in tasks:
            coroutine = task.get_coro()
            if coroutine is not None:
                _close(coroutine, errors)
    finally:
        asyncio._set_running_loop(None)
    return errors


def _close(coroutine: Any, errors: list[BaseException]) -> None:
    for _ in range(ATTEMPTS_MAX):
        try:
            coroutine.close()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - code that is dead has no say
            errors.append(error)
        else:
            return
