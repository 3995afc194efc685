"""Cleanup of coroutines whose tasks will never run again, at the close of a loop.

Python runs the `finally` blocks of a suspended coroutine when it is destroyed, at an arbitrary time. Here it happens at
a defined time, after disk, network and history of the run have been checked: these blocks have no effect any more.
Their errors are returned only for inspection.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from jepsen.simulation.virtual_time.tasks import VirtualTask

ATTEMPTS_MAX: Final = 100
"""Number of attempts to close a coroutine that awaits again while it is closed."""


def unwind(loop: asyncio.AbstractEventLoop, tasks: Sequence[VirtualTask[Any]]) -> list[BaseException]:
    """Close the coroutines of the tasks in this order, with the closed loop as the running one; return errors."""
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
    """Close the coroutine, again after an error, and add each error to `errors`."""
    for _ in range(ATTEMPTS_MAX):
        try:
            coroutine.close()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - code that is dead has no say
            errors.append(error)
        else:
            return
