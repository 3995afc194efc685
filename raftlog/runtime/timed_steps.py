"""Time in which the event loop runs a coroutine, without the time in which it waits."""

from collections.abc import Coroutine, Generator
from time import perf_counter
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TimedSteps(Generic[T]):
    """Awaitable that runs a coroutine and adds up its computing time, without its waits, in `seconds`."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        """Run the coroutine step by step, and return its result; measure the time of each step."""
        value: Any = None
        error: BaseException | None = None
        while True:
            began = perf_counter()
            try:
                step = self._work.send(value) if error is None else self._work.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.seconds += perf_counter() - began
            value = error = None
            try:
                value = yield step
            except BaseException as raised:  # noqa: BLE001 - the coroutine gets it
                error = raised
