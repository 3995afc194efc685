"""How long an attempt puts up with brokers that are away or overloaded: as long as something goes on now and then."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from raftlog.client.backoff import BackOff
from raftlog.client.outage import WARN_AFTER_S
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.pipeline.errors import WriteForgotten

_log = logging.getLogger("raftlog.pipeline")
PAUSE_S_MAX: Final = 1.0

T = TypeVar("T")


class Patience:
    """Of one lane. `timeout_ms` without progress is too long; after a second the error is logged, once."""

    def __init__(self, what: str, timeout_ms: int) -> None:
        self._what, self._timeout_s = what, timeout_ms / 1000
        self._back_off = BackOff(PAUSE_S_MAX)
        self.progressed()

    def progressed(self) -> None:
        self._back_off.reset()
        self._since_s = time.monotonic()
        self._is_said = False

    async def wait(self, error: RaftlogError) -> None:
        """A pause before the next attempt; once there was no progress for too long, raises `Unavailable` or
        `OutcomeUnknown`."""
        waited_s = time.monotonic() - self._since_s
        if waited_s >= self._timeout_s:
            kind = OutcomeUnknown if error.outcome == "unknown" else Unavailable
            raise kind(
                f"{self._what}: no progress for {self._timeout_s:g} s (the option deliveryTimeoutMs): {error}"
            ) from error
        if waited_s >= WARN_AFTER_S and not self._is_said:
            self._is_said = True
            _log.warning("%s: waiting for up to %g s: %s", self._what, self._timeout_s, error)
        await asyncio.sleep(self._back_off.next_s())

    async def reading(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer to what may be asked again. Raises what is no matter of patience."""
        while True:
            try:
                answer = await ask()
            except WriteForgotten:
                raise  # it stays so
            except (Unavailable, OutcomeUnknown) as error:
                await self.wait(error)
            else:
                self.progressed()
                return answer
