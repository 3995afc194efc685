"""Synchronous connection to brokers: a `BrokerClient` on an event loop in its own thread.

It works in planning, in tasks, and in a notebook whose thread runs an event loop; a task can fetch its next chunk while
it decodes the last one. Transient errors (no leader, a broker that crashed, a full queue) are retried with growing
pauses until the timeout. Requests change nothing, so retries are always safe."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from raftlog.client import BrokerAddresses, BrokerClient
from raftlog.client.loop_thread import LoopThread
from raftlog.client.outage import Outage
from raftlog.context import ClosedAtExit
from raftlog.errors import RaftlogError

PAUSE_S_MAX: Final = 1.0
_T = TypeVar("_T")


class BrokerConnection(ClosedAtExit):
    """Synchronous client for one thread: `with BrokerConnection(…) as brokers: brokers.ask(lambda client: …)`."""

    def __init__(self, bootstrap: Sequence[str]) -> None:
        """Start a thread with an event loop, and create a client in it."""
        self._thread = LoopThread("raftlog-brokers")
        try:
            self._client = self._thread.create(lambda: BrokerClient(bootstrap))
        except BaseException:
            self._thread.close()
            raise

    def ask(self, question: Callable[[BrokerClient], Coroutine[Any, Any, _T]]) -> _T:
        """Run a request and return its result; raises its errors."""
        return self.start(question).result()

    def start(self, question: Callable[[BrokerClient], Coroutine[Any, Any, _T]]) -> "Future[_T]":
        """Start a request and return its future, which can be cancelled."""
        return self._thread.submit(question(self._client))

    def close(self) -> None:
        """Cancel running requests and close the client."""
        if not self._thread.is_closed:
            self._thread.submit(_end_tasks_and_close(self._client)).result()
            self._thread.close()


def parse_addresses(bootstrap: str | BrokerAddresses) -> Sequence[str]:
    """Return the addresses in a list `HOST:PORT,…`."""
    if isinstance(bootstrap, BrokerAddresses):
        return bootstrap
    return tuple(address.strip() for address in bootstrap.split(",") if address.strip())


async def _end_tasks_and_close(client: BrokerClient) -> None:
    """Cancel the other tasks of the loop, wait for them, and close the client."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await client.close()


async def with_retries(attempt: Callable[[], Awaitable[_T]], timeout_s: float) -> _T:
    """Return the result of the first attempt that succeeds; raises the errors of `Outage.repeat`."""
    return await Outage("request to the brokers", timeout_s, PAUSE_S_MAX).repeat(attempt)


async def refresh_addresses(client: BrokerClient) -> None:
    """Refresh the client's addresses of all brokers, if a broker answers.

    The brokers of the bootstrap list may stop, and others may join."""
    with contextlib.suppress(RaftlogError):
        await client.cluster_view()
