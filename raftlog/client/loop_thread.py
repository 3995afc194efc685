"""Event loop in a thread of its own, for callers without one, and the clients that run there.

`waiting_call`, `loop_call` and `closing_call` turn a method of an asynchronous client into one of a `ThreadedClient`:
the same arguments, types and docstring, called in the loop of its thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from raftlog.context import ClosedAtExit
from raftlog.errors import InvalidArgument, LogClosed

R = TypeVar("R")


class LoopThread(ClosedAtExit):
    """Event loop that runs in a thread of its own; `call` runs coroutines there from other threads.

    The thread ends with `close`, or with the program."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, R], timeout_s: float | None = None) -> R:
        """Wait for the coroutine's result in the calling thread.

        The coroutine is cancelled when the wait is interrupted, or takes longer than `timeout_s` (`TimeoutError`).
        After `close` it raises `LogClosed`, and in a running event loop, which a wait would block, `InvalidArgument`.
        """
        problem = self._find_problem()
        if problem is not None:
            coroutine.close()
            raise problem
        future = self.submit(coroutine)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
        """Schedule the coroutine on the loop, which is open; return its future, which any thread may wait for."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def create(self, make: Callable[[], R]) -> R:
        """Call `make` inside the loop, and return its result."""

        async def call_make() -> R:
            """Call `make` in the event loop."""
            return make()

        return self.call(call_make())

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """Cancel the tasks of the loop, wait until they have ended, and end the loop and its thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _find_problem(self) -> Exception | None:
        """Return the error for a call that cannot be made now, or None."""
        if self._loop.is_closed():
            return LogClosed("the client is closed")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return None
        return InvalidArgument("a synchronous client was called in an event loop; use raftlog.client there")

    def _run(self) -> None:
        """Run the loop until it is stopped, then end its tasks, so that their sockets are closed, and close it."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


class _Closable(Protocol):
    """Interface of asynchronous clients that `ThreadedClient` closes."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


C = TypeVar("C", bound=_Closable)
P = ParamSpec("P")


class ThreadedClient(Generic[C]):
    """Asynchronous client in a thread of its own, where `make` creates it."""

    def __init__(self, name: str, make: Callable[[], C]) -> None:
        """Start the thread and create the client; raise the error of `make` after ending the thread."""
        self._thread = LoopThread(name)
        try:
            self._client = self._thread.create(make)
        except BaseException:
            self._thread.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._client.__aexit__(kind, error, trace))

    def _end(self, closing: Coroutine[Any, Any, R]) -> R:
        """Run the coroutine that closes the client, then end the thread."""
        try:
            return self._thread.call(closing)
        finally:
            self._thread.close()


def waiting_call(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[ThreadedClient[C], P], R]:
    """Wrap a coroutine function of a client as a call that waits for its result."""

    @wraps(method)
    def call(self: ThreadedClient[C], /, *args: P.args, **named: P.kwargs) -> R:
        """Run the client's method in the thread's loop, and wait for its result."""
        return self._thread.call(method(self._client, *args, **named))

    return call


def loop_call(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[ThreadedClient[C], P], R]:
    """Wrap a plain function of a client as a call in the client's loop."""

    @wraps(method)
    def call(self: ThreadedClient[C], /, *args: P.args, **named: P.kwargs) -> R:
        """Call the client's method in the thread's loop, and return its result."""
        return self._thread.create(lambda: method(self._client, *args, **named))

    return call


def closing_call(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[ThreadedClient[C], P], R]:
    """Wrap the function that closes a client as a call that also ends its thread."""

    @wraps(method)
    def call(self: ThreadedClient[C], /, *args: P.args, **named: P.kwargs) -> R:
        """Run the client's method in the thread's loop, then end the thread."""
        return self._end(method(self._client, *args, **named))

    return call
