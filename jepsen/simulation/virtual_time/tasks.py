"""Handles, tasks and futures of the virtual loop: each has its process, and none is ordered or hashed by address.

Sets of tasks (`asyncio.TaskGroup`, `asyncio.wait`) iterate in the order of hashes, and the default hash is an address,
different in every process. Here a task or future hashes to its number in the loop, so equal seeds give equal orders.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from jepsen.simulation.node import OWNER, Process

if TYPE_CHECKING:  # the loop makes tasks, its timers hold handles
    from jepsen.simulation.virtual_time.loop import VirtualLoop
    from jepsen.simulation.virtual_time.timers import Timers

T = TypeVar("T")


class VirtualHandle(asyncio.TimerHandle):
    """Callback with its context. `process` is None for the harness; `timers` is None unless it is a pending timer."""

    __slots__ = ("arguments", "callback", "context", "is_cancelled", "process", "timers")

    def __init__(
        self, callback: Callable[..., object], arguments: tuple[Any, ...], context: Context, when: float = 0.0
    ) -> None:
        # The base class only gives the type and the interface; its own attributes are not used.
        self.callback, self.arguments, self.context = callback, arguments, context
        self.process: Process | None = context.get(OWNER)
        self.timers: Timers | None = None
        self.is_cancelled = False
        self._when = when

    def cancel(self) -> None:
        """Cancel the callback, and release the callback's objects."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback, self.arguments = _do_nothing, ()
            if self.timers is not None:
                self.timers.note_cancelled()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        """Return the timer's time in seconds, on the clock of the process that set it."""
        return self._when

    def get_context(self) -> Context:
        return self.context

    def __repr__(self) -> str:
        return f"<handle of {self.process or 'the harness'}: {name_of(self.callback)}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _do_nothing() -> None: ...


class VirtualTask(asyncio.Task[T]):
    """Task with a number; `label` is its name in the trace."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        loop: "VirtualLoop",
        name: str | None,
        context: Context,
    ) -> None:
        self.number = loop.next_number()
        self.process: Process | None = context.get(OWNER)
        self.label = crc32(f"{name_of(coroutine)} {self.number}".encode())
        super().__init__(coroutine, loop=loop, name=name or f"task-{self.number}", context=context)

    def __hash__(self) -> int:
        return self.number

    def abandon(self) -> None:
        """Remove the task from asyncio's tasks, so that its destruction is not logged."""
        asyncio.tasks._unregister_task(self)
        self._log_destroy_pending = False


class VirtualFuture(asyncio.Future[T]):
    """Future with a number, which is drawn at its first hash. The loop sets `process`."""

    # No constructor: futures are made by the million, and the one of the base class is in C.
    process: Process | None = None
    _number: int | None = None

    def __hash__(self) -> int:
        if self._number is None:
            loop: Any = self.get_loop()
            self._number = int(loop.next_number())
        return self._number


def name_of(callback: object) -> str:
    """Return a name of the callback that is the same in every process."""
    name = getattr(callback, "__qualname__", None)
    return name if isinstance(name, str) else type(callback).__qualname__
