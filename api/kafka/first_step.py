"""Start of a coroutine without a task: most handlers end in their first step, or only wait for a commit.

    first step: runs at once, within the callback that read the request → done: no task was made
                                                                        → waits: a task continues it

A task would run its first step in the next turn of the loop. During the first step `asyncio.current_task` returns a
`FirstStep`, so that `asyncio.timeout` and task groups work; it forwards calls to the task that is created later.
Used by `connection`."""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
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
    task = loop.create_task(_Rest(work, waits_for))
    step.continue_in(task)
    return task


class _Rest(Coroutine[Any, Any, None]):
    """Remaining steps of a coroutine whose first step has been run.

    A task that is cancelled before it has begun throws the cancellation into its coroutine: here it reaches the code
    that waits, whose timeouts and `finally` blocks then run."""

    __slots__ = ("_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], waits_for: Any) -> None:
        """Set the coroutine, and the future that its first step waits for."""
        self._work, self._waits_for = work, waits_for

    def send(self, value: Any) -> Any:
        """Return the future of the first step at first, and then those of later steps."""
        waits_for = self._waits_for
        if waits_for is None:
            return self._work.send(value)
        self._waits_for = None
        return waits_for

    def throw(self, *error: Any) -> Any:
        """Raise the error where the coroutine waits."""
        self._waits_for = None
        return self._work.throw(*error)

    def close(self) -> None:
        """Close the coroutine."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("a task runs it")
