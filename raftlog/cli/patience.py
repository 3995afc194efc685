"""Waiting for a broker that is away or overloaded, up to a bound."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from raftlog.client import BrokerClient, Fetched, NotListening, OffsetRange
from raftlog.client.outage import Outage
from raftlog.errors import Overloaded, RaftlogError, Unavailable

PAUSE_SECONDS_MAX = 2.0

T = TypeVar("T")


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
        outage = Outage(f"topic {self.topic}", self._give_up_after_s, PAUSE_SECONDS_MAX)
        try:
            while True:
                try:
                    return await read()
                except Unavailable as error:
                    if not is_passing(error):
                        raise
                    await outage.pause(error)
        finally:
            outage.end()
