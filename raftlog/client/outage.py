"""Repeated attempts at one request: pauses between them, one warning after a second, and a limit.

outage = Outage("description of topic orders", limit_s=120)
described = await outage.repeat(lambda: client.describe_topic("orders"))
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Self, TypeVar

from raftlog.backoff import Backoff
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable

PAUSE_S_MIN: Final = 0.05
PAUSE_S_MAX: Final = 5.0
WARN_AFTER_S: Final = 1.0
_log = logging.getLogger("raftlog.client")
_T = TypeVar("_T")


def is_unanswered(error: RaftlogError) -> bool:
    """Return whether a request that changes nothing may be sent again after this error."""
    return isinstance(error, Unavailable | OutcomeUnknown)


def _is_unavailable(error: RaftlogError) -> bool:
    return isinstance(error, Unavailable)


class Outage:
    """Retries of one request, with growing pauses and a time limit for the time without a success.

    The outage lasts from the `with` block or the first failure to `end`."""

    def __init__(
        self,
        purpose: str,
        limit_s: float | None = None,
        pause_s_max: float = PAUSE_S_MAX,
        is_temporary: Callable[[RaftlogError], bool] = _is_unavailable,
    ) -> None:
        """Set up pauses, warning and limit; the outage begins later. `purpose` names the request in the warning.

        Without `limit_s`, retry without limit. `repeat` raises an error at once unless `is_temporary` returns true."""
        self._purpose, self._limit_s, self._is_temporary = purpose, limit_s, is_temporary
        self._backoff = Backoff(PAUSE_S_MIN, pause_s_max)
        self._began_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._error: RaftlogError | None = None
        self._is_reported = False

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    async def repeat(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of the first attempt that succeeds; raises like `pause`."""
        with self:
            while True:
                try:
                    return await attempt()
                except RaftlogError as error:
                    if not self._is_temporary(error):
                        raise
                    await self.pause(error)

    async def pause(self, error: RaftlogError, pause_s_max: float | None = None) -> None:
        """Wait before the next attempt, at most `pause_s_max`. Raises `error` when the limit has passed."""
        self._error = error
        began_s = self.begin()
        waited_s = asyncio.get_running_loop().time() - began_s
        if self._limit_s is not None and waited_s >= self._limit_s:
            self.end()
            error.add_note(f"{self._purpose}: no success within {self._limit_s:g} s")
            raise error
        pause_s = self._backoff.next_pause_s()
        await asyncio.sleep(pause_s if pause_s_max is None else max(0.0, min(pause_s, pause_s_max)))

    def end(self) -> None:
        """End the outage: an attempt succeeded, or no other follows."""
        if self._timer is not None:
            self._timer.cancel()
        if self._is_reported:
            _log.info(
                "%s: ended after %.1f s", self._purpose, asyncio.get_running_loop().time() - (self._began_s or 0.0)
            )
        self._began_s = self._timer = self._error = None
        self._is_reported = False
        self._backoff.reset()

    def begin(self) -> float:
        """Start the clock unless it runs; return its start in seconds of the loop."""
        if self._began_s is None:
            loop = asyncio.get_running_loop()
            self._began_s = loop.time()
            self._timer = loop.call_later(WARN_AFTER_S, self._warn)
        return self._began_s

    def _warn(self) -> None:
        """Log a warning that the request has had no success for a second."""
        self._is_reported = True
        limit = "" if self._limit_s is None else f" for up to {self._limit_s:g} s"
        _log.warning("%s: waiting%s: %s", self._purpose, limit, self._error or "no answer yet")
