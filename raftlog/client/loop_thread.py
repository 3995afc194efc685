"""An event loop in a thread of its own, for callers that have none."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from raftlog.context import ClosedAtExit
from raftlog.errors import InvalidArgument, LogClosed

R = TypeVar("R")


class LoopThread(ClosedAtExit):
    """A running event loop; `call` runs coroutines there. The thread ends with `close`, or with the program."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, R], timeout_s: float | None = None) -> R:
        """Wait for the coroutine's result in the calling thread. The coroutine is cancelled when the wait is
        interrupted, or takes longer than `timeout_s` (`TimeoutError`). Raises `LogClosed` after `close`, and
        `InvalidArgument` in a running event loop, which a wait would block."""
        problem = self._problem()
        if problem is not None:
            coroutine.close()
            raise problem
        future = self.start(coroutine)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, R]) -> "Future[R]":
        """Return the future of the coroutine, which any thread may wait for or cancel; the loop is not closed."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def create(self, make: Callable[[], R]) -> R:
        """Return what `make` returns inside the loop."""

        async def made() -> R:
            return make()

        return self.call(made())

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """End the loop and its thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _problem(self) -> Exception | None:
        if self._loop.is_closed():
            return LogClosed("the client is closed")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return None
        return InvalidArgument("a synchronous client was called in an event loop; use raftlog.client there")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


def start_client(name: str, make: Callable[[], R]) -> tuple[LoopThread, R]:
    """Return a new thread and the client that `make` creates in its loop. Raises as `make`, and ends the thread."""
    thread = LoopThread(name)
    try:
        return thread, thread.create(make)
    except BaseException:
        thread.close()
        raise
