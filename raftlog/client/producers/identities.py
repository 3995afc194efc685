"""Producer ids of an idempotent producer: one, and a newer one when a lane has to abandon it.

Other lanes keep their id; only a lane whose chain of sequences is broken takes the newer one."""

import asyncio

from raftlog.client.answers import ProducerIdentity
from raftlog.client.broker import BrokerClient


class Identities:
    """Ids of one producer; `current` is the id for new lanes, set by the first `wait_for_id`."""

    def __init__(self, client: BrokerClient, timeout_ms: int) -> None:
        """Start without an id. `timeout_ms` bounds one request for an id."""
        self._client, self._timeout_ms = client, timeout_ms
        self._current: ProducerIdentity | None = None
        self._asking = asyncio.Lock()

    @property
    def current(self) -> ProducerIdentity:
        assert self._current is not None, "a lane begins when there is a producer id"
        return self._current

    async def wait_for_id(self) -> None:
        """Wait until there is an id; raises `Unavailable`."""
        await self._get_other(None)

    async def replace(self, left: ProducerIdentity, *, is_fresh: bool = False) -> ProducerIdentity:
        """Return an id other than `left`: that of another lane, or a new one. Raises as `wait_for_id`.

        `is_fresh`: a partition has expired the id `left`, and may have expired others of its age."""
        return await self._get_other(left, is_fresh=is_fresh)

    async def _get_other(self, left: ProducerIdentity | None, *, is_fresh: bool = False) -> ProducerIdentity:
        """Return an id other than `left`; request one if no other task did so meanwhile."""
        async with self._asking:
            current = self._current
            if current is None or current == left:
                current = self._current = await self._client.new_producer(
                    is_fresh=is_fresh, timeout_ms=self._timeout_ms
                )
            return current
