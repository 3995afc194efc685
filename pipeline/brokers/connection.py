"""Brokers asked from code that is not asynchronous: a `BrokerClient` on an event loop in a thread of its own.

So it works wherever Spark calls (planning and tasks, a notebook whose own loop is running), and a task can have its
next chunk fetched while it decodes the last. What passes (no leader, a broker that was killed, a full queue) is asked
again, ever more rarely, until it took too long; nothing here changes anything, so that is always safe.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from raftlog.client import BrokerClient
from raftlog.client.outage import Outage
from raftlog.errors import RaftlogError

PAUSE_S_MAX: Final = 1.0
_T = TypeVar("_T")


class BrokerConnection:
    """`with Connection(["127.0.0.1:8082"]) as brokers: brokers.ask(lambda client: client.topics())`; of one thread."""

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="raftlog-brokers", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(_made(bootstrap)).result()
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, question: Callable[[BrokerClient], Coroutine[Any, Any, _T]]) -> _T:
        """Ask and wait; raises what the question raises."""
        return self.start(question).result()

    def start(self, question: Callable[[BrokerClient], Coroutine[Any, Any, _T]]) -> "Future[_T]":
        """Ask and go on; the future can be cancelled."""
        return self._run(question(self._client))

    def close(self) -> None:
        """Ends what is under way."""
        if not self._loop.is_closed():
            self._run(_ended(self._client)).result()
            self._end()

    def _run(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _made(bootstrap: Sequence[str]) -> BrokerClient:
    return BrokerClient(bootstrap)


async def _ended(client: BrokerClient) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await client.close()


async def patiently(attempt: Callable[[], Awaitable[_T]], patience_s: float) -> _T:
    """Return the result of the first attempt that succeeds; raises as `Outage.repeat`."""
    return await Outage("request to the brokers", patience_s, PAUSE_S_MAX).repeat(attempt)


async def know_all(client: BrokerClient) -> None:
    """Brokers that were given may go away, and others come: as far as it can be had now."""
    with contextlib.suppress(RaftlogError):
        await client.cluster_view()
