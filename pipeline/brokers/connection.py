"""Brokers asked from code that is not asynchronous: a `BrokerClient` on an event loop in a thread of its own.

So it works wherever Spark calls (planning and tasks, a notebook whose own loop is running), and a task can have its
next chunk fetched while it decodes the last. What passes (no leader, a broker that was killed, a full queue) is asked
again, ever more rarely, until it took too long; nothing here changes anything, so that is always safe.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from raftlog.client import BrokerClient
from raftlog.client.backoff import BackOff
from raftlog.client.outage import WARN_AFTER_S
from raftlog.errors import RaftlogError, Unavailable

_log = logging.getLogger("raftlog.pipeline")
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


class Patience:
    """How long what passes is borne without progress. After a second of it the error is logged, once."""

    def __init__(self, patience_s: float) -> None:
        self._is_said = False
        self._patience_s = patience_s
        self._back_off = BackOff(PAUSE_S_MAX)
        self._well_at = time.monotonic()

    def progress(self) -> None:
        """It went well."""
        self._back_off.reset()
        self._well_at = time.monotonic()
        self._is_said = False

    async def bear(self, error: RaftlogError) -> None:
        """Pause after an error that passes. Raises it when that has gone on for too long, and one that does not pass at
        once."""
        if not isinstance(error, Unavailable):
            raise error
        waited_s = time.monotonic() - self._well_at
        if waited_s >= self._patience_s:
            raise Unavailable(f"{error} (tried for {self._patience_s:g} s)") from error
        if waited_s >= WARN_AFTER_S and not self._is_said:
            self._is_said = True
            _log.warning("waiting for up to %g s: %s", self._patience_s, error)
        await asyncio.sleep(self._back_off.next_s())


async def patiently(attempt: Callable[[], Awaitable[_T]], patience_s: float) -> _T:
    """What an attempt gives at last; raises as `Patience.bear`."""
    patience = Patience(patience_s)
    while True:
        try:
            return await attempt()
        except RaftlogError as error:
            await patience.bear(error)


async def know_all(client: BrokerClient) -> None:
    """Brokers that were given may go away, and others come: as far as it can be had now."""
    with contextlib.suppress(RaftlogError):
        await client.cluster_view()
