"""Start of a coroutine without a task: most handlers end in their first step, or only wait for a commit.

    first step: runs at once, within the callback that read the request → done: no task was made
                                                                        → waits: a task continues it

A task would run its first step in the next turn of the loop. During the first step `asyncio.current_task` returns a
`FirstStep`, so that `asyncio.timeout` and task groups work; it forwards calls to the task that is created later.
Used by `connection`."""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from types import coroutine as awaitable_generator
from typing import Any


class FirstStep:
    """Handle of a coroutine, with the interface of its task, while its first step runs without a task."""

    __slots__ = ("__weakref__", "_cancels", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._cancels = 0
        """Number of cancellations before the task was created."""

    def continue_in(self, task: "asyncio.Task[None]") -> None:
        """Cancel `task`, which runs the rest, once per pending cancellation; forward later calls to it."""
        self._task = task
        for _ in range(self._cancels):
            task.cancel()

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the coroutine at its first wait; return whether the cancellation was accepted."""
        if self._task is not None:
            return self._task.cancel(msg)
        self._cancels += 1
        return True

    def cancelling(self) -> int:
        """Return the number of pending cancellations."""
        return self._cancels if self._task is None else self._task.cancelling()

    def uncancel(self) -> int:
        """Withdraw a cancellation; return the number of remaining ones."""
        if self._task is not None:
            return self._task.uncancel()
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def done(self) -> bool:
        """Return whether the coroutine has ended."""
        return self._task is not None and self._task.done()

    def get_name(self) -> str:
        """Return a name for log lines."""
        return "first step" if self._task is None else self._task.get_name()


def start(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> "asyncio.Task[None] | None":
    """Run a coroutine up to its first wait; return the task that continues it, or None if it has ended.

    An exception of the first step is raised here."""
    outer = asyncio.current_task(loop)
    if outer is not None:
        _leave_task(loop, outer)
    step = FirstStep()
    _enter_task(loop, step)  # type: ignore[arg-type]  # documented for tasks of others, which need not be Task
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    finally:
        _leave_task(loop, step)  # type: ignore[arg-type]
        if outer is not None:
            _enter_task(loop, outer)
    rest = _run_rest(work, waits_for)
    rest.send(None)  # begun: a cancellation of its task reaches `work` from now on, even before the task's first step
    task = loop.create_task(rest)
    step.continue_in(task)
    return task


async def _run_rest(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    """Run the remaining steps of a coroutine whose first step has been run; `waits_for` is the future it waits for."""
    await _continue_after_wait(work, waits_for)


@awaitable_generator
def _continue_after_wait(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """Continue the coroutine after its first wait; an error of the wait is raised inside the coroutine.

    The first value is None, before a task runs it."""
    is_begun = False
    while True:
        try:
            if not is_begun:
                is_begun = True
                yield None
            yield waits_for
        except BaseException as error:  # noqa: BLE001 - the coroutine gets it
            try:
                waits_for = work.throw(error)
            except StopIteration:
                return
        else:
            yield from work
            return
