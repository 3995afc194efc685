"""Waiting for a broker that is away or overloaded, up to a bound."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from raftlog.client import BrokerClient, Fetched, NotListening, OffsetRange
from raftlog.errors import Overloaded, RaftlogError, Unavailable

BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 2.0

T = TypeVar("T")


class Patience:
    """Pauses that double, until there have been enough."""

    def __init__(self, give_up_after_s: float) -> None:
        self._until = time.monotonic() + give_up_after_s
        self._pause_s = BACKOFF_SECONDS_MIN

    async def wait(self, cause: RaftlogError) -> None:
        """Pause; raises `cause` when there is no time left."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise cause
        await asyncio.sleep(min(self._pause_s, left))
        self._pause_s = min(self._pause_s * 2, BACKOFF_SECONDS_MAX)


def is_passing(error: RaftlogError) -> bool:
    """A refusal that may be over soon: not a full disk, not a damaged or closed log."""
    return type(error) in (Unavailable, Overloaded, NotListening)


class PatientReader:
    """Reads that are repeated while the broker is away. Each has `give_up_after_s` for itself."""

    def __init__(self, client: BrokerClient, topic: str, give_up_after_s: float) -> None:
        self._client, self.topic, self._give_up_after_s = client, topic, give_up_after_s

    async def offsets(self, partition: int) -> OffsetRange:
        return await self._repeat(lambda: self._client.offsets(self.topic, partition))

    async def fetch(self, partition: int, offset: int, *, timeout_ms: int, max_bytes: int) -> Fetched:
        return await self._repeat(
            lambda: self._client.fetch_batches(
                self.topic, partition, offset, timeout_ms=timeout_ms, max_bytes=max_bytes
            )
        )

    async def _repeat(self, read: Callable[[], Awaitable[T]]) -> T:
        patience = Patience(self._give_up_after_s)
        while True:
            try:
                return await read()
            except Unavailable as error:
                if not is_passing(error):
                    raise
                await patience.wait(error)
