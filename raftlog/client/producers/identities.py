"""The producer ids under which an idempotent producer sends: one, and a newer one whenever a lane has to leave it.

Lanes go on under the id that they have; only one that broke its chain of sequences takes the newer one.
"""

import asyncio

from raftlog.client.answers import ProducerIdentity
from raftlog.client.broker import BrokerClient


class Identities:
    """`current` is the id for lanes that begin; it is there after the first `have`."""

    def __init__(self, client: BrokerClient, timeout_ms: int) -> None:
        """`timeout_ms` is that of one request for an id."""
        self._client, self._timeout_ms = client, timeout_ms
        self._current: ProducerIdentity | None = None
        self._asking = asyncio.Lock()

    @property
    def current(self) -> ProducerIdentity:
        assert self._current is not None, "a lane begins when there is a producer id"
        return self._current

    async def have(self) -> None:
        """Wait until there is one; raises `Unavailable`."""
        await self._other_than(None)

    async def newer_than(self, left: ProducerIdentity, *, is_fresh: bool = False) -> ProducerIdentity:
        """One that no lane has left: what another lane got meanwhile, or a new one. Raises as `have`.

        `is_fresh`: a partition has expired the one that was left, and may have expired others of its age.
        """
        return await self._other_than(left, is_fresh=is_fresh)

    async def _other_than(self, left: ProducerIdentity | None, *, is_fresh: bool = False) -> ProducerIdentity:
        async with self._asking:
            current = self._current
            if current is None or current == left:
                current = self._current = await self._client.new_producer(
                    is_fresh=is_fresh, timeout_ms=self._timeout_ms
                )
            return current
